// runIsolator and runIntegrator: the host face in this process (contract §3).

import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { runIntegrator, runIsolator, strategy } from '../index.js';
import { collector, commit, git, lines, read, sandbox, withEnv, write } from './support.mjs';

/** Runs, and gives the result and the lines. */
async function isolate(invocation, more = {}) {
  const { list, write: keep } = collector();
  return { result: await runIsolator({ invocation, write: keep, ...more }), lines: list };
}

async function integrate(invocation, more = {}) {
  const { list, write: keep } = collector();
  return { result: await runIntegrator({ invocation, write: keep, ...more }), lines: list };
}

const events = (list) => list.map((line) => line.phase ?? line.event);
/** The binary, and a backend that is not: the same face. */
const BACKENDS = [['the binary', undefined], ['a backend', strategy]];

for (const [who, own] of BACKENDS) {
  const isolator = own === undefined ? {} : { backend: own.isolation };
  const integrator = own === undefined ? {} : { backend: own.fold };

  test(`${who}: lines, outcomes and exit codes of a success`, async (t) => {
    const box = sandbox(t);
    const parent = box.repo();
    const child = box.path('child');
    const made = await isolate({ id: 'w', parent, child, context: 'k' }, isolator);
    assert.deepEqual(made.result, { outcome: 'isolated', exitCode: 0, child });
    assert.deepEqual(events(made.lines), ['isolating', 'isolation-started', 'isolated', 'isolation-finished']);
    for (const line of made.lines) {
      assert.deepEqual([Object.keys(line)[0], line.key, Object.keys(line).pop(), line.id], ['key', 'k', 'id', 'w']);
    }
    assert.deepEqual(made.lines[0], { key: 'k', event: 'status', phase: 'isolating', label: 'isolating:w', id: 'w' });
    write(child, 'a', 'a\n');
    const args = ['--id', 'w', '--parent', parent, `--child=${child}`, '--subject', 'Done', '--duration-ms', '60000'];
    const folded = await integrate(args, integrator);
    assert.deepEqual(folded.result, { outcome: 'integrated', exitCode: 0, parent });
    assert.deepEqual(events(folded.lines), ['integrating', 'integration-started', 'integrated', 'integration-finished']);
    assert.equal(git(parent, 'log', '-1', '--format=%s'), 'Done');
  });

  test(`${who}: detached, and lines without an id`, async (t) => {
    const box = sandbox(t);
    const made = await isolate({ detach: true, parent: box.repo(), child: box.path('child') }, isolator);
    assert.equal(made.result.outcome, 'isolated');
    assert.deepEqual(made.lines[0], { event: 'status', phase: 'isolating', label: 'isolating' });
    assert.equal(git(box.path('child'), 'rev-parse', '--abbrev-ref', 'HEAD'), 'HEAD');
  });

  test(`${who}: failed and conflict have a report, no place, and codes of their own`, async (t) => {
    const box = sandbox(t);
    const parent = box.repo();
    const child = box.path('child');
    git(parent, 'branch', 'issue');
    const failed = await isolate({ id: 'w', parent, child }, isolator);
    assert.deepEqual([failed.result.outcome, failed.result.exitCode], ['failed', 1]);
    assert.deepEqual(Object.keys(failed.result), ['outcome', 'exitCode', 'report']);
    assert.equal(existsSync(child), false);
    git(parent, 'branch', '-D', 'issue');
    await isolate({ id: 'w', parent, child }, isolator);
    write(parent, 'a', lines({ 1: 'parent' }));
    commit(parent, 'parent');
    write(child, 'a', lines({ 1: 'child' }));
    const conflict = await integrate({ id: 'w', parent, child }, integrator);
    assert.deepEqual([conflict.result.outcome, conflict.result.exitCode], ['conflict', 1]);
    assert.match(conflict.result.report, /isofold update/);
    assert.deepEqual(events(conflict.lines), ['integrating', 'integration-started', 'conflict', 'integration-finished']);
    write(parent, '.git/MERGE_HEAD', `${git(parent, 'rev-parse', 'HEAD')}\n`);
    const busy = await integrate({ id: 'w', parent, child }, integrator);
    assert.deepEqual([busy.result.outcome, busy.result.exitCode], ['failed', 3]);
  });

  test(`${who}: invalid invocations, in the order of the contract`, async (t) => {
    const box = sandbox(t);
    const parent = box.repo();
    write(box.root, 'file', '');
    symlinkSync(parent, box.path('link'));
    mkdirSync(box.path('empty'));
    const child = box.path('child');
    const good = ['--id', 'w', '--parent', parent, '--child', child];
    const bad = async (args, words, run = isolate, how = isolator) => {
      const { result, lines: list } = await run([...args, '--context', 'k'], how);
      assert.deepEqual([result.outcome, result.exitCode], ['invalid-invocation', 2], args.join(' '));
      assert.match(result.report, words);
      assert.deepEqual(events(list), ['invalid', run === isolate ? 'isolation-finished' : 'integration-finished']);
      assert.ok(list.every((line) => !('key' in line)) && list[0].label === 'invalid');
    };
    await bad([...good, '--bogus'], /unexpected argument '--bogus'/);
    await bad([...good, 'stray'], /unexpected argument 'stray'/);
    await bad([...good, '--id', 'x'], /--id.* multiple times/);
    await bad(['--parent', parent, '--child', child, '--duration-ms', '0'], /--id is missing or empty/);
    await bad(['--id', '', '--parent', parent, '--child', child], /--id is missing or empty/);
    await bad(['--id', 'w', '--child', child, '--duration-ms', '0'], /--parent is missing/);
    await bad(['--id', 'w', '--parent', 'relative', '--duration-ms', '0'], /--child is missing/);
    for (const value of ['0', '-1', '1.5', 'x', '1e3']) {
      await bad(['--id', 'w', '--parent', 'relative', '--child', child, `--duration-ms=${value}`], /--duration-ms must be/);
    }
    await bad(['--id', 'w', '--parent', 'relative', '--child', child], /relative path/);
    await bad(['--id', 'w', '--parent', box.path('no'), '--child', 'relative'], /relative path/);
    await bad(['--id', 'w', '--parent', box.path('no'), '--child', box.path('file')], /Parent .* does not exist/);
    await bad(['--id', 'w', '--parent', box.path('file'), '--child', child], /Parent .* not a directory/);
    await bad(['--id', 'w', '--parent', parent, '--child', box.path('empty')], /exists already/);
    await bad(['--id', 'w', '--parent', parent, '--child', box.path('file/child')], /not a directory/);
    await bad(['--id', 'w', '--parent', parent, '--child', box.path('link/child')], /inside the Parent/);
    await bad([...good, '--on-status'], /--on-status needs a command/);
    const fold = (args, words) => bad(['--id', 'w', ...args], words, integrate, integrator);
    await fold(['--parent', parent, '--child', box.path('no')], /Child .* does not exist/);
    await fold(['--parent', parent, '--child', box.path('file')], /Child .* not a directory/);
    await fold(['--parent', parent, '--child', box.path('link')], /same place/);
    await fold(['--parent', parent, '--child', `${parent}/dir`], /inside/);
    await fold(['--parent', `${parent}/dir`, '--child', parent], /inside/);
  });

  test(`${who}: a clock of the host's own fires in its words`, async (t) => {
    const box = sandbox(t);
    const parent = box.repo();
    let time = 0;
    const now = () => (time += 1000);
    const made = await isolate({ id: 'w', parent, child: box.path('child'), durationMs: 1500, context: 'k' }, { now, ...isolator });
    assert.deepEqual(made.result, { outcome: 'failed', exitCode: 1, report: 'The Isolation clock fired.' });
    assert.deepEqual(events(made.lines), ['isolating', 'isolation-started', 'failed', 'isolation-finished']);
    assert.equal(made.lines[2].label, 'failed:w');
    assert.equal(existsSync(box.path('child')), false);
    await isolate({ id: 'w', parent, child: box.path('child') }, isolator);
    const folded = await integrate({ id: 'w', parent, child: box.path('child'), durationMs: 1500 }, { now, ...integrator });
    assert.deepEqual(folded.result, { outcome: 'failed', exitCode: 3, report: 'The Integration clock fired.' });
    const still = await integrate({ id: 'w', parent, child: box.path('child'), durationMs: 1 }, { now: () => 7, ...integrator });
    assert.equal(still.result.outcome, 'integrated');
  });

  test(`${who}: the interrupt flag, in each of its forms`, async (t) => {
    const box = sandbox(t);
    const parent = box.repo();
    const controller = new AbortController();
    controller.abort();
    for (const interruptFlag of [() => true, controller.signal, { interrupted: true }, { value: true }]) {
      const made = await isolate({ id: 'w', parent, child: box.path('child') }, { interruptFlag, ...isolator });
      assert.deepEqual(made.result, { outcome: 'interrupted', exitCode: 130, report: 'The isolation was interrupted.' });
      assert.deepEqual(events(made.lines), ['isolating', 'isolation-started', 'interrupted', 'isolation-finished']);
    }
    const unset = [() => false, new AbortController().signal, { interrupted: false }, { value: false }];
    for (const [index, interruptFlag] of unset.entries()) {
      const made = await isolate({ id: `w${index}`, parent, child: box.path(`child${index}`) }, { interruptFlag, ...isolator });
      assert.equal(made.result.outcome, 'isolated');
    }
    const child = box.path('child0');
    const folded = await integrate({ id: 'w', parent, child }, { interruptFlag: { interrupted: true }, ...integrator });
    assert.deepEqual([folded.result.outcome, folded.result.exitCode], ['interrupted', 130]);
    // An interrupt that races the clock wins.
    const both = await integrate({ id: 'w', parent, child, durationMs: 1 }, {
      interruptFlag: () => true, now: (() => { let n = 0; return () => (n += 1000); })(), ...integrator,
    });
    assert.equal(both.result.outcome, 'interrupted');
  });

  test(`${who}: the command of --on-status`, async (t) => {
    const box = sandbox(t);
    const parent = box.repo();
    const log = box.path('log');
    const onStatus = ['sh', '-c', 'echo "$0 $*" >>log; echo noise; exit 3'];
    const made = await isolate({ id: 'w', parent, child: box.path('child'), onStatus }, { cwd: box.root, ...isolator });
    assert.equal(made.result.outcome, 'isolated');
    assert.equal(readFileSync(log, 'utf8'), [
      '--id w --label isolating:w --phase isolating\n', '--id w --label isolated:w --phase isolated\n',
    ].join(''));
    const missing = await isolate({ id: 'x', parent, child: box.path('other'), onStatus: ['/no/such/program'] }, isolator);
    assert.equal(missing.result.outcome, 'isolated', 'its failure changes nothing');
  });
}

test('the finished line of the binary has all its fields', async (t) => {
  const box = sandbox(t);
  const made = await isolate({ id: 'w', parent: box.repo(), child: box.path('child') });
  assert.equal(made.lines.at(-1).branch, 'issue/w');
  assert.ok(Array.isArray(made.lines.at(-1).left_out));
});

test('a fold that changes isolationOptions.toml names it', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const child = box.path('child');
  await isolate({ id: 'w', parent, child });
  write(child, 'isolationOptions.toml', 'exclude = []\n');
  const folded = await integrate({ id: 'w', parent, child });
  assert.equal(folded.result.outcome, 'integrated');
  assert.equal(folded.lines.at(-1).options_changed, true);
});

test('flags of the binary alone pass through to it, and are refused for other backends', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const child = box.path('child');
  write(box.root, 'options.json', '{"exclude": ["b"]}');
  const options = { id: 'w', parent, child, options: 'options.json' };
  const refused = await isolate(options, { cwd: box.root, backend: strategy.isolation });
  assert.equal(refused.result.outcome, 'invalid-invocation');
  assert.equal((await isolate(options, { cwd: box.root })).result.outcome, 'isolated');
  write(child, 'a', 'a\n');
  const dry = await integrate({ id: 'w', parent, child, dryRun: true });
  assert.equal(dry.lines.at(-1).dry_run, true);
  assert.equal(read(parent, 'a'), lines());
});

test('an on-status command that takes too long is killed after 5 s; it is not on the clock', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const onStatus = ['sh', '-c', 'test "$4" != isolating:w || sleep 60', 'sh'];
  const began = performance.now();
  const made = await isolate({ id: 'w', parent, child: box.path('child'), durationMs: 4500, onStatus }, { backend: strategy.isolation });
  const took = performance.now() - began;
  assert.equal(made.result.outcome, 'isolated');
  assert.ok(took >= 4900 && took < 30_000, `${took} ms`);
});

test('a backend gets what it needs, and its results are told', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const child = box.path('child');
  let seen;
  const aborted = [];
  const backend = (result) => ({
    attach: async (request) => {
      seen = request;
      return typeof result === 'function' ? result(request) : result;
    },
    abort: async (request) => aborted.push(request),
  });
  const run = (result, more = {}) => isolate({ id: 'w', parent, child, durationMs: 900 }, { backend: backend(result), ...more });
  assert.equal((await run({ ok: true })).result.outcome, 'isolated');
  assert.deepEqual([seen.parent, seen.child, seen.id, seen.timeoutMs], [parent, child, 'w', 900]);
  assert.deepEqual([seen.shouldInterrupt(), seen.shouldStop()], [false, false]);
  assert.deepEqual(aborted, [], 'what succeeded stays');
  for (const [result, outcome, report] of [
    [{ ok: false, detail: 'no' }, 'failed', 'no'],
    [{ ok: false, stop: 'clock' }, 'failed', 'The Isolation clock fired.'],
    [{ ok: false, stop: 'interrupt' }, 'interrupted', 'The isolation was interrupted.'],
    [undefined, 'failed', 'the backend failed: the backend gave no result'],
    [() => { throw new Error('broken'); }, 'failed', 'the backend failed: broken'],
  ]) {
    const told = (await run(result)).result;
    assert.deepEqual([told.outcome, told.report], [outcome, report]);
  }
  assert.equal(aborted.length, 5, 'what a failed attach may have left is taken away');
  assert.deepEqual(aborted[0], { parent, child });
  // A real clock fires for backends that only ask shouldStop.
  const waiting = async (request) => {
    while (!request.shouldStop()) {
      await sleep(5);
    }
    return { ok: false, stop: request.shouldInterrupt() ? 'interrupt' : 'clock' };
  };
  assert.equal((await run(waiting)).result.report, 'The Isolation clock fired.');
  const folding = await integrate({ id: 'w', parent, child: box.path('home'), durationMs: 900 }, {
    backend: { fold: async (request) => {
      seen = request;
      return { ok: false, conflict: true, report: 'both changed a' };
    } },
  });
  assert.deepEqual(folding.result, { outcome: 'conflict', exitCode: 1, report: 'both changed a' });
  assert.ok(seen.deadlineMs > seen.now() && seen.deadlineMs <= seen.now() + 900);
});

test('the job goes on when nobody reads, and that is said at the end', async (t) => {
  const box = sandbox(t);
  const child = box.path('child');
  const write = () => {
    throw new Error('the reader went away');
  };
  await assert.rejects(runIsolator({ invocation: { id: 'w', parent: box.repo(), child }, write }), /the reader went away/);
  assert.ok(existsSync(`${child}/a`));
});

test('a binary that breaks down half-way: what it did not say is said', async (t) => {
  const box = sandbox(t);
  const program = box.program(`echo '{"event":"status","phase":"isolating","label":"isolating:w","id":"w"}'; kill -9 $$`);
  await withEnv({ ISOFOLD_BIN: program }, async () => {
    const { result, lines: list } = await isolate({ id: 'w', parent: '/p', child: '/c' });
    assert.deepEqual([result.outcome, result.exitCode], ['failed', 1]);
    assert.match(result.report, /ended by SIGKILL/);
    assert.deepEqual(events(list), ['isolating', 'isolation-started', 'failed', 'isolation-finished']);
  });
});
