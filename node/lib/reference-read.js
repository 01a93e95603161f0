// `{remote, branch, credentialEnv?, author?: {name, email}}`, read strictly; the words are those of the
// binary. No message repeats what may be a secret.

import { mayHaveAToken, readRemote } from './reference-remote.js';
import { isBlank, oneLine } from './text.js';

const KEYS = ['remote', 'branch', 'credentialEnv', 'author'];

/**
 * `{ok: true, reference, site}`, a copy that nobody else can change and `scheme://host[:port]` of a
 * remote that is asked by http; or `{ok: false, reason}`.
 */
export function readReference(raw) {
  try {
    return { ok: true, ...read(raw) };
  } catch (error) {
    if (error instanceof Refused) {
      return { ok: false, reason: error.message };
    }
    throw error;
  }
}

class Refused extends Error {}

function refuse(reason) {
  throw new Refused(reason);
}

function read(raw) {
  if (!isTable(raw)) {
    refuse('a git reference is a table with remote, branch, credentialEnv, author');
  }
  const unknown = Object.keys(raw).find((key) => !KEYS.includes(key));
  if (unknown !== undefined) {
    refuse(`unknown key "${oneLine(unknown)}" — a git reference has remote, branch, credentialEnv, author`);
  }
  const missing = ['remote', 'branch'].find((key) => raw[key] === undefined);
  if (missing !== undefined) {
    refuse(`missing "${missing}" — a git reference has remote, branch`);
  }
  const reference = { remote: text(raw.remote, 'remote'), branch: text(raw.branch, 'branch') };
  if (raw.credentialEnv !== undefined) {
    reference.credentialEnv = text(raw.credentialEnv, 'credentialEnv');
  }
  if (raw.author !== undefined) {
    reference.author = Object.freeze(readAuthor(raw.author));
  }
  if (!isBranchName(reference.branch)) {
    refuse(`"branch" can't be the name of a branch: ${oneLine(reference.branch)}`);
  }
  const { web, reason } = readRemote(reference.remote);
  if (reason !== undefined) {
    refuse(reason);
  }
  if (reference.credentialEnv !== undefined) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(reference.credentialEnv)) {
      refuse('"credentialEnv" must be the name of an environment variable: letters, digits and _, no digit first');
    }
    if (!mayHaveAToken(web)) {
      const why = 'anybody on the way could read the token; use https://';
      refuse(`"credentialEnv" is refused for http://${web.authority}: ${why}`);
    }
  }
  const site = web === undefined ? undefined : `${web.scheme}://${web.authority}`;
  return { reference: Object.freeze(reference), site };
}

function readAuthor(author) {
  if (!isTable(author) || Object.keys(author).some((key) => key !== 'name' && key !== 'email')) {
    refuse('"author" must be { name, email }');
  }
  return { name: text(author.name, 'author.name'), email: text(author.email, 'author.email') };
}

function text(value, key) {
  if (typeof value !== 'string' || isBlank(value)) {
    refuse(`"${key}" must be a non-empty string`);
  }
  if (/\p{Cc}/u.test(value)) {
    refuse(`"${key}" must not hold control characters`);
  }
  return value;
}

function isTable(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

/** Git's rules for the name of a branch. */
function isBranchName(name) {
  const parts = name.split('/');
  return (
    !name.startsWith('-') &&
    name !== 'HEAD' &&
    !/[\0- ~^:?*[\\\x7f]|\.\.|@\{|\.$/.test(name) &&
    parts.every((part) => part !== '' && !part.startsWith('.') && !part.endsWith('.lock'))
  );
}
