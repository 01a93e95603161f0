// reference.parse and the environment that every git carries (contract §6).

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { beforeEach, test } from 'node:test';

import { clearRunEnv, gitReference, runEnv, setRunEnv, strategy } from '../index.js';
import { BINARY, commit, git, sandbox, withEnv, write } from './support.mjs';

const REMOTE = 'https://example.test/line.git';
const GOOD = { remote: REMOTE, branch: 'main' };
const AUTHOR = { name: 'The System', email: 'system@example.test' };
const TOKEN = 'sEcr3t-token';

beforeEach(() => clearRunEnv());

function reason(raw) {
  const result = gitReference.parse(raw);
  assert.deepEqual([Object.keys(result), result.ok], [['ok', 'reason'], false], JSON.stringify(raw));
  return result.reason;
}

/** What the binary says of the same input. */
function binary(action, raw, ...more) {
  const args = ['reference', action, '--reference', '-', '--json', ...more];
  try {
    return JSON.parse(execFileSync(BINARY, args, { input: JSON.stringify(raw), stdio: 'pipe', encoding: 'utf8' }));
  } catch (error) {
    return JSON.parse(error.stdout);
  }
}

test('a parse gives summary, target, inspect, materialize and env', () => {
  const parsed = gitReference.parse({ ...GOOD, author: AUTHOR });
  assert.deepEqual(Object.keys(parsed), ['ok', 'summary', 'target', 'inspect', 'materialize', 'env']);
  assert.deepEqual([parsed.ok, parsed.summary, parsed.target], [true, `${REMOTE} (main)`, 'main']);
  assert.equal(strategy.reference, gitReference);
});

test('the messages of a strict parse', () => {
  assert.equal(reason({ ...GOOD, K: 1 }), 'unknown key "K" — a git reference has remote, branch, credentialEnv, author');
  assert.equal(reason({}), 'missing "remote" — a git reference has remote, branch');
  assert.equal(reason({ remote: REMOTE }), 'missing "branch" — a git reference has remote, branch');
  for (const key of ['remote', 'branch', 'credentialEnv']) {
    for (const value of ['', ' ', null, 1, [], {}]) {
      assert.equal(reason({ ...GOOD, [key]: value }), `"${key}" must be a non-empty string`);
    }
  }
  for (const author of [null, 'x', [], { ...AUTHOR, x: 1 }]) {
    assert.equal(reason({ ...GOOD, author }), '"author" must be { name, email }');
  }
  assert.equal(reason({ ...GOOD, author: { ...AUTHOR, name: ' ' } }), '"author.name" must be a non-empty string');
  assert.equal(reason({ ...GOOD, author: { name: 'N' } }), '"author.email" must be a non-empty string');
});

test('credentialEnv is the name of a variable', () => {
  for (const credentialEnv of ['1A', 'A-B', '$A', 'A B', 'A=B', 'ä']) {
    assert.match(reason({ ...GOOD, credentialEnv }), /"credentialEnv" must be the name of an environment variable/);
  }
  assert.equal(gitReference.parse({ ...GOOD, credentialEnv: '_A9' }).ok, true);
});

test('a remote with credentials in it is refused, and not repeated', () => {
  for (const remote of ['https://user:s3cret@h/r', 'https://s3cret@h/r', 'ssh://git:s3cret@h/r', 'git:s3cret@h:r']) {
    const why = reason({ ...GOOD, remote });
    assert.ok(why.includes('credentials') && !why.includes('s3cret'), why);
  }
  for (const remote of ['git@h:r.git', 'ssh://git@h/r', '/a@b/c']) {
    assert.equal(gitReference.parse({ ...GOOD, remote }).ok, true, remote);
  }
});

test('a token never goes over plain http, but on this machine', () => {
  const credentialEnv = 'LINE_TOKEN';
  assert.match(reason({ ...GOOD, remote: 'http://example.test/r', credentialEnv }), /"credentialEnv" is refused for http:/);
  for (const remote of ['http://localhost:8080/r', 'http://127.0.0.1/r', 'http://[::1]:1/r']) {
    assert.equal(gitReference.parse({ ...GOOD, remote, credentialEnv }).ok, true, remote);
  }
});

test('the environment: author and committer, and how the token is asked for, for one site alone', () => {
  assert.deepEqual({ ...gitReference.parse(GOOD).env }, {});
  assert.deepEqual({ ...gitReference.parse({ ...GOOD, author: AUTHOR }).env }, {
    GIT_AUTHOR_NAME: AUTHOR.name, GIT_AUTHOR_EMAIL: AUTHOR.email,
    GIT_COMMITTER_NAME: AUTHOR.name, GIT_COMMITTER_EMAIL: AUTHOR.email,
  });
  const { env } = gitReference.parse({ ...GOOD, credentialEnv: 'LINE_TOKEN' });
  assert.equal(env.GIT_TERMINAL_PROMPT, '0');
  assert.equal(env.GIT_CONFIG_COUNT, '2');
  assert.deepEqual([env.GIT_CONFIG_KEY_0, env.GIT_CONFIG_VALUE_0], ['credential.helper', '']);
  assert.equal(env.GIT_CONFIG_KEY_1, 'credential.https://example.test.helper');
  assert.ok(env.GIT_CONFIG_VALUE_1.includes('x-access-token') && env.GIT_CONFIG_VALUE_1.includes('${LINE_TOKEN}'));
});

test('configuration entries follow those that are there already', async () => {
  await withEnv({ GIT_CONFIG_COUNT: '3' }, () => {
    const { env } = gitReference.parse({ ...GOOD, credentialEnv: 'LINE_TOKEN' });
    assert.deepEqual([env.GIT_CONFIG_COUNT, env.GIT_CONFIG_KEY_3], ['5', 'credential.helper']);
  });
});

test('parse and the binary say the same, of good references and bad ones', async () => {
  const token = { credentialEnv: 'LINE_TOKEN' };
  const remotes = [
    'https://Example.test:8443/r.git', 'HTTP://127.9.9.9:80/a@b', 'https://[::1]:443/r', 'https://h?x', 'file:///r', '/r',
    'git@h:o/r.git', 'ssh://git@h/r', 'https://', 'https:///r', 'https://a*/r', 'https://h:x/r', 'https://h:0/r',
    'https://h:65536/r', 'https://[::1/r', 'https://h h/', 'http://localhost.example.test/r', 'http://128.0.0.1/',
    'http://[::2]/', 'http://127.1/', 'http://[0:0:0:0:0:0:0:1]/r', 'https::https://u:p@h/r', 'https://user%3Ap%40h/r',
    'ftp://p@h/', 'svn+ssh://u:p@h/r', 'http://x:p@localhost:80/r', '../r', 'a\nb', 'https://h/\u0007',
  ];
  const branches = [
    'a/b', '-x', 'HEAD', 'a..b', 'a b', '.a', 'a/.b', 'a.lock', 'a/', '/a', 'a//b', 'a@{b', '@', 'a.', 'a~b', 'a^b', 'ä',
    'a\\b', 'a*', 'a?', 'a[', 'a:b', 'x.lock/y', 'refs/heads/x', 'a\u007fb',
  ];
  const inputs = [
    ...remotes.flatMap((remote) => [{ ...GOOD, remote }, { ...GOOD, remote, ...token, author: AUTHOR }]),
    ...branches.map((branch) => ({ ...GOOD, branch })),
    ...['1A', 'A_b9', ' A', 'A\n'].map((credentialEnv) => ({ ...GOOD, credentialEnv })),
    ...[null, {}, AUTHOR, { name: 'N' }, { ...AUTHOR, x: 1 }, { name: 'a\nb', email: 'e' }, { name: 1, email: 'e' }]
      .map((author) => ({ ...GOOD, author })),
    null, [], 3, 'text', {}, { branch: 'main' }, { ...GOOD, 'un\nknown': 1 }, { ...GOOD, remote: '\u00a0' },
  ];
  for (const raw of inputs) {
    const about = JSON.stringify(raw);
    const ours = gitReference.parse(raw);
    const theirs = binary('env', raw);
    if (ours.ok) {
      const said = { kind: 'env', summary: ours.summary, target: ours.target, env: { ...ours.env } };
      assert.deepEqual({ kind: theirs.kind, summary: theirs.summary, target: theirs.target, env: theirs.env }, said, about);
    } else if (raw !== null && typeof raw === 'object' && !Array.isArray(raw)) {
      assert.deepEqual(theirs, { kind: 'invalid', reason: ours.reason }, about);
    } else {
      assert.equal(theirs.kind, 'invalid', about);
    }
  }
});

test("a parse that succeeds puts its env in force; the last one wins; one that fails changes nothing", () => {
  assert.deepEqual(runEnv(), {});
  const first = gitReference.parse({ ...GOOD, author: AUTHOR });
  assert.deepEqual(runEnv(), { ...first.env });
  const second = gitReference.parse({ ...GOOD, author: { name: 'Other', email: 'o@example.test' } });
  assert.deepEqual(runEnv(), { ...second.env });
  reason({});
  assert.deepEqual(runEnv(), { ...second.env });
  clearRunEnv();
  assert.deepEqual(runEnv(), {});
});

test('setRunEnv and clearRunEnv; a copy is kept and given', () => {
  const mine = { GIT_AUTHOR_NAME: 'Me' };
  setRunEnv(mine);
  mine.GIT_AUTHOR_NAME = 'You';
  runEnv().GIT_AUTHOR_NAME = 'They';
  assert.deepEqual(runEnv(), { GIT_AUTHOR_NAME: 'Me' });
  for (const bad of [null, 'x', [], { A: 1 }, { A: undefined }, { 'A=B': 'x' }, { '': 'x' }, { A: 'a\0b' }]) {
    assert.throws(() => setRunEnv(bad), TypeError);
  }
  assert.deepEqual(runEnv(), { GIT_AUTHOR_NAME: 'Me' });
});

/** Parent and Child with work to fold, where the Parent's configuration names another person. */
async function pair(t) {
  const box = sandbox(t);
  const parent = box.repo();
  const child = box.path('child');
  assert.deepEqual(await strategy.isolation.attach({ parent, child, id: 'w' }), { ok: true });
  write(child, 'a', 'a\n');
  return { box, parent, child, fold: () => strategy.fold.fold({ parent, child, id: 'w' }) };
}

const people = (repo) => git(repo, 'log', '-1', '--format=%an %ae %cn %ce');

test('what a fold commits carries the author of the reference; without one, whoever runs the process', async (t) => {
  const { parent, child, fold } = await pair(t);
  gitReference.parse({ ...GOOD, author: AUTHOR });
  assert.deepEqual(await fold(), { ok: true });
  const system = `${AUTHOR.name} ${AUTHOR.email}`;
  assert.equal(people(parent), `${system} ${system}`);
  clearRunEnv();
  write(child, 'a', 'again\n');
  assert.deepEqual(await fold(), { ok: true });
  assert.equal(people(parent), 'Test test@example.test Test test@example.test');
});

test('what a host sets itself reaches the fold too', async (t) => {
  const { parent, fold } = await pair(t);
  setRunEnv({
    GIT_AUTHOR_NAME: 'A', GIT_AUTHOR_EMAIL: 'a@example.test', GIT_COMMITTER_NAME: 'C', GIT_COMMITTER_EMAIL: 'c@example.test',
  });
  assert.deepEqual(await fold(), { ok: true });
  assert.equal(people(parent), 'A a@example.test C c@example.test');
});

test('inspect: exactly {kind} or {kind, reason}, at once', (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  const reference = gitReference.parse({ remote: `${parent}.git`, branch: 'main' });
  assert.deepEqual(reference.inspect(box.path('nothing')), { kind: 'missing' });
  const mismatch = (path, why) => assert.deepEqual(reference.inspect(path), { kind: 'mismatch', reason: why });
  write(box.root, 'file', '');
  mismatch(box.path('file'), `${box.path('file')} exists and is not a directory`);
  mismatch(box.path('home'), `${box.path('home')} is not a git tree`);
  mismatch(parent, `${parent} has no "origin" remote`);
  git(parent, 'remote', 'add', 'origin', '/elsewhere');
  mismatch(parent, `${parent} has "origin" at /elsewhere, not ${parent}.git`);
  git(parent, 'remote', 'set-url', 'origin', `${parent}/`);
  assert.deepEqual(reference.inspect(parent), { kind: 'matches' });
  git(parent, 'switch', '-q', '-c', 'side');
  mismatch(parent, `${parent} is on "side", not "main"`);
  assert.equal(reference.inspect('').kind, 'mismatch');
});

test('materialize makes a single-branch clone; a failure says why, and leaves nothing', async (t) => {
  const box = sandbox(t);
  const remote = box.repo('remote');
  git(remote, 'branch', 'other');
  const copy = box.path('deep/copy');
  const reference = gitReference.parse({ remote, branch: 'main', author: AUTHOR });
  assert.deepEqual(await reference.materialize(copy), { ok: true });
  assert.deepEqual(reference.inspect(copy), { kind: 'matches' });
  assert.equal(git(copy, 'remote', 'get-url', 'origin'), remote);
  assert.equal(git(copy, 'for-each-ref', '--format=%(refname)', 'refs/remotes/origin/main', 'refs/remotes/origin/other'),
    'refs/remotes/origin/main');
  const fails = async (raw, path, words) => {
    const result = await gitReference.parse(raw).materialize(path);
    assert.deepEqual([Object.keys(result), result.ok], [['ok', 'reason'], false]);
    assert.match(result.reason, words);
  };
  await fails({ remote, branch: 'none' }, box.path('a/b'), /has no branch "none"\. It has: main, other/);
  await fails({ remote: box.path('nowhere'), branch: 'main' }, box.path('a/b'), /^cannot reach .*nowhere: /);
  await fails({ remote, branch: 'main' }, copy, /exists already/);
  await fails({ remote, branch: 'main' }, 3, /non-empty string/);
  assert.equal(existsSync(box.path('a')), false);
});

test('many copies at once', async (t) => {
  const box = sandbox(t);
  const remote = box.repo('remote');
  const reference = gitReference.parse({ remote, branch: 'main' });
  const copies = ['one', 'two', 'three'].map((name) => box.path(name));
  const results = await Promise.all(copies.map((copy) => reference.materialize(copy)));
  assert.deepEqual(results, copies.map(() => ({ ok: true })));
});

/** Serves a bare repository by the dumb protocol, to whoever has the token. */
async function served(t, bare) {
  const wanted = `Basic ${Buffer.from(`x-access-token:${TOKEN}`).toString('base64')}`;
  const asked = [];
  const server = createServer((request, response) => {
    asked.push(request.headers.authorization);
    if (request.headers.authorization !== wanted) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end();
      return;
    }
    try {
      response.end(readFileSync(`${bare}${new URL(request.url, 'http://h').pathname.replace('/line.git', '')}`));
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((ready) => server.listen(0, '127.0.0.1', ready));
  t.after(() => server.close());
  return { remote: `http://127.0.0.1:${server.address().port}/line.git`, asked, wanted };
}

test('the token reaches the remote when git asks, and is written nowhere', async (t) => {
  const box = sandbox(t);
  git(box.root, 'clone', '-q', '--bare', box.repo('source'), 'bare.git');
  git(box.path('bare.git'), 'update-server-info');
  const { remote, asked, wanted } = await served(t, box.path('bare.git'));
  const copy = box.path('copy');
  await withEnv({ LINE_TOKEN: TOKEN }, async () => {
    const reference = gitReference.parse({ remote, branch: 'main', credentialEnv: 'LINE_TOKEN' });
    assert.ok(!JSON.stringify(reference.env).includes(TOKEN), 'no token in the environment that is shown');
    assert.deepEqual(await reference.materialize(copy), { ok: true });
    // A git of the host's own, with that environment.
    const env = { ...process.env, ...runEnv() };
    const listed = spawn('git', ['ls-remote', remote], { env });
    assert.equal(await new Promise((end) => listed.on('close', end)), 0);
  });
  assert.ok(asked.includes(wanted));
  const everywhere = readdirSync(copy, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  for (const entry of everywhere) {
    assert.ok(!readFileSync(`${entry.parentPath ?? entry.path}/${entry.name}`).includes(TOKEN), entry.name);
  }
  const wrong = await withEnv({ LINE_TOKEN: 'another' }, () =>
    gitReference.parse({ remote, branch: 'main', credentialEnv: 'LINE_TOKEN' }).materialize(box.path('second')));
  assert.match(wrong.reason, /^cannot reach /);
  assert.ok(!wrong.reason.includes('another'));
});

test('isolate and fold carry the reference in force to the binary', async (t) => {
  const box = sandbox(t);
  const seen = box.path('seen');
  const keep = `for a in "$@"; do case "$a" in --reference=*) cat "\${a#--reference=}" >${seen};; esac; done`;
  const program = box.program(`${keep}; echo '{"event":"isolation-finished","outcome":"isolated"}'`);
  await withEnv({ ISOFOLD_BIN: program }, async () => {
    gitReference.parse({ ...GOOD, author: AUTHOR });
    assert.deepEqual(await strategy.isolation.attach({ parent: '/p', child: '/c' }), { ok: true });
  });
  assert.deepEqual(JSON.parse(readFileSync(seen, 'utf8')), { ...GOOD, author: AUTHOR });
});

test('a repository with work in it is no place for a copy', async (t) => {
  const box = sandbox(t);
  const parent = box.repo();
  write(parent, 'loose', 'x');
  commit(parent, 'more');
  const before = git(parent, 'rev-parse', 'HEAD');
  const reference = gitReference.parse({ remote: parent, branch: 'main' });
  assert.equal((await reference.materialize(parent)).ok, false);
  assert.equal(git(parent, 'rev-parse', 'HEAD'), before);
});
