// Finding the binary, and making sure that it speaks our protocol.

import { execFile, spawnSync } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

import { childEnv } from './env.js';

/** The protocol that this package speaks (docs/protocol.md). */
export const PROTOCOL = 1;

const HANDSHAKE = ['--version', '--json'];
/** A version is printed at once, or never. */
const HANDSHAKE_LIMIT_MS = 10_000;
const PACKAGE = fileURLToPath(new URL('..', import.meta.url));
const BESIDE = ['bin/isofold', 'isofold'];

/** Why no binary can be used; the message says what to do. */
export class BinaryError extends Error {
  name = 'BinaryError';
}

/** The binary's path: `ISOFOLD_BIN`, then beside the package, then PATH. Throws `BinaryError`. */
export function findBinary() {
  const named = process.env.ISOFOLD_BIN;
  if (named !== undefined && named !== '') {
    const path = resolve(named);
    if (!isProgram(path)) {
      throw new BinaryError(`ISOFOLD_BIN names ${path}, which is not a program that can be run`);
    }
    return path;
  }
  const onPath = (process.env.PATH ?? '').split(delimiter).filter((directory) => isAbsolute(directory));
  const candidates = [...BESIDE.map((name) => join(PACKAGE, name)), ...onPath.map((dir) => join(dir, 'isofold'))];
  const found = candidates.find(isProgram);
  if (found === undefined) {
    throw new BinaryError(
      'the isofold binary was not found: install it on PATH, put it beside the package, or name it in ISOFOLD_BIN',
    );
  }
  return found;
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Answers of the handshake, by what identifies a file; a binary that is replaced is asked again. */
const handshakes = new Map();

function identity(path) {
  const { dev, ino, size, mtimeMs } = statSync(path);
  return `${path}\0${dev}:${ino}:${size}:${mtimeMs}`;
}

/** The path of a binary that speaks our protocol. Rejects with `BinaryError`. */
export async function binary() {
  const path = findBinary();
  const key = identity(path);
  if (!handshakes.has(key)) {
    const answer = await new Promise((settle) => {
      const options = { env: childEnv(), encoding: 'utf8', timeout: HANDSHAKE_LIMIT_MS, killSignal: 'SIGKILL' };
      execFile(path, HANDSHAKE, options, (error, stdout) => settle(judge(path, error, stdout)));
    });
    remember(key, answer);
    return answered(path, answer);
  }
  return answered(path, handshakes.get(key));
}

/** As `binary`, without leaving the caller. Throws `BinaryError`. */
export function binarySync() {
  const path = findBinary();
  const key = identity(path);
  if (!handshakes.has(key)) {
    const options = { env: childEnv(), encoding: 'utf8', timeout: HANDSHAKE_LIMIT_MS, killSignal: 'SIGKILL' };
    const { error, status, stdout } = spawnSync(path, HANDSHAKE, options);
    const answer = judge(path, error ?? (status === 0 ? null : new Error('failed')), stdout ?? '');
    remember(key, answer);
    return answered(path, answer);
  }
  return answered(path, handshakes.get(key));
}

/** A refusal is not remembered: the next job asks again. */
function remember(key, answer) {
  if (answer === undefined) {
    handshakes.set(key, answer);
  }
}

function answered(path, refusal) {
  if (refusal !== undefined) {
    throw new BinaryError(refusal);
  }
  return path;
}

/** Why the answer will not do; `undefined` if it will. */
function judge(path, error, stdout) {
  if (error?.code === 'ETIMEDOUT' || error?.killed) {
    return `${path} did not say its version within ${HANDSHAKE_LIMIT_MS / 1000} s`;
  }
  let said;
  try {
    said = JSON.parse(stdout);
  } catch {
    said = undefined;
  }
  if (error || said?.name !== 'isofold' || !Number.isInteger(said.protocol)) {
    const why = error?.code === undefined || typeof error.code === 'number' ? '' : ` (${error.code})`;
    return `${path} does not answer "isofold --version --json" as isofold does${why}; is it another program, or too old?`;
  }
  if (said.protocol !== PROTOCOL) {
    const newer = said.protocol > PROTOCOL ? 'this package' : 'the binary';
    return (
      `${path} (isofold ${said.version}) speaks protocol ${said.protocol}, this package speaks ${PROTOCOL}: ` +
      `update ${newer}`
    );
  }
  return undefined;
}
