// The reference of a work line: which remote and branch it is, and who the system is.

import { spawn, spawnSync } from 'node:child_process';

import { binary, binarySync } from './binary.js';
import { childEnv, install } from './env.js';
import { referenceEnv } from './reference-env.js';
import { readReference } from './reference-read.js';

export const gitReference = Object.freeze({ parse });

function parse(raw) {
  const read = readReference(raw);
  if (!read.ok) {
    return read;
  }
  const { reference } = read;
  const env = Object.freeze(referenceEnv(reference, process.env));
  install(env, reference);
  return Object.freeze({
    ok: true,
    summary: `${reference.remote} (${reference.branch})`,
    target: reference.branch,
    inspect: (path) => inspect(reference, path),
    materialize: (path) => materialize(reference, path),
    env,
  });
}

function args(command, path) {
  return ['reference', command, '--reference', '-', `--copy=${path}`, '--json'];
}

/** What stands at `path`: exactly `{kind}` or `{kind, reason}`. Throws where the binary can't say. */
function inspect(reference, path) {
  const input = JSON.stringify(reference);
  const ended = spawnSync(binarySync(), args('inspect', path), { env: childEnv(), input, encoding: 'utf8' });
  if (ended.error !== undefined) {
    throw new Error(`isofold can't be run: ${ended.error.message}`);
  }
  const said = lastLine(ended.stdout);
  switch (said?.kind) {
    case 'missing':
    case 'matches':
      return { kind: said.kind };
    case 'mismatch':
      return { kind: said.kind, reason: said.reason };
    default:
      throw new Error(words(ended.stderr) || `isofold reference inspect ended with exit code ${ended.status}`);
  }
}

/** Clones. `{ok: true}` or `{ok: false, reason}`; never rejects. */
async function materialize(reference, path) {
  let program;
  try {
    program = await binary();
  } catch (error) {
    return { ok: false, reason: error.message };
  }
  return new Promise((settle) => {
    const child = spawn(program, args('materialize', path), { env: childEnv(), stdio: ['pipe', 'ignore', 'pipe'] });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text) => {
      stderr += text;
    });
    child.on('error', (error) => settle({ ok: false, reason: `isofold can't be run: ${error.message}` }));
    child.on('close', (code, signal) => {
      if (code === 0) {
        settle({ ok: true });
        return;
      }
      const how = signal === null ? `with exit code ${code}` : `by ${signal}`;
      settle({ ok: false, reason: words(stderr) || `isofold reference materialize ended ${how}` });
    });
    // A binary that ends without reading has said why.
    child.stdin.on('error', () => {});
    child.stdin.end(JSON.stringify(reference));
  });
}

function lastLine(text) {
  try {
    return JSON.parse(text.trim().split('\n').pop());
  } catch {
    return undefined;
  }
}

/** The message of an error on stderr. */
function words(stderr) {
  const line = stderr.split('\n').find((each) => each.startsWith('error: '));
  return line === undefined ? stderr.trim() : line.slice('error: '.length);
}
