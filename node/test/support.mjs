// A temporary directory with a home of its own, real git, and stand-ins for the binary.

import { execFileSync } from 'node:child_process';
import {
  chmodSync, lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, realpathSync, rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const PACKAGE = fileURLToPath(new URL('..', import.meta.url));
/** What the tests were told to use; the tests of the lookup change the variable. */
export const BINARY = process.env.ISOFOLD_BIN;

for (const name of Object.keys(process.env)) {
  if (name.startsWith('GIT_')) {
    delete process.env[name];
  }
}
process.env.LC_ALL = 'C';
process.env.GIT_CONFIG_NOSYSTEM = '1';

/** A sandbox that is gone when the test `t` is over. */
export function sandbox(t) {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'isofold-node-')));
  t.after(() => rmSync(root, { recursive: true, force: true, maxRetries: 3 }));
  mkdirSync(join(root, 'home'));
  process.env.HOME = join(root, 'home');
  process.env.XDG_CONFIG_HOME = join(root, 'home/.config');
  return {
    root,
    path: (...names) => join(root, ...names),
    /** A repository with one commit: `a`, `b` of twenty lines, `dir/c`, a `.gitignore`. */
    repo(name = 'parent') {
      const repo = join(root, name);
      git(root, 'init', '-q', '-b', 'main', repo);
      git(repo, 'config', 'user.name', 'Test');
      git(repo, 'config', 'user.email', 'test@example.test');
      write(repo, 'a', lines());
      write(repo, 'b', lines());
      write(repo, 'dir/c', 'c\n');
      write(repo, '.gitignore', '*.log\nignored/\n');
      commit(repo, 'start');
      return repo;
    },
    /** A program that stands in for the binary; `body` is shell, after the handshake. */
    program(body, { protocol = 1, name = 'fake-isofold' } = {}) {
      const path = join(root, name);
      const version = JSON.stringify({ name: 'isofold', version: '9.9.9', protocol });
      const shake = `if [ "$1" = --version ]; then echo '${version}'; exit 0; fi`;
      write(root, name, `#!/bin/sh\n${shake}\n${body}\n`);
      chmodSync(path, 0o755);
      return path;
    },
  };
}

/** Runs git, which has to succeed; its output without the last newline. */
export function git(directory, ...args) {
  return execFileSync('git', ['-C', directory, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trimEnd();
}

export function commit(repo, subject) {
  git(repo, 'add', '-A', '--', ':/', ':(exclude,glob)**/.env');
  git(repo, 'commit', '-q', '-m', subject);
}

export function write(directory, path, content) {
  mkdirSync(dirname(join(directory, path)), { recursive: true });
  writeFileSync(join(directory, path), content);
}

export function read(directory, path) {
  return readFileSync(join(directory, path), 'utf8');
}

/** Twenty numbered lines, some of them replaced. */
export function lines(replaced = {}) {
  return Array.from({ length: 20 }, (_, number) => `${replaced[number] ?? `l${number}`}\n`).join('');
}

/** All that must not change in a repository. */
export function state(repo) {
  const rows = [];
  const visit = (directory) => {
    for (const name of readdirSync(join(repo, directory)).sort()) {
      const path = join(directory, name);
      const meta = lstatSync(join(repo, path));
      if (path === '.git') {
        continue;
      }
      const what = meta.isDirectory() ? '' : meta.isSymbolicLink()
        ? readlinkSync(join(repo, path)) : meta.isFile() ? readFileSync(join(repo, path), 'latin1') : 'special';
      rows.push(`${path} ${meta.mode.toString(8)} ${meta.mtimeMs} ${what}`);
      if (meta.isDirectory()) {
        visit(path);
      }
    }
  };
  visit('');
  const gitDir = git(repo, 'rev-parse', '--absolute-git-dir');
  rows.push(readFileSync(join(gitDir, 'index'), 'latin1'), readFileSync(join(gitDir, 'HEAD'), 'utf8'));
  rows.push(git(repo, 'for-each-ref'), git(repo, 'worktree', 'list'));
  return rows.join('\n');
}

/** Runs `work` with other environment variables; `undefined` takes one away. */
export async function withEnv(changes, work) {
  const before = Object.fromEntries(Object.keys(changes).map((name) => [name, process.env[name]]));
  const set = (values) => {
    for (const [name, value] of Object.entries(values)) {
      if (value === undefined) {
        delete process.env[name];
      } else {
        process.env[name] = value;
      }
    }
  };
  set(changes);
  try {
    return await work();
  } finally {
    set(before);
  }
}

/** Collects what `run*` writes, as objects. */
export function collector() {
  const list = [];
  return { list, write: (text) => list.push(JSON.parse(text)) };
}
