// One job of the host face: from a request to the binary's last line, and to what a host is told.

import { binary, BinaryError } from './binary.js';
import { referenceInForce } from './env.js';
import { valueOf } from './invocation.js';
import { POLL_MS, runBinary } from './process.js';
import { scratch } from './scratch.js';

/** The reports of a clock that fired inside the binary. */
export const CLOCK_REPORTS = {
  isolate: 'The Isolation clock fired.',
  fold: 'The Integration clock fired.',
};

/**
 * Runs `isofold COMMAND ARGS`; resolves with `{last, stop, detail}`: the last JSON line (where there
 * is one), the stop that was passed on (where there was one), and why there is no last line.
 * `more` are arguments that come last, after ours.
 */
export async function perform(command, args, { stopped = () => undefined, onLine, cwd, options, more = [] }) {
  const early = stopped();
  if (early !== undefined) {
    return { stop: early };
  }
  const files = scratch();
  try {
    const { path, stop, stopError } = await orStop(binary(), stopped);
    if (path === undefined) {
      return stopError === undefined ? { stop } : { detail: callbackFailed(stopError) };
    }
    const all = [command, ...args];
    if (options?.exclude !== undefined) {
      all.push(`--options=${files.json('options', options)}`);
    }
    const reference = referenceInForce();
    if (reference !== undefined && command !== 'remove' && valueOf(more, 'reference') === undefined) {
      all.push(`--reference=${files.json('reference', reference)}`);
    }
    let last;
    const read = (line) => {
      onLine?.(line);
      last = line;
    };
    const ended = await runBinary(path, [...all, ...more], { onLine: read, stopped, cwd });
    return { stop: ended.stop, ...result(path, last, ended) };
  } catch (error) {
    return { detail: error instanceof BinaryError ? error.message : `isofold can't be run: ${error.message}` };
  } finally {
    files.drop();
  }
}

/** `{path}` once the promise gives one; `{stop}` or `{stopError}` where a stop comes first. */
function orStop(promise, stopped) {
  return new Promise((settle, fail) => {
    const timer = setInterval(() => {
      try {
        const stop = stopped();
        if (stop !== undefined) {
          end(settle, { stop });
        }
      } catch (stopError) {
        end(settle, { stopError });
      }
    }, POLL_MS);
    const end = (how, value) => {
      clearInterval(timer);
      how(value);
    };
    promise.then((path) => end(settle, { path }), (error) => end(fail, error));
  });
}

function callbackFailed(error) {
  return `a callback failed, so the job was stopped: ${error?.message ?? error}`;
}

function result(path, last, ended) {
  if (ended.stopError !== undefined) {
    return { detail: callbackFailed(ended.stopError) };
  }
  if (ended.startError !== undefined) {
    return { detail: `${path} can't be started: ${ended.startError.message}` };
  }
  const said = parsed(last);
  if (said?.outcome !== undefined) {
    return { last: said };
  }
  // Stopped before it could catch the signal: nothing was begun.
  if (ended.signal === 'SIGINT' && ended.stop !== undefined) {
    return {};
  }
  const how = ended.signal === null ? `with exit code ${ended.code}` : `by ${ended.signal}`;
  const words = ended.stderr.trim().split('\n').pop();
  return { detail: `isofold ended ${how} and without a result${words ? `: ${words}` : ''}` };
}

/** A line as JSON; `undefined` for anything else. */
export function parsed(line) {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}

/** What a host is told of a job that ended. */
export function verdict(command, { last, stop, detail }) {
  if (detail !== undefined) {
    return { ok: false, detail };
  }
  if (last === undefined) {
    return { ok: false, stop };
  }
  switch (last.outcome) {
    case 'isolated':
    case 'integrated':
    case 'removed':
    case 'already-gone':
      return { ok: true };
    case 'conflict':
      return { ok: false, conflict: true, report: last.report };
    case 'interrupted':
      return { ok: false, stop: stop ?? 'interrupt' };
    default:
      if (last.outcome === 'failed' && last.report === CLOCK_REPORTS[command]) {
        return { ok: false, stop: stop ?? 'clock' };
      }
      return { ok: false, detail: last.report ?? `isofold said ${JSON.stringify(last)}` };
  }
}

/**
 * A question for `perform`: asks the host's callbacks, the interrupt first. A `shouldStop` that does
 * not say which stop it means, means the clock.
 */
export function stopQuestion({ shouldInterrupt, shouldStop, deadlineMs, now }) {
  const clock = now ?? Date.now;
  return () => {
    if (shouldInterrupt?.()) {
      return 'interrupt';
    }
    const stop = shouldStop?.();
    if (stop) {
      return stop === 'interrupt' ? 'interrupt' : 'clock';
    }
    return typeof deadlineMs === 'number' && clock() >= deadlineMs ? 'clock' : undefined;
  };
}
