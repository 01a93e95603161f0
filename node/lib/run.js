// The host face in this process: the lines of docs/protocol.md, from the binary or from a backend.

import { argumentsOf, check, milliseconds, valueOf, without } from './invocation.js';
import { CLOCK_REPORTS, parsed, perform } from './job.js';
import { tellCommand } from './on-status.js';

const FACES = {
  isolate: {
    event: 'isolation',
    working: 'isolating',
    success: 'isolated',
    place: 'child',
    interrupted: 'The isolation was interrupted.',
    exitCodes: { isolated: 0, failed: 1, 'invalid-invocation': 2, interrupted: 130 },
  },
  fold: {
    event: 'integration',
    working: 'integrating',
    success: 'integrated',
    place: 'parent',
    interrupted: 'The fold was interrupted.',
    exitCodes: { integrated: 0, conflict: 1, 'invalid-invocation': 2, failed: 3, interrupted: 130 },
  },
};

export function runIsolator(request) {
  return run('isolate', request);
}

export function runIntegrator(request) {
  return run('fold', request);
}

async function run(command, { invocation, backend, write, now, interruptFlag, cwd }) {
  const args = argumentsOf(invocation);
  const { print, problem } = guarded(write ?? ((text) => process.stdout.write(text)));
  const flag = () => isSet(interruptFlag);
  const how = { print, now, interrupted: flag, cwd };
  const last = backend ? await withBackend(command, args, backend, how) : await withBinary(command, args, how);
  // The job went on without a reader; that there was none is the host's to know.
  if (problem() !== undefined) {
    throw problem();
  }
  const { event, place, exitCodes } = FACES[command];
  const told = { outcome: last.outcome, exitCode: exitCodes[last.outcome] };
  if (last[place] !== undefined && last.event === `${event}-finished`) {
    told[place] = last[place];
  }
  if (last.report !== undefined) {
    told.report = last.report;
  }
  return told;
}

/** A `write` that throws must not end a job half-way: its first error is kept. */
function guarded(write) {
  let first;
  const print = (text) => {
    try {
      write(text);
    } catch (error) {
      first ??= error;
    }
  };
  return { print, problem: () => first };
}

/** A flag is a function, an AbortSignal, or an object with `interrupted` or `value`. */
function isSet(flag) {
  if (typeof flag === 'function') {
    return Boolean(flag());
  }
  return Boolean(flag?.aborted || flag?.interrupted || flag?.value);
}

/** The lines of one job: `key` first, `id` last. */
function speaker(command, print, { id, key }) {
  const { event } = FACES[command];
  const say = (fields) => {
    const line = { ...(key === undefined ? {} : { key }), ...fields, ...(id ? { id } : {}) };
    print(`${JSON.stringify(line)}\n`);
    return line;
  };
  return {
    say,
    label: (phase) => (id && phase !== 'invalid' ? `${phase}:${id}` : phase),
    status(phase) {
      say({ event: 'status', phase, label: this.label(phase) });
    },
    started: () => say({ event: `${event}-started` }),
    finished: (fields) => say({ event: `${event}-finished`, ...fields }),
  };
}

/** The binary speaks; its lines pass through. */
async function withBinary(command, args, { print, now, interrupted, cwd }) {
  const { event, working } = FACES[command];
  let stop;
  let deadline;
  let more = args;
  // A clock of the host's own can't be the binary's: the stop comes from here.
  const duration = milliseconds(valueOf(args, 'duration-ms'));
  if (now !== undefined && duration !== undefined) {
    deadline = now() + duration;
    more = without(args, 'duration-ms');
  }
  const stopped = () => {
    if (interrupted()) {
      stop = 'interrupt';
    } else if (deadline !== undefined && now() >= deadline) {
      stop ??= 'clock';
    }
    return stop;
  };
  const own = speaker(command, print, { id: valueOf(args, 'id'), key: valueOf(args, 'context') });
  const seen = new Set();
  let last;
  // Which stop it was is settled when the first line says so.
  let settled;
  const onLine = (line) => {
    const said = parsed(line);
    if (said === undefined) {
      return;
    }
    seen.add(said.event === 'status' ? said.phase : said.event);
    if (said.phase === 'interrupted') {
      settled ??= stop;
    }
    last = (settled ?? stop) === 'clock' ? clockFired(command, said) : said;
    print(last === said ? `${line}\n` : `${JSON.stringify(last)}\n`);
  };
  const ended = await perform(command, [], { stopped, onLine, cwd, more });
  if (ended.last !== undefined) {
    return last;
  }
  // It was stopped before it began, or broke down: what it did not say is said here.
  if (!seen.has(working)) {
    own.status(working);
  }
  if (!seen.has(`${event}-started`)) {
    own.started();
  }
  const [phase, report] = stopWords(command, ended.detail === undefined ? ended.stop : undefined, ended.detail);
  own.status(phase);
  return own.finished({ outcome: phase, report });
}

/** An interruption that was a clock's, in its words. */
function clockFired(command, line) {
  if (line.event === 'status' && line.phase === 'interrupted') {
    return { ...line, phase: 'failed', label: line.label.replace(/^interrupted/, 'failed') };
  }
  return line.outcome === 'interrupted' ? { ...line, outcome: 'failed', report: CLOCK_REPORTS[command] } : line;
}

/** Phase and report of a job that a stop or a failure ended. */
function stopWords(command, stop, detail) {
  switch (stop) {
    case 'interrupt':
      return ['interrupted', FACES[command].interrupted];
    case 'clock':
      return ['failed', CLOCK_REPORTS[command]];
    default:
      return ['failed', detail ?? 'the backend did not say why'];
  }
}

/** A backend works, and this process speaks. */
async function withBackend(command, args, backend, { print, now, interrupted, cwd }) {
  const { working, success, place } = FACES[command];
  const job = check(command, args);
  const id = valueOf(args, 'id') || undefined;
  const invalid = job.report !== undefined;
  const lines = speaker(command, print, { id, key: invalid ? undefined : job.context });
  const clock = now ?? (() => performance.now());
  const limit = milliseconds(job['duration-ms']);
  let deadline = clock() + (limit ?? Number.POSITIVE_INFINITY);
  const status = async (phase) => {
    lines.status(phase);
    if (job['on-status'] && job.onStatus.length > 0) {
      const before = clock();
      await tellCommand(job.onStatus, { id, label: lines.label(phase), phase, cwd, interrupted });
      deadline += clock() - before;
    }
  };
  if (invalid) {
    await status('invalid');
    return lines.finished({ outcome: 'invalid-invocation', report: job.report });
  }
  await status(working);
  lines.started();
  const result = await asked(command, backend, {
    parent: job.parent,
    child: job.child,
    ...(id === undefined || job.detach ? {} : { id }),
    shouldInterrupt: interrupted,
    shouldStop: () => interrupted() || clock() >= deadline,
    ...(command === 'isolate' ? isolateExtras(limit, now) : foldExtras(job, deadline, limit, clock)),
  });
  if (result.ok) {
    await status(success);
    return lines.finished({ outcome: success, [place]: job[place] });
  }
  // An interrupt that races the clock wins.
  const stop = result.stop !== undefined && interrupted() ? 'interrupt' : result.stop;
  const [phase, report] = result.conflict
    ? ['conflict', result.report ?? 'conflict']
    : stopWords(command, stop, result.detail);
  await status(phase);
  return lines.finished({ outcome: phase, report });
}

/** Real time is a matter of `timeoutMs`; a host's own clock, of `shouldStop`. */
function isolateExtras(limit, now) {
  return limit === undefined || now !== undefined ? {} : { timeoutMs: limit };
}

function foldExtras(job, deadline, limit, clock) {
  return {
    ...(job.subject === undefined ? {} : { subject: job.subject }),
    ...(job['merge-subject'] === undefined ? {} : { mergeSubject: job['merge-subject'] }),
    ...(limit === undefined ? {} : { deadlineMs: deadline }),
    now: clock,
  };
}

/** What the backend says; one that throws has failed. What a failed attach left is taken away. */
async function asked(command, backend, request) {
  let result;
  try {
    result = await (command === 'isolate' ? backend.attach(request) : backend.fold(request));
    if (typeof result?.ok !== 'boolean') {
      throw new TypeError('the backend gave no result');
    }
  } catch (error) {
    result = { ok: false, detail: `the backend failed: ${error?.message ?? error}` };
  }
  if (!result.ok && command === 'isolate' && typeof backend.abort === 'function') {
    try {
      await backend.abort({ parent: request.parent, child: request.child });
    } catch (error) {
      result = { ok: false, detail: `${result.detail ?? result.stop}; abort failed too: ${error?.message ?? error}` };
    }
  }
  return result;
}
