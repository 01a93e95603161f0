// The reference of a work line: which remote and branch it is, and who the system is.

import { spawn, spawnSync } from 'node:child_process';

import { binary, binarySync } from './binary.js';
import { childEnv, install } from './env.js';
import { parsed } from './job.js';
import { referenceEnv } from './reference-env.js';
import { readReference } from './reference-read.js';

/** What no message or answer comes near. */
const MOST_OUTPUT = 16 * 1024 * 1024;

export const gitReference = Object.freeze({ parse });

function parse(raw) {
  const read = readReference(raw);
  if (!read.ok) {
    return read;
  }
  const { reference, site } = read;
  const env = Object.freeze(referenceEnv(reference, site, process.env));
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

function argumentsFor(action, path) {
  if (typeof path !== 'string' || path === '' || path.includes('\0')) {
    throw new TypeError('the path of a copy is a non-empty string');
  }
  return ['reference', action, '--reference=-', `--copy=${path}`, '--json'];
}

/** What stands at `path`: exactly `{kind}` or `{kind, reason}`; what can't be told is a mismatch. */
function inspect(reference, path) {
  let ended;
  try {
    const options = { env: childEnv(), input: JSON.stringify(reference), encoding: 'utf8', maxBuffer: MOST_OUTPUT };
    ended = spawnSync(binarySync(), argumentsFor('inspect', path), options);
  } catch (error) {
    return { kind: 'mismatch', reason: error.message };
  }
  const said = lastOf(ended.stdout ?? '');
  if (said?.kind === 'missing' || said?.kind === 'matches') {
    return { kind: said.kind };
  }
  const why = ended.error?.message ?? `isofold reference inspect ended ${ending(ended.status, ended.signal)}`;
  return { kind: 'mismatch', reason: said?.reason ?? why };
}

/** Makes a copy of the line. `{ok: true}` or `{ok: false, reason}`; never rejects. */
async function materialize(reference, path) {
  try {
    const args = argumentsFor('materialize', path);
    const ended = await fed(await binary(), args, JSON.stringify(reference));
    const said = lastOf(ended.stdout);
    if (ended.code === 0 && said?.kind === 'materialized') {
      return { ok: true };
    }
    const why = `isofold reference materialize ended ${ending(ended.code, ended.signal)}`;
    return { ok: false, reason: said?.reason ?? why };
  } catch (error) {
    return { ok: false, reason: error.message };
  }
}

/** Runs a program with `input` on its stdin. Rejects where it can't be started. */
function fed(program, args, input) {
  return new Promise((settle, fail) => {
    const child = spawn(program, args, { env: childEnv(), stdio: ['pipe', 'pipe', 'ignore'] });
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout += text;
    });
    child.on('error', fail);
    child.on('close', (code, signal) => settle({ code, signal, stdout }));
    // A program that ends without reading has said why.
    child.stdin.on('error', () => {});
    child.stdin.end(input);
  });
}

function lastOf(stdout) {
  return parsed(stdout.trim().split('\n').pop());
}

function ending(code, signal) {
  return signal === null ? `with exit code ${code}` : `by ${signal}`;
}
