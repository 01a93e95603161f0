// The address of a remote: whether it holds credentials, and who would get a token.

import { isIPv4, isIPv6 } from 'node:net';

const CREDENTIALS =
  '"remote" has credentials in it; leave them out, and name the environment variable that holds the token in "credentialEnv"';
const HOST = '"remote" is no address with a plain host name and port';

/** `{web}`, scheme and authority where it is asked by http; or `{reason}`. */
export function readRemote(text) {
  const found = /^([^/]*?):\/\/([^/?#]*)/.exec(text);
  if (found === null) {
    // `host:path`, or a path; before a path's first slash there is no password.
    const head = text.split('/')[0];
    const at = head.lastIndexOf('@');
    return at >= 0 && head.slice(0, at).includes(':') ? { reason: CREDENTIALS } : {};
  }
  // `helper::scheme://…`
  const scheme = found[1].split('::').pop().toLowerCase();
  const authority = found[2];
  const decoded = authority.toLowerCase().replaceAll('%3a', ':').replaceAll('%40', '@');
  const at = decoded.lastIndexOf('@');
  if (at >= 0 && (['http', 'https', 'ftp', 'ftps'].includes(scheme) || decoded.slice(0, at).includes(':'))) {
    return { reason: CREDENTIALS };
  }
  if (scheme !== 'http' && scheme !== 'https') {
    return {};
  }
  return isPlain(authority) ? { web: { scheme, authority: authority.toLowerCase() } } : { reason: HOST };
}

/** Plain http gets no token off this machine. */
export function mayHaveAToken(web) {
  return web?.scheme !== 'http' || isLoopback(hostOf(web.authority));
}

/** Whether every reader takes the authority for the same host and port. */
function isPlain(authority) {
  const host = hostOf(authority);
  const port = authority.slice(host.length);
  const inner = /^\[(.*)\]$/.exec(host)?.[1];
  const plain = inner === undefined ? /^[A-Za-z0-9._-]+$/.test(host) : isAddress6(inner);
  return plain && (port === '' || (/^:[0-9]+$/.test(port) && Number(port.slice(1)) > 0 && Number(port.slice(1)) < 65536));
}

function hostOf(authority) {
  const end = authority.lastIndexOf(']');
  return end >= 0 ? authority.slice(0, end + 1) : authority.split(':')[0];
}

function isAddress6(text) {
  return !text.includes('%') && isIPv6(text);
}

function isLoopback(host) {
  const address = host.replace(/^\[+|\]+$/g, '');
  if (host === 'localhost' || (isIPv4(address) && address.startsWith('127.'))) {
    return true;
  }
  return isAddress6(address) && new URL(`http://[${address}]/`).hostname === '[::1]';
}
