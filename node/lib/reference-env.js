// The environment of a reference.

/** What every git carries for `reference`, on top of `base`. */
export function referenceEnv(reference, base) {
  const env = {};
  if (reference.author !== undefined) {
    for (const role of ['AUTHOR', 'COMMITTER']) {
      env[`GIT_${role}_NAME`] = reference.author.name;
      env[`GIT_${role}_EMAIL`] = reference.author.email;
    }
  }
  return env;
}
