// The environment of a reference, without any token; the same as `isofold reference env` prints.

/** The user that goes with a token. */
const USER = 'x-access-token';

/**
 * What every git carries for `reference`, which is asked at `site`. Configuration entries are numbered
 * after those that `base`, an environment, has already.
 */
export function referenceEnv(reference, site, base) {
  const env = {};
  if (reference.author !== undefined) {
    for (const role of ['AUTHOR', 'COMMITTER']) {
      env[`GIT_${role}_NAME`] = reference.author.name;
      env[`GIT_${role}_EMAIL`] = reference.author.email;
    }
  }
  if (reference.credentialEnv !== undefined) {
    // An empty helper makes git forget all that the machine configured.
    const settings = [['credential.helper', '']];
    if (site !== undefined) {
      settings.push([`credential.${site}.helper`, helper(reference.credentialEnv)]);
    }
    const there = (base.GIT_CONFIG_COUNT ?? '').trim();
    const first = /^[0-9]+$/.test(there) ? Number(there) : 0;
    env.GIT_TERMINAL_PROMPT = '0';
    env.GIT_CONFIG_COUNT = String(first + settings.length);
    settings.forEach(([key, value], index) => {
      env[`GIT_CONFIG_KEY_${first + index}`] = key;
      env[`GIT_CONFIG_VALUE_${first + index}`] = value;
    });
  }
  return env;
}

/**
 * Reads the token when git asks for one; all of it is built into the shell, so the token is no argument
 * of any process. Without a token git gives up at once, instead of asking whoever else might know.
 */
function helper(variable) {
  const token = `\${${variable}}`;
  return (
    `!f() { test "$1" = get || exit 0; test -n "${token}" || { echo quit=1; exit 0; }; ` +
    `printf 'username=${USER}\\npassword=%s\\n' "${token}"; }; f`
  );
}
