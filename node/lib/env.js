// The environment that every git of this process carries beside its own: that of the last reference.

let current = Object.freeze({});
let reference;
/** Variables that hold a token: nobody but the binary inherits them. */
const tokens = new Set();

/** A copy of the environment in force; `{}` where there is none. */
export function runEnv() {
  return { ...current };
}

/** Replaces the environment in force. */
export function setRunEnv(env) {
  install(env, undefined);
}

/** From here on gits carry nothing of ours. */
export function clearRunEnv() {
  current = Object.freeze({});
  reference = undefined;
}

/** `setRunEnv` for a parsed reference, which the binary then gets as it is. */
export function install(env, parsed) {
  if (env === null || typeof env !== 'object' || Array.isArray(env)) {
    throw new TypeError('an environment is an object of strings');
  }
  for (const [key, value] of Object.entries(env)) {
    if (typeof value !== 'string' || key === '' || /[=\0]/.test(key) || value.includes('\0')) {
      throw new TypeError(`the environment variable ${JSON.stringify(key)} can't have that name or value`);
    }
  }
  current = Object.freeze({ ...env });
  reference = parsed;
  if (parsed?.credentialEnv !== undefined) {
    tokens.add(parsed.credentialEnv);
  }
}

/** The reference whose environment is in force; `undefined` where a host set its own, or none. */
export function referenceInForce() {
  return reference;
}

/** What the binary gets. */
export function childEnv() {
  return { ...process.env, ...current };
}

/** What a command of the host's gets: never a token. */
export function commandEnv() {
  const kept = Object.entries(process.env).filter(([name]) => !tokens.has(name));
  return Object.fromEntries(kept);
}
