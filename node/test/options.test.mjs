// createStrategy: synchronous and strict (contract §5).

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';

import { createStrategy, gitReference, strategy } from '../index.js';
import { sandbox, write } from './support.mjs';

const LIST = 'isolationOptions "exclude" must be a list of non-empty path patterns.';

test('a strategy has the faces that a host loads', () => {
  for (const each of [strategy, createStrategy().strategy, createStrategy({ exclude: [] }).strategy]) {
    assert.deepEqual(Object.keys(each), ['isolation', 'fold', 'reference', 'refOf']);
    assert.deepEqual(Object.keys(each.isolation), ['attach', 'abort']);
    assert.deepEqual(Object.keys(each.fold), ['fold']);
    assert.equal(each.reference, gitReference);
    assert.equal(typeof each.reference.parse, 'function');
  }
});

test('an unknown key is named', () => {
  assert.deepEqual(createStrategy({ exclude: [], K: 1 }), {
    ok: false,
    reason: 'isolationOptions "K" is not one isofold reads (known: exclude).',
  });
});

test('a bad list is refused', () => {
  // eslint-disable-next-line no-sparse-arrays
  for (const exclude of [1, 'x', null, {}, [1], [''], [' '], ['a', null], [, 'a'], undefined]) {
    assert.deepEqual(createStrategy({ exclude }), { ok: false, reason: LIST });
  }
});

test('a pattern that can match nothing is refused with a hint', () => {
  for (const [pattern, hint] of [
    ['/x', 'write "x"'], ['./x', 'write "x"'], ['x//y', 'write "x/y"'], ['x//', 'write "x/"'],
    ['a/../b', 'write "a/b"'], ['..', 'no names below the root'], ['/', 'name a path below the root'],
  ]) {
    const { ok, reason } = createStrategy({ exclude: [pattern] });
    assert.equal(ok, false);
    assert.ok(reason.includes(hint) && reason.includes(`"${pattern}" can match nothing`), reason);
  }
});

test('options are an object', () => {
  for (const raw of [null, [], 'exclude', 3]) {
    assert.equal(createStrategy(raw).ok, false, String(raw));
  }
});

test("plain strategy reads the Parent's isolationOptions.toml, given options win over it", async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  write(parent, 'isolationOptions.toml', 'exclude = ["from-file"]\n');
  for (const name of ['from-file', 'given', '.env']) {
    write(parent, name, 'x');
  }
  const there = async (how, name) => {
    const child = box.path(name);
    assert.deepEqual(await how.isolation.attach({ parent, child, id: name }), { ok: true });
    return ['from-file', 'given', '.env'].filter((path) => existsSync(`${child}/${path}`));
  };
  assert.deepEqual(await there(strategy, 'plain'), ['given', '.env']);
  assert.deepEqual(await there(createStrategy({ exclude: ['given'] }).strategy, 'given'), ['from-file', '.env']);
  assert.deepEqual(await there(createStrategy({ exclude: [] }).strategy, 'all'), ['from-file', 'given', '.env']);
  assert.deepEqual(await there(createStrategy({}).strategy, 'nothing-said'), ['given', '.env']);
});

test('options are copied when they are given', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  write(parent, '.env', 'x');
  const exclude = ['.env'];
  const made = createStrategy({ exclude });
  exclude.pop();
  assert.deepEqual(await made.strategy.isolation.attach({ parent, child: box.path('child') }), { ok: true });
  assert.equal(existsSync(box.path('child/.env')), false);
});

test("options of the Parent's file that can't be read are an invalid invocation: a detail, and no Child", async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  write(parent, 'isolationOptions.toml', '\nkeep = 1\n');
  const result = await strategy.isolation.attach({ parent, child: box.path('child') });
  assert.equal(result.ok, false);
  assert.match(result.detail, /isolationOptions\.toml:2: isolationOptions "keep" is not one isofold reads \(known: exclude\)\.$/);
  assert.equal(existsSync(box.path('child')), false);
});
