// How the binary is found, and what is asked of it before it works.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { strategy } from '../index.js';
import { BINARY, PACKAGE, sandbox, withEnv, write } from './support.mjs';

const run = promisify(execFile);
const SUCCESS = `echo '{"event":"isolation-finished","outcome":"isolated"}'`;
const request = { parent: '/parent', child: '/child' };

/** A detail for ISOFOLD_BIN naming `path`. */
async function detail(path) {
  const result = await withEnv({ ISOFOLD_BIN: path }, () => strategy.isolation.attach(request));
  assert.deepEqual(Object.keys(result), ['ok', 'detail']);
  return result.detail;
}

test('ISOFOLD_BIN comes first, and nothing else is tried when it names no program', async (t) => {
  const box = sandbox(t);
  const good = box.program(SUCCESS);
  assert.deepEqual(await withEnv({ ISOFOLD_BIN: good }, () => strategy.isolation.attach(request)), { ok: true });
  assert.match(await detail(box.path('nothing')), /ISOFOLD_BIN names .*nothing, which is not a program/);
  assert.match(await detail(box.root), /is not a program/);
  write(box.root, 'plain', 'text');
  assert.match(await detail(box.path('plain')), /is not a program/);
});

test('beside the package comes before PATH, PATH comes last', async (t) => {
  const box = sandbox(t);
  const copy = box.path('node_modules/isofold');
  mkdirSync(copy, { recursive: true });
  for (const name of ['package.json', 'index.js', 'lib']) {
    cpSync(join(PACKAGE, name), join(copy, name), { recursive: true });
  }
  mkdirSync(box.path('on-path'));
  const place = (name, words) => {
    const path = box.program(`echo '{"event":"isolation-finished","outcome":"failed","report":"${words}"}'`, { name });
    chmodSync(path, 0o755);
  };
  write(box.root, 'ask.mjs', `import { strategy } from 'isofold';
    process.stdout.write((await strategy.isolation.attach({ parent: '/p', child: '/c' })).detail);`);
  const ask = async (path) => {
    const env = { PATH: `relative:${path}`, HOME: box.root };
    return (await run(process.execPath, [box.path('ask.mjs')], { env, cwd: box.root })).stdout;
  };
  const path = `${box.path('on-path')}:/usr/bin:/bin`;
  assert.match(await ask(box.path('on-path')), /was not found: .*PATH.*beside the package.*ISOFOLD_BIN/);
  place('on-path/isofold', 'on PATH');
  assert.equal(await ask(path), 'on PATH');
  mkdirSync(join(copy, 'bin'));
  place('node_modules/isofold/bin/isofold', 'beside');
  assert.equal(await ask(path), 'beside');
});

test('the protocol number has to be ours', async (t) => {
  const box = sandbox(t);
  assert.match(await detail(box.program(SUCCESS, { protocol: 2 })), /speaks protocol 2, this package speaks 1: update this package/);
  const older = box.program(SUCCESS, { protocol: 0, name: 'older' });
  assert.match(await detail(older), /speaks protocol 0, this package speaks 1: update the binary/);
});

test('another program of that name is not taken for isofold', async (t) => {
  const box = sandbox(t);
  write(box.root, 'other', '#!/bin/sh\necho 1.0\n');
  chmodSync(box.path('other'), 0o755);
  assert.match(await detail(box.path('other')), /does not answer .*as isofold does.*another program, or too old/);
  write(box.root, 'broken', '#!/nowhere/at/all\n');
  chmodSync(box.path('broken'), 0o755);
  assert.match(await detail(box.path('broken')), /does not answer/);
});

test('a binary that was refused is asked again once it is replaced', async (t) => {
  const box = sandbox(t);
  const path = box.program(SUCCESS, { protocol: 2 });
  assert.match(await detail(path), /protocol 2/);
  box.program(SUCCESS);
  assert.deepEqual(await withEnv({ ISOFOLD_BIN: path }, () => strategy.isolation.attach(request)), { ok: true });
});

test('the binary under test answers', async () => {
  assert.ok(BINARY && existsSync(BINARY), 'ISOFOLD_BIN names the binary under test');
  const { stdout } = await run(BINARY, ['--version', '--json']);
  const said = JSON.parse(stdout);
  assert.deepEqual([said.name, said.protocol], ['isofold', 1]);
});

test('a binary that breaks down is a detail with its last words', async (t) => {
  const box = sandbox(t);
  const broken = box.program('echo one >&2; echo "error: the disk is on fire" >&2; exit 70');
  assert.match(await detail(broken), /ended with exit code 70 and without a result: error: the disk is on fire/);
  const killed = box.program('kill -9 $$', { name: 'killed' });
  assert.match(await detail(killed), /ended by SIGKILL and without a result/);
  const garbage = box.program('echo nonsense', { name: 'garbage' });
  assert.match(await detail(garbage), /ended with exit code 0 and without a result/);
});
