// Compiled by `tsc --strict` against the package as a host finds it; never run.

import {
  branchNameOf, clearRunEnv, createStrategy, DEFAULT_EXCLUDES, gitReference, isExcluded, refOf, runEnv, runIntegrator,
  runIsolator, setRunEnv, strategy,
} from 'isofold';
import type { AttachResult, FoldBackend, FoldResult, IsolationBackend, IsolationOptions, Stop, Strategy } from 'isofold';

const options: IsolationOptions = { exclude: ['.env', '*.pem'] };
const made = createStrategy(options);
const chosen: Strategy = made.ok ? made.strategy : strategy;
if (!made.ok) {
  const reason: string = made.reason;
  console.log(reason);
}

export async function job(parent: string, child: string): Promise<string> {
  const attached: AttachResult = await chosen.isolation.attach({
    parent, child, id: 'github:o/r#9', timeoutMs: 1000, shouldInterrupt: () => false, shouldStop: () => 'clock',
  });
  if (!attached.ok) {
    if (attached.stop) {
      const stop: Stop = attached.stop;
      return stop;
    }
    return attached.detail;
  }
  const folded: FoldResult = await chosen.fold.fold({
    parent, child, subject: 's', mergeSubject: 'm', deadlineMs: 5, now: () => 0, shouldStop: () => false,
  });
  if (!folded.ok && folded.conflict) {
    return folded.report;
  }
  const aborted = await chosen.isolation.abort({ parent, child });
  const isolated = await runIsolator({
    invocation: ['--id', 'x', '--parent', parent, '--child', child], write: (line: string) => console.log(line),
    now: () => 0, interruptFlag: { interrupted: false }, cwd: '/', backend: chosen.isolation,
  });
  const integrated = await runIntegrator({
    invocation: { id: 'x', parent, child, durationMs: 5, onStatus: ['true'], mergeEngine: 'git' }, backend: chosen.fold,
  });
  const code: number = isolated.exitCode + integrated.exitCode;
  return `${code} ${isolated.child} ${integrated.parent} ${aborted.ok}`;
}

/** A backend of a host's own. */
export const isolation: IsolationBackend = {
  attach: async ({ parent, child, id }) => (id ? { ok: true } : { ok: false, detail: parent + child }),
  abort: async () => ({ ok: true }),
};
export const fold: FoldBackend = { fold: async () => ({ ok: false, conflict: true, report: 'both changed a' }) };

const parsed = gitReference.parse({ remote: '/r', branch: 'main' });
if (parsed.ok) {
  const inspected = parsed.inspect('/copy');
  const why: string = inspected.kind === 'mismatch' ? inspected.reason : inspected.kind;
  setRunEnv({ ...parsed.env, ...runEnv() });
  clearRunEnv();
  console.log(why, parsed.summary, parsed.target, parsed.materialize('/copy'));
}
const names: string[] = [branchNameOf('x'), refOf('x'), ...DEFAULT_EXCLUDES];
const out: boolean = isExcluded('a', names);
console.log(out);

// What must not compile.
// @ts-expect-error options are strict
createStrategy({ exclude: 'x' });
// @ts-expect-error a Child is needed
void strategy.isolation.attach({ parent: '/p' });
// @ts-expect-error the list is read-only
DEFAULT_EXCLUDES.push('x');
// @ts-expect-error an outcome is checked first
void strategy.fold.fold({ parent: '/p', child: '/c' }).then((result) => result.report.length);
// @ts-expect-error an id is a string
branchNameOf(9);
// @ts-expect-error variables are strings
setRunEnv({ A: 1 });

declare const console: { log(...all: unknown[]): void };
