// Stops: callbacks are polled, a stop is passed on at once, the promise settles when cleanup is done.

import assert from 'node:assert/strict';
import { chmodSync, existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { strategy } from '../index.js';
import { runBinary } from '../lib/process.js';
import { commit, git, lines, read, sandbox, state, withEnv, write } from './support.mjs';

const { attach } = strategy.isolation;
const { fold } = strategy.fold;
const REQUEST = { parent: '/parent', child: '/child' };

const finished = (event, outcome, report) => `echo '${JSON.stringify({ event, outcome, report })}'`;

/** A stand-in that works until SIGINT, cleans up for `cleanup` seconds and says `interrupted`. */
function untilStopped(box, event, { cleanup = 0 } = {}) {
  const end = finished(event, 'interrupted', 'The job was interrupted.');
  const mark = (name) => `date +%s%N >${box.path(name)}`;
  return box.program(
    `trap '${mark('stopped')}; sleep ${cleanup}; ${end.replaceAll("'", `'"'"'`)}; ${mark('ended')}; exit 130' INT
${mark('began')}
while :; do sleep 0.005; done`,
  );
}

const milliseconds = (path) => Number(BigInt(readFileSync(path, 'utf8').trim()) / 1000n) / 1000;

async function begun(box) {
  while (!existsSync(box.path('began'))) {
    await sleep(2);
  }
}

test('callbacks are polled at least every 20 ms while a job runs', async (t) => {
  const box = sandbox(t);
  const program = box.program(`sleep 1; ${finished('isolation-finished', 'isolated')}`);
  const asked = { shouldInterrupt: [], shouldStop: [] };
  const callbacks = Object.fromEntries(Object.keys(asked).map((name) => [name, () => {
    asked[name].push(performance.now());
    return false;
  }]));
  const result = await withEnv({ ISOFOLD_BIN: program }, () => attach({ ...REQUEST, ...callbacks }));
  assert.deepEqual(result, { ok: true });
  for (const times of Object.values(asked)) {
    // One in 20 ms would be 50 in that second; a busy machine may hold this process up for a moment.
    assert.ok(times.length >= 40, `${times.length} times`);
    const gaps = times.slice(1).map((time, index) => time - times[index]).sort((a, b) => a - b);
    assert.ok(gaps[Math.floor(gaps.length / 2)] <= 20, `median ${gaps[Math.floor(gaps.length / 2)]}`);
  }
});

for (const [name, how] of [
  ['shouldInterrupt is an interrupt', { flag: 'shouldInterrupt', stop: 'interrupt' }],
  ['shouldStop is the clock', { flag: 'shouldStop', stop: 'clock' }],
  ['shouldStop may say that it is an interrupt', { flag: 'shouldStop', says: 'interrupt', stop: 'interrupt' }],
  ['shouldStop may say that it is the clock', { flag: 'shouldStop', says: 'clock', stop: 'clock' }],
  ['both at once are an interrupt', { flag: 'both', stop: 'interrupt' }],
]) {
  test(`${name}; it is passed on at once`, async (t) => {
    const box = sandbox(t);
    let stop = false;
    const says = how.says ?? true;
    const callbacks = how.flag === 'both'
      ? { shouldInterrupt: () => stop, shouldStop: () => stop }
      : { [how.flag]: () => stop && says };
    await withEnv({ ISOFOLD_BIN: untilStopped(box, 'isolation-finished') }, async () => {
      const running = attach({ ...REQUEST, ...callbacks });
      await begun(box);
      await sleep(30);
      const at = Date.now();
      stop = true;
      assert.deepEqual(await running, { ok: false, stop: how.stop });
      assert.ok(milliseconds(box.path('stopped')) - at < 500, 'at once');
    });
  });
}

test('the promise settles when cleanup is done, and nothing is killed before', async (t) => {
  const box = sandbox(t);
  await withEnv({ ISOFOLD_BIN: untilStopped(box, 'isolation-finished', { cleanup: 2 }) }, async () => {
    const result = await attach({ ...REQUEST, shouldStop: () => existsSync(box.path('began')) });
    assert.deepEqual(result, { ok: false, stop: 'clock' });
    assert.ok(existsSync(box.path('ended')), 'cleanup came to its end');
    assert.ok(milliseconds(box.path('ended')) - milliseconds(box.path('stopped')) >= 1900);
  });
});

test('a binary that does not end is killed, but never within 10 s', async (t) => {
  const box = sandbox(t);
  const source = readFileSync(new URL('../lib/process.js', import.meta.url), 'utf8');
  assert.ok(Number(/KILL_AFTER_MS = ([0-9_]+)/.exec(source)[1].replaceAll('_', '')) >= 10_000);
  const program = box.program(`trap '' INT; touch ${box.path('began')}; while :; do sleep 0.01; done`);
  const began = performance.now();
  const stopped = () => (existsSync(box.path('began')) ? 'clock' : undefined);
  const ended = await runBinary(program, [], { onLine() {}, stopped, killAfterMs: 300 });
  assert.equal(ended.signal, 'SIGKILL');
  assert.ok(performance.now() - began >= 290);
});

test('a stop before the start begins nothing', async (t) => {
  const box = sandbox(t);
  await withEnv({ ISOFOLD_BIN: untilStopped(box, 'isolation-finished') }, async () => {
    assert.deepEqual(await attach({ ...REQUEST, shouldInterrupt: () => true }), { ok: false, stop: 'interrupt' });
    assert.deepEqual(await attach({ ...REQUEST, timeoutMs: 0 }), { ok: false, stop: 'clock' });
    assert.deepEqual(await fold({ ...REQUEST, deadlineMs: 5, now: () => 5 }), { ok: false, stop: 'clock' });
    assert.equal(existsSync(box.path('began')), false);
  });
});

test('a stop is heard while a binary is still asked for its version', async (t) => {
  const box = sandbox(t);
  write(box.root, 'slow', `#!/bin/sh\necho $$ >${box.path('began')}\nexec sleep 30\n`);
  chmodSync(box.path('slow'), 0o755);
  await withEnv({ ISOFOLD_BIN: box.path('slow') }, async () => {
    const began = performance.now();
    const result = await attach({ ...REQUEST, shouldInterrupt: () => existsSync(box.path('began')) });
    assert.deepEqual(result, { ok: false, stop: 'interrupt' });
    assert.ok(performance.now() - began < 5000);
    process.kill(Number(readFileSync(box.path('began'), 'utf8')), 'SIGKILL');
  });
});

test('deadlineMs is on the clock that now() tells, which may be a fake one', async (t) => {
  const box = sandbox(t);
  await withEnv({ ISOFOLD_BIN: untilStopped(box, 'integration-finished') }, async () => {
    let fake = -1000;
    const running = fold({ ...REQUEST, deadlineMs: 0, now: () => fake });
    await begun(box);
    await sleep(100);
    assert.equal(existsSync(box.path('stopped')), false, 'fake time stands still');
    fake = 0;
    assert.deepEqual(await running, { ok: false, stop: 'clock' });
  });
});

test('without now() a deadline is on Date.now()', async (t) => {
  const box = sandbox(t);
  await withEnv({ ISOFOLD_BIN: untilStopped(box, 'integration-finished') }, async () => {
    assert.deepEqual(await fold({ ...REQUEST, deadlineMs: Date.now() + 150 }), { ok: false, stop: 'clock' });
  });
});

test('a callback that throws stops the job, and is a detail', async (t) => {
  const box = sandbox(t);
  await withEnv({ ISOFOLD_BIN: untilStopped(box, 'isolation-finished') }, async () => {
    const late = await attach({ ...REQUEST, shouldStop: () => {
      if (existsSync(box.path('began'))) {
        throw new Error('no more answers');
      }
    } });
    assert.equal(late.ok, false);
    assert.match(late.detail, /callback failed.*no more answers/);
    assert.ok(existsSync(box.path('ended')), 'cleanup was waited for');
    const early = await attach({ ...REQUEST, shouldInterrupt: () => {
      throw new Error('none at all');
    } });
    assert.match(early.detail, /callback failed.*none at all/);
  });
});

test('a finished success stays a success, whatever stop came late', async (t) => {
  const box = sandbox(t);
  const done = finished('isolation-finished', 'isolated');
  const program = box.program(`trap '' INT; touch ${box.path('began')}; sleep 0.2; ${done}`);
  await withEnv({ ISOFOLD_BIN: program }, async () => {
    assert.deepEqual(await attach({ ...REQUEST, shouldStop: () => existsSync(box.path('began')) }), { ok: true });
  });
});

test('a failure that has nothing to do with the stop stays a detail', async (t) => {
  const box = sandbox(t);
  const program = box.program(`trap '' INT; touch ${box.path('began')}; sleep 0.1; ${finished('isolation-finished', 'failed', 'the disk is full')}`);
  await withEnv({ ISOFOLD_BIN: program }, async () => {
    const result = await attach({ ...REQUEST, shouldStop: () => existsSync(box.path('began')) });
    assert.deepEqual(result, { ok: false, detail: 'the disk is full' });
  });
});

test('a signal that reaches the binary from elsewhere is an interrupt', async (t) => {
  const box = sandbox(t);
  const program = box.program(finished('isolation-finished', 'interrupted', 'The isolation was interrupted.'));
  await withEnv({ ISOFOLD_BIN: program }, async () => {
    assert.deepEqual(await attach(REQUEST), { ok: false, stop: 'interrupt' });
  });
});

test("the binary's own clock is the clock", async (t) => {
  const box = sandbox(t);
  const seen = box.path('args');
  const isolate = finished('isolation-finished', 'failed', 'The Isolation clock fired.');
  const program = box.program(`printf '%s\\n' "$@" >${seen}; ${isolate}`);
  await withEnv({ ISOFOLD_BIN: program }, async () => {
    assert.deepEqual(await attach({ ...REQUEST, timeoutMs: 1500.5 }), { ok: false, stop: 'clock' });
    assert.ok(readFileSync(seen, 'utf8').includes('--duration-ms=1501\n'));
    for (const timeoutMs of [Infinity, undefined, null]) {
      await attach({ ...REQUEST, timeoutMs });
      assert.ok(!readFileSync(seen, 'utf8').includes('--duration-ms'));
    }
  });
});

test('the real binary: stopped isolations leave nothing, stopped folds leave the Parent as it was', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  for (let number = 0; number < 3000; number += 1) {
    write(parent, `many/${number % 50}/${number}`, `${number}\n`);
  }
  commit(parent, 'many');
  const before = state(parent);
  const child = box.path('deep/child');
  const stops = [];
  for (const after of [1, 10, 40, 90]) {
    for (const name of ['shouldInterrupt', 'shouldStop']) {
      const at = performance.now() + after;
      const result = await attach({ parent, child, id: 'w', [name]: () => performance.now() >= at });
      if (result.ok) {
        assert.deepEqual(await strategy.isolation.abort({ parent, child }), { ok: true });
        git(parent, 'branch', '-q', '-D', 'issue/w');
      } else {
        stops.push(result.stop);
        assert.deepEqual(result, { ok: false, stop: name === 'shouldStop' ? 'clock' : 'interrupt' });
        assert.equal(existsSync(child), false);
      }
    }
  }
  assert.ok(stops.includes('clock') && stops.includes('interrupt'), String(stops));
  assert.deepEqual(await attach({ parent, child, id: 'w', timeoutMs: 1 }), { ok: false, stop: 'clock' });
  const plain = (text) => text.replace(/.*refs\/isofold.*\n/g, '');
  assert.equal(plain(state(parent)), plain(before));

  assert.deepEqual(await attach({ parent, child, id: 'w' }), { ok: true });
  write(child, 'a', lines({ 3: 'work' }));
  const head = git(parent, 'rev-parse', 'HEAD');
  for (const after of [1, 10, 30]) {
    let ticks = 0;
    const result = await fold({ parent, child, id: 'w', deadlineMs: after, now: () => (ticks += 1) });
    if (result.ok) {
      break;
    }
    assert.deepEqual(result, { ok: false, stop: 'clock' });
    assert.equal(git(parent, 'rev-parse', 'HEAD'), head);
    assert.equal(git(parent, 'status', '--porcelain'), '');
  }
  assert.deepEqual(await fold({ parent, child, id: 'w' }), { ok: true });
  assert.equal(read(parent, 'a'), lines({ 3: 'work' }));
});
