// attach and abort, with the real binary (contract §1 as far as a host sees it).

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync, existsSync, lstatSync, linkSync, mkdirSync, readlinkSync, rmSync, statSync, symlinkSync, utimesSync,
} from 'node:fs';
import { test } from 'node:test';

import { branchNameOf, createStrategy, strategy } from '../index.js';
import { commit, git, lines, read, sandbox, state, write } from './support.mjs';

const { attach, abort } = strategy.isolation;

async function attached(parent, child, id) {
  assert.deepEqual(await attach({ parent, child, ...(id === undefined ? {} : { id }) }), { ok: true });
  return child;
}

async function refused(request, words) {
  const result = await attach(request);
  assert.deepEqual([Object.keys(result), result.ok], [['ok', 'detail'], false]);
  assert.match(result.detail, words);
  assert.ok(!result.detail.includes('\n'), 'one line');
}

test("the Child is a worktree on the id's branch, at the Parent's HEAD", async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const child = await attached(parent, box.path('child'), 'github:owner/repo#9');
  assert.equal(git(child, 'symbolic-ref', '--short', 'HEAD'), branchNameOf('github:owner/repo#9'));
  assert.equal(git(child, 'rev-parse', 'HEAD'), git(parent, 'rev-parse', 'HEAD'));
  assert.ok(git(parent, 'worktree', 'list', '--porcelain').includes(`worktree ${child}\n`));
});

test('without an id, or with null, the Child is detached', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const child = await attached(parent, box.path('child'));
  assert.equal(git(child, 'rev-parse', '--abbrev-ref', 'HEAD'), 'HEAD');
  assert.deepEqual(await attach({ parent, child: box.path('other'), id: null }), { ok: true });
  assert.equal(git(parent, 'branch', '--list', 'issue/*'), '');
});

test('the Child holds the working files as they are on the disk', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  write(parent, 'a', lines({ 3: 'modified' }));
  write(parent, 'untracked', 'u\n');
  write(parent, 'ignored/cache', 'i\n');
  write(parent, 'x.log', 'log\n');
  write(parent, 'run.sh', '#!/bin/sh\n');
  chmodSync(`${parent}/run.sh`, 0o755);
  symlinkSync('nowhere', `${parent}/link`);
  linkSync(`${parent}/untracked`, `${parent}/hard`);
  utimesSync(`${parent}/untracked`, 1_000_000_000, 1_000_000_000);
  rmSync(`${parent}/b`);
  execFileSync('mkfifo', [`${parent}/fifo`]);
  mkdirSync(`${parent}/.isofold/patches`, { recursive: true });
  const child = await attached(parent, box.path('child'), 'w');
  assert.equal(read(child, 'a'), lines({ 3: 'modified' }));
  assert.equal(read(child, 'untracked'), 'u\n');
  assert.equal(read(child, 'ignored/cache'), 'i\n');
  assert.equal(read(child, 'x.log'), 'log\n');
  assert.equal(statSync(`${child}/run.sh`).mode & 0o777, 0o755);
  assert.equal(readlinkSync(`${child}/link`), 'nowhere');
  assert.equal(statSync(`${child}/untracked`).mtimeMs, 1_000_000_000_000);
  assert.notEqual(statSync(`${child}/hard`).ino, statSync(`${parent}/hard`).ino);
  for (const gone of ['b', 'fifo', '.isofold']) {
    assert.equal(existsSync(`${child}/${gone}`), false, gone);
  }
  assert.ok(lstatSync(`${child}/.git`).isFile());
});

test('untracked secrets stay out, at any depth; a tracked path is never left out', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  write(parent, '.env.example', 'KEY=\n');
  commit(parent, 'example');
  write(parent, '.env', 'TOKEN=1\n');
  write(parent, 'packages/api/.env.local', 'TOKEN=2\n');
  const child = await attached(parent, box.path('child'), 'w');
  assert.equal(existsSync(`${child}/.env`), false);
  assert.equal(existsSync(`${child}/packages/api/.env.local`), false);
  assert.equal(read(child, '.env.example'), 'KEY=\n');
});

test('under an excluded directory tracked files stay and the rest goes; other worktrees inside stay out', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  write(parent, 'secrets/tracked', 't\n');
  commit(parent, 'tracked secret');
  write(parent, 'secrets/loose', 'l\n');
  git(parent, 'worktree', 'add', '-q', '--detach', `${parent}/ignored/tree`);
  write(parent, 'ignored/file', 'f\n');
  const { strategy: own } = createStrategy({ exclude: ['secrets/**'] });
  const child = box.path('child');
  assert.deepEqual(await own.isolation.attach({ parent, child, id: 'w' }), { ok: true });
  assert.equal(read(child, 'secrets/tracked'), 't\n');
  assert.equal(existsSync(`${child}/secrets/loose`), false);
  assert.equal(existsSync(`${child}/ignored/tree`), false);
  assert.equal(read(child, 'ignored/file'), 'f\n');
});

test("staged changes travel: the Child's status is the Parent's", async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  write(parent, 'a', lines({ 1: 'staged' }));
  write(parent, 'new', 'n\n');
  git(parent, 'add', 'a', 'new');
  git(parent, 'rm', '-q', '--cached', 'b');
  const child = await attached(parent, box.path('child'), 'w');
  assert.equal(git(child, 'status', '--porcelain'), git(parent, 'status', '--porcelain'));
});

test('the base is kept by a ref under refs/isofold/', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  write(parent, 'a', 'dirty\n');
  await attached(parent, box.path('child'), 'w');
  assert.match(git(parent, 'for-each-ref', 'refs/isofold/base/'), /commit\s+refs\/isofold\/base\//);
});

test('the Parent is untouched by a success but for the branch and hidden refs, and no hook runs', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  write(parent, '.git/hooks/post-checkout', `#!/bin/sh\ntouch ${box.path('hook-ran')}\n`);
  chmodSync(`${parent}/.git/hooks/post-checkout`, 0o755);
  write(parent, 'a', 'dirty\n');
  const files = (text) => text.split('\n').filter((row) => !/refs\/|issue\/|child/.test(row)).join('\n');
  const before = state(parent);
  await attached(parent, box.path('child'), 'w');
  assert.equal(files(state(parent)), files(before));
  assert.equal(existsSync(box.path('hook-ran')), false);
});

test('all or nothing: a failure leaves the Parent, the branch and the place of the Child alone', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  git(parent, 'branch', 'issue');
  const before = state(parent);
  await refused({ parent, child: box.path('deep/er/child'), id: 'w' }, /issue/);
  assert.equal(state(parent), before);
  assert.equal(existsSync(box.path('deep')), false);
});

test('a branch that is in use elsewhere is a detail that says where', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const child = await attached(parent, box.path('child'), 'w');
  await refused({ parent, child: box.path('second'), id: 'w' }, new RegExp(`issue/w is checked out at ${child}`));
});

test('a branch that is not in use moves, and what it alone reached is saved', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  git(parent, 'switch', '-q', '-c', 'issue/w');
  write(parent, 'only-here', 'x\n');
  commit(parent, 'only here');
  const tip = git(parent, 'rev-parse', 'HEAD');
  git(parent, 'switch', '-q', 'main');
  const child = await attached(parent, box.path('child'), 'w');
  assert.equal(git(child, 'rev-parse', 'HEAD'), git(parent, 'rev-parse', 'main'));
  assert.equal(git(parent, 'for-each-ref', '--format=%(objectname)', 'refs/isofold/saved/'), tip);
});

test('a Child whose directory was deleted without telling git is replaced', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const child = await attached(parent, box.path('child'), 'w');
  rmSync(child, { recursive: true });
  await attached(parent, child, 'w');
});

test('unborn HEAD works; unmerged index entries do not', async (t) => {
  const box = sandbox(t);
  git(box.root, 'init', '-q', '-b', 'main', 'unborn');
  write(box.path('unborn'), 'file', 'x\n');
  const child = await attached(box.path('unborn'), box.path('unborn-child'), 'w');
  assert.equal(git(child, 'symbolic-ref', '--short', 'HEAD'), 'issue/w');
  const parent = box.repo();
  git(parent, 'switch', '-q', '-c', 'side');
  write(parent, 'a', 'side\n');
  commit(parent, 'side');
  git(parent, 'switch', '-q', 'main');
  write(parent, 'a', 'main\n');
  commit(parent, 'main');
  assert.throws(() => git(parent, 'merge', '-q', 'side'));
  await refused({ parent, child: box.path('child'), id: 'm' }, /unmerged|conflict/);
});

test('Parents of every kind: linked worktree, Child, detached HEAD, worktree of a bare repository', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  git(parent, 'worktree', 'add', '-q', '-b', 'linked', box.path('linked'));
  git(parent, 'worktree', 'add', '-q', '--detach', box.path('detached'));
  git(box.root, 'clone', '-q', '--bare', parent, 'bare.git');
  git(box.path('bare.git'), 'worktree', 'add', '-q', box.path('of-bare'), 'main');
  const child = await attached(parent, box.path('child'), 'first');
  for (const [index, from] of [child, ...['linked', 'detached', 'of-bare'].map((name) => box.path(name))].entries()) {
    const made = await attached(from, box.path(`child-${index}`), `w${index}`);
    assert.equal(git(made, 'rev-parse', 'HEAD'), git(from, 'rev-parse', 'HEAD'));
  }
});

test('a Parent that is no repository, or only a subdirectory of one', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  await refused({ parent: box.path('home'), child: box.path('child'), id: 'w' }, /not a git repository/);
  await refused({ parent: `${parent}/dir`, child: box.path('child'), id: 'w' }, /only a subdirectory/);
});

test('an invalid invocation is a detail, and nothing is made', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  write(box.root, 'file', '');
  const child = box.path('child');
  await refused({ parent, child, id: '' }, /--id is missing or empty/);
  await refused({ parent: '', child }, /--parent/);
  await refused({ parent: 'parent', child }, /relative path/);
  await refused({ parent, child: 'child' }, /relative path/);
  await refused({ parent: box.path('nothing'), child }, /Parent .* does not exist/);
  await refused({ parent: box.path('file'), child }, /Parent .* is not a directory/);
  await refused({ parent, child: box.path('home') }, /exists already/);
  await refused({ parent, child: box.path('file/child') }, /not a directory/);
  await refused({ parent, child: `${parent}/child` }, /inside the Parent/);
  assert.equal(existsSync(child), false);
});

test('requests of wrong types are details too', async () => {
  const good = { parent: '/p', child: '/c' };
  for (const [request, words] of [
    [undefined, /a request/], [null, /a request/], [{ child: '/c' }, /"parent" must be a string/],
    [{ parent: '/p' }, /"child" must be a string/], [{ ...good, id: 9 }, /"id" must be a string/],
    [{ ...good, timeoutMs: '1' }, /"timeoutMs" must be a number/], [{ ...good, timeoutMs: Number.NaN }, /must be a number/],
    [{ ...good, shouldStop: true }, /"shouldStop" must be a function/], [{ ...good, id: 'a\0b' }, /NUL/],
  ]) {
    await refused(request, words);
  }
});

test('ids and paths that look like flags, or are not ASCII, arrive as they are', async (t) => {
  const box = sandbox(t);
  const parent = box.repo('pärent -x');
  for (const id of ['--id', '-x', 'a b "c"', 'ünï', '$(touch x)']) {
    const child = box.path(`-- ${id}`);
    await attached(parent, child, id);
    assert.equal(git(child, 'symbolic-ref', 'HEAD'), strategy.refOf(id));
  }
});

test('abort takes worktree and registration away, keeps the branch, and saves loose work', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const child = await attached(parent, box.path('child'), 'w');
  write(child, 'loose', 'work\n');
  assert.deepEqual(await abort({ parent, child }), { ok: true });
  assert.equal(existsSync(child), false);
  assert.ok(!git(parent, 'worktree', 'list').includes('child'));
  assert.notEqual(git(parent, 'branch', '--list', 'issue/w'), '');
  const saved = git(parent, 'for-each-ref', '--format=%(refname)', 'refs/isofold/saved/');
  assert.equal(git(parent, 'show', `${saved}:loose`), 'work');
});

test('abort is fine with a Child that is gone or never was', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const child = await attached(parent, box.path('child'), 'w');
  assert.deepEqual(await abort({ parent, child }), { ok: true });
  assert.deepEqual(await abort({ parent, child }), { ok: true });
  assert.deepEqual(await abort({ parent, child: box.path('never') }), { ok: true });
});

test('abort never rejects: what it will not take away is a detail, and stays', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  for (const request of [undefined, null, {}, { parent, child: 3 }, { parent, child: 'relative' }, { parent, child: parent }, { parent, child: box.path('home') }]) {
    const result = await abort(request);
    assert.deepEqual([Object.keys(result), result.ok], [['ok', 'detail'], false], JSON.stringify(request));
  }
  assert.ok(existsSync(`${parent}/a`) && existsSync(box.path('home')));
});

test('many isolations at once from one process', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const names = Array.from({ length: 8 }, (_, number) => `w${number}`);
  await Promise.all(names.map((name) => attached(parent, box.path(name), name)));
  for (const name of names) {
    assert.equal(git(box.path(name), 'status', '--porcelain'), '');
  }
});
