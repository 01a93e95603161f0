// A small but complete host: it keeps a work line, gives two subtasks a Child each, and brings it all home.
//
//   node examples/host.mjs DIR      the whole sequence in DIR; goes on where an earlier run was killed
//   node examples/host.mjs --check  the same in temporary directories: once in peace, then killed with
//                                   SIGKILL at each of the places in KILLS; history and files are asserted
//
// It needs node 20, git, and the isofold binary (ISOFOLD_BIN, or on PATH).

import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  appendFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

// A host that has the package installed imports 'isofold'.
import { gitReference, runEnv, strategy } from '../index.js';

const FEATURE = 'github:demo/app#7';
const PARSER = `${FEATURE}:parser`;
const DOCS = `${FEATURE}:docs`;
const AUTHOR = { name: 'The Line', email: 'line@example.test' };

/** The steps of the work line. A host writes down what it has begun and what is done, and nothing else. */
async function work(directory) {
  const at = (name) => join(directory, name);
  const line = at('line');
  const feature = at('feature');
  const { step, attach, fold } = keeper(at('journal'));

  const reference = gitReference.parse({ remote: at('remote.git'), branch: 'main', author: AUTHOR });
  assert.ok(reference.ok, reference.reason);
  await step('copy of the line', async () => {
    if (reference.inspect(line).kind === 'missing') {
      needed(await reference.materialize(line));
    }
    assert.deepEqual(reference.inspect(line), { kind: 'matches' });
    // What only this machine has: dependencies go along to every Child, secrets never.
    write(line, 'node_modules/dep/index.js', 'export default 1;\n');
    write(line, '.env', 'TOKEN=secret\n');
  });

  await attach({ parent: line, child: feature, id: FEATURE });

  // Two subtasks at once, each with a Child of the feature.
  await attach({ parent: feature, child: at('parser'), id: PARSER });
  await attach({ parent: feature, child: at('docs'), id: DOCS });
  await step('work on both', async () => {
    assert.ok(existsSync(at('parser/node_modules/dep/index.js')) && !existsSync(at('parser/.env')));
    write(at('parser'), 'src/parser.txt', lines({ 2: 'a parser' }));
    write(at('docs'), 'docs/parser.md', 'How to parse.\n');
    write(at('docs'), 'README.md', 'The app, with a parser.\n');
  });
  for (const [name, id, subject] of [['parser', PARSER, 'Add a parser'], ['docs', DOCS, 'Describe the parser']]) {
    await fold({ parent: feature, child: at(name), id, subject, mergeSubject: `Bring in: ${subject}` });
    // No git is told: the next attach replaces the entry that is left.
    await step(`delete ${name}`, async () => rmSync(at(name), { recursive: true, force: true }));
  }

  // A repair pass: the same subtask, once more from the feature as it is now.
  await attach({ parent: feature, child: at('parser'), id: PARSER, pass: 2 });
  await step('repair', async () => write(at('parser'), 'src/parser.txt', lines({ 2: 'a parser', 9: 'that is right' })));
  await fold({ parent: feature, child: at('parser'), id: PARSER, subject: 'Repair the parser', mergeSubject: 'Bring in the repair' });
  await step('delete parser again', async () => rmSync(at('parser'), { recursive: true, force: true }));

  // Meanwhile somebody works on the line; the feature takes that in first.
  await step('the line moves', async () => {
    if (git(line, 'log', '-1', '--format=%s') !== 'Somebody else was here') {
      write(line, 'src/other.txt', lines({ 5: 'other work' }));
      git(line, 'add', 'src/other.txt');
      git(line, 'commit', '-q', '-m', 'Somebody else was here');
    }
  });
  await fold({ parent: feature, child: line, id: 'line', subject: 'Loose work of the line', mergeSubject: 'Take in the line' });
  await fold({ parent: line, child: feature, id: FEATURE, subject: 'Loose work of the feature', mergeSubject: 'Land the feature' });

  await step('push', async () => {
    // A git of the host's own carries the environment of the reference.
    const ref = strategy.refOf(FEATURE);
    git(line, 'push', '-q', 'origin', `${ref}:${ref}`);
  });
  await step('goodbye', async () => {
    needed(await strategy.isolation.abort({ parent: line, child: feature }));
  });
}

/** What a host remembers over its own death: which steps were begun, and which are done. */
function keeper(journal) {
  const past = existsSync(journal) ? readFileSync(journal, 'utf8').split('\n') : [];
  const note = (text) => {
    appendFileSync(journal, `${text}\n`, { flush: true });
    // For whoever kills us at a certain place.
    process.stdout.write(`${text}\n`);
  };
  const step = async (name, act, again = async () => {}) => {
    if (past.includes(`done ${name}`)) {
      return;
    }
    if (past.includes(`begun ${name}`)) {
      await again();
    }
    note(`begun ${name}`);
    await act();
    note(`done ${name}`);
  };
  return {
    step,
    // What a killed attach left is taken away; nobody deletes a Child by hand to make room.
    attach: ({ pass = 1, ...request }) => step(
      `attach ${request.id} ${pass}`,
      async () => needed(await strategy.isolation.attach({ ...request, timeoutMs: 60_000 })),
      async () => needed(await strategy.isolation.abort(request)),
    ),
    // A fold is all or nothing, and one that had landed has nothing to do: just say it again.
    fold: (request) => step(`fold ${request.subject}`, async () => {
      needed(await strategy.fold.fold({ ...request, deadlineMs: Date.now() + 60_000 }));
    }),
  };
}

/** A host asks a person, or a model, about a conflict; this one has none to ask. */
function needed(result) {
  if (!result.ok) {
    throw new Error(result.report ?? result.detail ?? result.reason ?? `stopped: ${result.stop}`);
  }
}

/** The remote that all begins with: a bare repository with a line of a few hundred files. */
function makeRemote(directory) {
  const seed = join(directory, 'seed');
  git(directory, 'init', '-q', '--bare', '-b', 'main', 'remote.git');
  git(directory, 'clone', '-q', join(directory, 'remote.git'), seed);
  write(seed, '.gitignore', 'node_modules/\n');
  write(seed, 'README.md', 'The app.\n');
  write(seed, 'src/parser.txt', lines());
  write(seed, 'src/other.txt', lines());
  for (let number = 0; number < 400; number += 1) {
    write(seed, `src/lib/${number % 20}/${number}.txt`, `${number}\n`);
  }
  git(seed, 'add', '-A');
  git(seed, '-c', 'user.name=Seed', '-c', 'user.email=seed@example.test', 'commit', '-q', '-m', 'Start');
  git(seed, 'push', '-q', 'origin', 'main');
  rmSync(seed, { recursive: true });
}

/** What has to be there in the end, however often the host died. */
function assertHome(directory) {
  const line = join(directory, 'line');
  const remote = join(directory, 'remote.git');
  const log = (repo, ...args) => git(repo, 'log', '--format=%s', ...args).split('\n');
  const tip = strategy.refOf(FEATURE);
  assert.deepEqual(log(line, '--topo-order', '--first-parent', 'main'), [
    'Take in the line', 'Repair the parser', 'Bring in: Describe the parser', 'Add a parser', 'Start',
  ]);
  assert.deepEqual(log(line, 'main').sort(), [
    'Add a parser', 'Bring in: Describe the parser', 'Describe the parser', 'Repair the parser', 'Somebody else was here',
    'Start', 'Take in the line',
  ]);
  // The line had not moved again: it took the feature as it is.
  assert.equal(git(line, 'rev-parse', 'main'), git(line, 'rev-parse', tip));
  assert.equal(git(remote, 'rev-parse', tip), git(line, 'rev-parse', tip));
  const people = new Set(git(line, 'log', '--format=%an <%ae> %cn <%ce>', 'main', '^origin/main').split('\n'));
  assert.deepEqual([...people], [`${AUTHOR.name} <${AUTHOR.email}> ${AUTHOR.name} <${AUTHOR.email}>`]);
  const file = (path) => readFileSync(join(line, path), 'utf8');
  assert.equal(file('src/parser.txt'), lines({ 2: 'a parser', 9: 'that is right' }));
  assert.equal(file('src/other.txt'), lines({ 5: 'other work' }));
  assert.equal(file('docs/parser.md'), 'How to parse.\n');
  assert.equal(file('README.md'), 'The app, with a parser.\n');
  assert.equal(file('.env'), 'TOKEN=secret\n');
  assert.equal(git(line, 'log', '--all', '--format=%h', '--', '.env', 'node_modules'), '', 'no secret in any history');
  assert.equal(git(line, 'status', '--porcelain'), '?? .env');
  assert.equal(git(line, 'fsck', '--no-progress', '--no-dangling'), '');
  assert.deepEqual(readdirSync(directory).sort(), ['journal', 'line', 'remote.git']);
  // The subtasks' directories were deleted behind git's back; the feature went by the front door.
  assert.ok(!git(line, 'worktree', 'list').includes('/feature'));
}

/**
 * Who dies, at which step, and how many milliseconds after it began. A fold that dies while it writes holds
 * git's locks until `isofold recover`, or the next fold, has finished it or rolled it back.
 */
const KILLS = [
  { who: 'isofold', at: `attach ${FEATURE} 1`, after: 15 },
  { who: 'host', at: `attach ${PARSER} 1`, after: 15 },
  { who: 'host', at: 'fold Describe the parser', after: 20 },
  { who: 'host', at: 'fold Loose work of the line', after: 10 },
  { who: 'isofold', at: `attach ${PARSER} 2`, after: 25 },
  { who: 'host', at: 'push', after: 3 },
  { who: 'isofold', at: 'fold Add a parser', after: 10, recovers: true },
  { who: 'isofold', at: 'fold Repair the parser', after: 25, recovers: true },
  { who: 'isofold', at: 'fold Loose work of the feature', after: 40, recovers: true },
];

async function check() {
  const canRecover = spawnSync(process.env.ISOFOLD_BIN ?? 'isofold', ['recover', '--help']).status === 0;
  for (const kill of [undefined, ...KILLS.filter((each) => canRecover || !each.recovers)]) {
    const directory = realpathSync(mkdtempSync(join(tmpdir(), 'isofold-host-')));
    try {
      makeRemote(directory);
      const runs = await untilDone(directory, kill);
      assertHome(directory);
      const how = kill === undefined ? 'in peace' : `${kill.who} killed ${kill.after} ms into "${kill.at}"`;
      process.stdout.write(`ok: ${how}; ${runs} run${runs === 1 ? '' : 's'} of the host\n`);
    } finally {
      rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
    }
  }
}

/** Starts the host until it comes to its end; the first time, somebody dies. Gives how many runs it took. */
async function untilDone(directory, kill) {
  for (let run = 1; run <= 5; run += 1) {
    const { code, stderr, killed } = await oneRun(directory, run === 1 ? kill : undefined);
    if (code === 0) {
      assert.ok(run > 1 || kill === undefined || kill.who === 'isofold', 'somebody should have died');
      return run;
    }
    assert.ok(killed || run > 1, `the host failed by itself: ${stderr}`);
    if (run > 1) {
      process.stdout.write(`  run ${run}: ${stderr.split('\n').find((text) => text.startsWith('Error')) ?? stderr}\n`);
    }
  }
  throw new Error('the host never came to its end');
}

function oneRun(directory, kill) {
  return new Promise((settle) => {
    const host = spawn(process.execPath, [fileURLToPath(import.meta.url), directory], { stdio: ['ignore', 'pipe', 'pipe'] });
    let stderr = '';
    let killed = false;
    host.stderr.setEncoding('utf8').on('data', (text) => {
      stderr += text;
    });
    host.stdout.setEncoding('utf8').on('data', (text) => {
      if (kill !== undefined && text.split('\n').includes(`begun ${kill.at}`)) {
        setTimeout(() => {
          const victims = kill.who === 'host' ? [host.pid] : childrenOf(host.pid);
          killed = victims.filter(killOf).length > 0;
        }, kill.after);
      }
    });
    host.on('close', (code) => settle({ code, stderr, killed }));
  });
}

/** Kills a process; false if it came to its end first. */
function killOf(pid) {
  try {
    return process.kill(pid, 'SIGKILL');
  } catch (error) {
    if (error.code === 'ESRCH') return false;
    throw error;
  }
}

/** The processes that a process started, which on this host are all isofold. */
function childrenOf(pid) {
  const isChild = (name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === pid;
    } catch {
      return false;
    }
  };
  return readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name) && isChild(name)).map(Number);
}

function git(directory, ...args) {
  const env = { ...process.env, ...runEnv() };
  return execFileSync('git', ['-C', directory, ...args], { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trimEnd();
}

function write(directory, path, content) {
  mkdirSync(join(directory, path, '..'), { recursive: true });
  writeFileSync(join(directory, path), content);
}

/** Twenty lines, some of them replaced. */
function lines(replaced = {}) {
  return Array.from({ length: 20 }, (_, number) => `${replaced[number] ?? `line ${number}`}\n`).join('');
}

const [argument] = process.argv.slice(2);
if (argument === undefined) {
  process.stderr.write('usage: node examples/host.mjs DIR | --check\n');
  process.exitCode = 2;
} else if (argument === '--check') {
  await check();
} else {
  const directory = realpathSync(argument);
  if (!existsSync(join(directory, 'remote.git'))) {
    makeRemote(directory);
  }
  await work(directory);
}
