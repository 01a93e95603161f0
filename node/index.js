// What a host loads. index.d.ts documents each name.

export { branchNameOf, refOf } from './lib/branch-name.js';
export { clearRunEnv, runEnv, setRunEnv } from './lib/env.js';
export { DEFAULT_EXCLUDES, isExcluded } from './lib/exclude.js';
export { gitReference } from './lib/reference.js';
export { runIntegrator, runIsolator } from './lib/run.js';
export { createStrategy, strategy } from './lib/strategy.js';
