// fold, with the real binary (contract §2 as far as a host sees it).

import assert from 'node:assert/strict';
import { chmodSync, existsSync, rmSync } from 'node:fs';
import { test } from 'node:test';

import { strategy } from '../index.js';
import { commit, git, lines, read, sandbox, state, withEnv, write } from './support.mjs';

const { attach, abort } = strategy.isolation;
const { fold } = strategy.fold;

async function pair(t, { id = 'work', prepare = () => {} } = {}) {
  const box = sandbox(t);
  const parent = box.repo();
  prepare(parent);
  const child = box.path('child');
  assert.deepEqual(await attach({ parent, child, id }), { ok: true });
  return { box, parent, child };
}

async function folded(request) {
  assert.deepEqual(await fold(request), { ok: true });
}

const subjects = (repo, range = 'HEAD') => git(repo, 'log', '--format=%s', '--topo-order', range).split('\n');

test("loose work lands under the subject, as a fast-forward; the Parent's status is clean", async (t) => {
  const { parent, child } = await pair(t);
  write(child, 'a', lines({ 5: 'changed' }));
  write(child, 'new', 'n\n');
  rmSync(`${child}/b`);
  const before = state(child);
  await folded({ parent, child, id: 'work', subject: 'Do it', mergeSubject: 'Not needed' });
  assert.deepEqual(subjects(parent), ['Do it', 'start']);
  assert.equal(read(parent, 'a'), lines({ 5: 'changed' }));
  assert.equal(read(parent, 'new'), 'n\n');
  assert.equal(existsSync(`${parent}/b`), false);
  assert.equal(git(parent, 'status', '--porcelain'), '');
  // The Child is never written; refs are the repository's, not the Child's.
  const own = (text) => text.split('\n').filter((row) => !/refs\/|\[/.test(row)).join('\n');
  assert.equal(own(state(child)), own(before));
});

test('where both moved there is one merge commit under the merge subject', async (t) => {
  const { parent, child } = await pair(t);
  write(parent, 'b', lines({ 2: 'parent' }));
  commit(parent, 'parent moved');
  write(child, 'a', lines({ 5: 'child' }));
  await folded({ parent, child, id: 'work', subject: 'Child work', mergeSubject: 'Merge it' });
  assert.equal(git(parent, 'log', '-1', '--format=%s'), 'Merge it');
  assert.equal(git(parent, 'log', '-1', '--format=%s', 'HEAD^1'), 'parent moved');
  assert.equal(git(parent, 'log', '-1', '--format=%s', 'HEAD^2'), 'Child work');
  assert.equal(git(parent, 'log', '-1', '--format=%p').split(' ').length, 2);
});

test('both subjects default to the id; without an id the Child directory names the work', async (t) => {
  const { parent, child } = await pair(t);
  write(parent, 'b', 'b\n');
  commit(parent, 'parent moved');
  write(child, 'a', 'a\n');
  await folded({ parent, child, id: 'github:o/r#9' });
  assert.equal(subjects(parent)[0], 'Integration of github:o/r#9');
  write(child, 'a', 'again\n');
  await folded({ parent, child });
  assert.ok(subjects(parent).includes('Integration of child'));
});

test('the id only names: it need not be that of attach', async (t) => {
  const { parent, child } = await pair(t, { id: 'one' });
  write(child, 'a', 'a\n');
  await folded({ parent, child, id: 'another' });
  assert.equal(git(child, 'symbolic-ref', '--short', 'HEAD'), 'issue/one');
});

test('new paths obey .gitignore, tracked ones do not; a staged removal counts; the reflog says what came', async (t) => {
  const { parent, child } = await pair(t, { prepare: (repo) => {
    write(repo, 'tracked.log', 'one\n');
    git(repo, 'add', '-f', 'tracked.log');
    commit(repo, 'a log');
  } });
  write(child, 'tracked.log', 'two\n');
  write(child, 'new.log', 'ignored\n');
  git(child, 'rm', '-q', 'b');
  await folded({ parent, child, id: 'work', subject: 'All kinds' });
  assert.equal(git(parent, 'show', '--format=', '--name-status', 'HEAD'), 'D\tb\nM\ttracked.log');
  assert.equal(existsSync(`${parent}/new.log`), false);
  assert.match(git(parent, 'reflog', '-1', '--format=%gs'), /fold of work/);
});

test('a fold goes both ways: what moved in the Parent comes into the Child, and back', async (t) => {
  const { parent, child } = await pair(t);
  write(child, 'a', lines({ 4: 'child' }));
  commit(child, 'child moved');
  write(parent, 'b', lines({ 4: 'parent' }));
  commit(parent, 'parent moved');
  await folded({ parent: child, child: parent, id: 'line', mergeSubject: 'Take in the line' });
  assert.equal(read(child, 'b'), lines({ 4: 'parent' }));
  await folded({ parent, child, id: 'work' });
  assert.deepEqual(subjects(parent)[0], 'Take in the line');
  assert.equal(git(parent, 'rev-parse', 'HEAD'), git(child, 'rev-parse', 'HEAD'));
});

test('nothing to fold writes nothing, and loose work stays loose', async (t) => {
  const { parent, child } = await pair(t, { prepare: (repo) => write(repo, 'a', 'dirty\n') });
  const before = state(parent);
  await folded({ parent, child, id: 'work' });
  assert.equal(state(parent).replace(/.*refs\/isofold.*\n/g, ''), before.replace(/.*refs\/isofold.*\n/g, ''));
  assert.equal(git(parent, 'status', '--porcelain'), ' M a');
});

test("text that the Child was given dirty and then edited is no conflict; the Parent's loose work never passes for the Child's", async (t) => {
  const { parent, child } = await pair(t, { prepare: (repo) => write(repo, 'a', lines({ 3: 'dirty' })) });
  write(child, 'a', lines({ 3: 'dirty', 4: 'edited' }));
  await folded({ parent, child, id: 'work', subject: 'Edit' });
  assert.deepEqual(subjects(parent), ['Edit', 'Uncommitted work before: Edit', 'start']);
  assert.equal(read(parent, 'a'), lines({ 3: 'dirty', 4: 'edited' }));
});

test('a Child folded again never conflicts with itself; a revert in between is respected', async (t) => {
  const { parent, child } = await pair(t);
  write(child, 'a', lines({ 3: 'one' }));
  await folded({ parent, child, id: 'work' });
  write(child, 'a', lines({ 3: 'two' }));
  await folded({ parent, child, id: 'work' });
  assert.equal(read(parent, 'a'), lines({ 3: 'two' }));
  git(parent, 'revert', '--no-edit', 'HEAD');
  write(child, 'b', lines({ 9: 'more' }));
  await folded({ parent, child, id: 'work' });
  assert.equal(read(parent, 'a'), lines({ 3: 'one' }));
  assert.equal(read(parent, 'b'), lines({ 9: 'more' }));
});

test('commits of the Child come along', async (t) => {
  const { parent, child } = await pair(t);
  write(child, 'a', 'one\n');
  commit(child, 'first step');
  write(child, 'a', 'two\n');
  commit(child, 'second step');
  await folded({ parent, child, id: 'work' });
  assert.deepEqual(subjects(parent), ['second step', 'first step', 'start']);
});

test('what isolate left out never gets into history', async (t) => {
  const { parent, child } = await pair(t, { prepare: (repo) => write(repo, '.env', 'TOKEN=secret\n') });
  write(parent, 'b', 'loose in the Parent\n');
  write(child, 'a', 'a\n');
  await folded({ parent, child, id: 'work' });
  assert.equal(git(parent, 'log', '--all', '--format=%h', '--', '.env'), '');
  assert.equal(read(parent, '.env'), 'TOKEN=secret\n');
  assert.equal(git(parent, 'status', '--porcelain'), '?? .env');
});

test('a conflict is {ok, conflict, report}; the Parent is what it was, without markers', async (t) => {
  const { parent, child } = await pair(t);
  write(parent, 'a', lines({ 5: 'parent' }));
  commit(parent, 'parent moved');
  write(child, 'a', lines({ 5: 'child' }));
  const before = state(parent);
  const result = await fold({ parent, child, id: 'work' });
  assert.deepEqual([Object.keys(result), result.ok, result.conflict], [['ok', 'conflict', 'report'], false, true]);
  assert.match(result.report, /\ba\b/);
  assert.ok(result.report.includes('isofold update') && !result.report.includes('\n'), result.report);
  assert.equal(state(parent), before);
});

test('an untracked or ignored file of the Parent in the way is a conflict, never overwritten', async (t) => {
  const { parent, child } = await pair(t);
  write(child, 'x.log', "the Child's\n");
  git(child, 'add', '-f', 'x.log');
  write(child, 'new', "the Child's\n");
  write(parent, 'x.log', 'mine\n');
  const result = await fold({ parent, child, id: 'work' });
  assert.equal(result.conflict, true);
  assert.match(result.report, /x\.log/);
  assert.equal(read(parent, 'x.log'), 'mine\n');
});

test('failures before anything is touched are details', async (t) => {
  const { box, parent, child } = await pair(t);
  write(child, 'a', 'a\n');
  const fails = async (request, words) => {
    const before = state(parent);
    const result = await fold({ parent, child, id: 'work', ...request });
    assert.deepEqual([Object.keys(result), result.ok], [['ok', 'detail'], false]);
    assert.match(result.detail, words);
    assert.equal(state(parent), before);
  };
  git(parent, 'switch', '-q', '-c', 'elsewhere');
  await fails({}, /elsewhere|main/);
  git(parent, 'switch', '-q', 'main');
  git(parent, 'branch', '-q', '-D', 'elsewhere');
  write(parent, '.git/MERGE_HEAD', `${git(parent, 'rev-parse', 'HEAD')}\n`);
  await fails({}, /merge/);
  rmSync(`${parent}/.git/MERGE_HEAD`);
  const stranger = box.repo('stranger');
  await fails({ child: stranger }, /./);
  await fails({ child: box.path('nothing') }, /Child .* does not exist/);
  await fails({ child: parent }, /same place/);
  await fails({ child: `${parent}/dir` }, /inside/);
  await fails({ parent: 'relative' }, /relative path/);
  await fails({ id: '' }, /--id is missing or empty/);
  await fails({ subject: 3 }, /"subject" must be a string/);
  await fails({ now: 3 }, /"now" must be a function/);
});

test('without an identity a fold that needs a commit fails, and says so', async (t) => {
  const { parent, child } = await pair(t);
  git(parent, 'config', '--unset', 'user.name');
  git(parent, 'config', '--unset', 'user.email');
  git(parent, 'config', 'user.useConfigOnly', 'true');
  write(child, 'a', 'a\n');
  const result = await fold({ parent, child, id: 'work' });
  assert.match(result.detail, /identity|user\.name/);
  // The identity of whoever runs the process reaches the fold.
  const person = {
    GIT_AUTHOR_NAME: 'A', GIT_AUTHOR_EMAIL: 'a@example.test', GIT_COMMITTER_NAME: 'C', GIT_COMMITTER_EMAIL: 'c@example.test',
  };
  await withEnv(person, () => folded({ parent, child, id: 'work' }));
  assert.equal(git(parent, 'log', '-1', '--format=%an %ae %cn %ce'), 'A a@example.test C c@example.test');
});

test('no hook runs in a fold, and no signature is asked for', async (t) => {
  const { box, parent, child } = await pair(t);
  for (const hook of ['pre-commit', 'commit-msg', 'post-commit', 'post-merge', 'reference-transaction']) {
    write(parent, `.git/hooks/${hook}`, `#!/bin/sh\ntouch ${box.path('hook-ran')}\nexit 1\n`);
    chmodSync(`${parent}/.git/hooks/${hook}`, 0o755);
  }
  git(parent, 'config', 'commit.gpgSign', 'true');
  write(child, 'a', 'a\n');
  await folded({ parent, child, id: 'work' });
  assert.equal(existsSync(box.path('hook-ran')), false);
});

test('several folds into one Parent at once from one process: each lands', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const names = ['w0', 'w1', 'w2', 'w3'];
  for (const name of names) {
    assert.deepEqual(await attach({ parent, child: box.path(name), id: name }), { ok: true });
    write(box.path(name), `from-${name}`, name);
  }
  const results = await Promise.all(names.map((name) => fold({ parent, child: box.path(name), id: name, subject: name })));
  assert.deepEqual(results, names.map(() => ({ ok: true })));
  for (const name of names) {
    assert.equal(read(parent, `from-${name}`), name);
  }
  assert.equal(git(parent, 'status', '--porcelain'), '');
  git(parent, 'fsck', '--no-progress');
});

test('folds and isolations of several repositories at once', async (t) => {
  const box = sandbox(t);
  const jobs = ['p0', 'p1', 'p2', 'p3'].map(async (name) => {
    const parent = box.repo(name);
    const child = box.path(`${name}-child`);
    assert.deepEqual(await attach({ parent, child, id: name }), { ok: true });
    write(child, 'a', name);
    await folded({ parent, child, id: name });
    assert.deepEqual(await abort({ parent, child }), { ok: true });
    assert.equal(read(parent, 'a'), name);
  });
  await Promise.all(jobs);
});
