// One run of the binary: its lines, and the stops that are passed on to it.

import { spawn } from 'node:child_process';

import { childEnv } from './env.js';

/** How often a host's callbacks are asked. */
export const POLL_MS = 10;
/** How long after a stop a binary that does not end is waited for: cleaning up may take long. */
const KILL_AFTER_MS = 60_000;
/** What is kept of stderr, for the message about a binary that broke down. */
const STDERR_KEPT = 4096;
/** How long output is waited for when the binary has ended: somebody it started may hold the pipe. */
const STRAY_OUTPUT_MS = 1000;

/**
 * Runs `path` with `args`; resolves with `{code, signal, stderr, stop, stopError, startError}`.
 * `stopped()` is asked every `POLL_MS`; its first answer other than `undefined` is passed on as
 * SIGINT and becomes `stop`. `onLine` gets each line of stdout, without its end.
 */
export function runBinary(path, args, { onLine, stopped, cwd, killAfterMs = KILL_AFTER_MS }) {
  return new Promise((settle) => {
    let child;
    const result = { code: null, signal: null, stderr: '', stop: undefined, stopError: undefined };
    try {
      child = spawn(path, args, { cwd, env: childEnv(), stdio: ['ignore', 'pipe', 'pipe'] });
    } catch (error) {
      settle({ ...result, startError: error });
      return;
    }
    let timer;
    let killer;
    let stray;
    let done = false;
    const finish = (more) => {
      if (!done) {
        done = true;
        [timer, killer, stray].forEach((each) => clearTimeout(each));
        settle({ ...result, ...more });
      }
    };

    const poll = () => {
      timer = undefined;
      let answer;
      try {
        answer = stopped();
      } catch (error) {
        result.stopError = error;
        answer = 'interrupt';
      }
      if (answer !== undefined) {
        if (result.stop === undefined) {
          child.kill('SIGINT');
          killer = setTimeout(() => child.kill('SIGKILL'), killAfterMs);
        }
        // An interrupt that races the clock wins.
        result.stop = answer === 'interrupt' ? answer : (result.stop ?? answer);
      }
      if (result.stop !== 'interrupt') {
        timer = setTimeout(poll, POLL_MS);
      }
    };

    const lines = lineReader(onLine);
    child.stdout.setEncoding('utf8').on('data', lines.push).on('error', () => {});
    child.stderr.setEncoding('utf8').on('error', () => {}).on('data', (text) => {
      result.stderr = (result.stderr + text).slice(-STDERR_KEPT);
    });
    child.on('error', (error) => {
      // A signal that could not be sent is an error too; then the run goes on.
      if (child.pid === undefined) {
        finish({ startError: error });
      }
    });
    child.on('spawn', poll);
    child.on('exit', (code, signal) => {
      Object.assign(result, { code, signal });
      clearTimeout(timer);
      clearTimeout(killer);
      stray = setTimeout(() => {
        child.stdout.destroy();
        child.stderr.destroy();
        lines.end();
        finish();
      }, STRAY_OUTPUT_MS);
    });
    child.on('close', () => {
      lines.end();
      finish();
    });
  });
}

function lineReader(onLine) {
  let rest = '';
  return {
    push(text) {
      const parts = (rest + text).split('\n');
      rest = parts.pop();
      parts.forEach((line) => onLine(line));
    },
    end() {
      if (rest !== '') {
        onLine(rest);
        rest = '';
      }
    },
  };
}
