// The isolation strategy that a work-line host loads.

import { basename } from 'node:path';

import { refOf } from './branch-name.js';
import { perform, stopQuestion, verdict } from './job.js';
import { readOptions } from './options.js';
import { gitReference } from './reference.js';

/** What each request may hold, and of which type. */
const ATTACH = {
  parent: 'string', child: 'string', id: 'string', timeoutMs: 'number',
  shouldInterrupt: 'function', shouldStop: 'function',
};
const FOLD = {
  parent: 'string', child: 'string', id: 'string', subject: 'string', mergeSubject: 'string',
  deadlineMs: 'number', now: 'function', shouldInterrupt: 'function', shouldStop: 'function',
};

/** `{ok: true, strategy}` or `{ok: false, reason}`; without options as `strategy`. */
export function createStrategy(options) {
  if (options === undefined) {
    return { ok: true, strategy };
  }
  const read = readOptions(options);
  return read.ok ? { ok: true, strategy: strategyWith(read.options) } : read;
}

function strategyWith(options) {
  const isolation = Object.freeze({
    attach: (request) => attach(request, options),
    abort: (request) => abort(request),
  });
  const fold = Object.freeze({ fold: (request) => foldBack(request, options) });
  return Object.freeze({ isolation, fold, reference: gitReference, refOf });
}

async function attach(request, options) {
  const wrong = misuse(request, ATTACH);
  if (wrong !== undefined) {
    return { ok: false, detail: wrong };
  }
  const { parent, child, id, timeoutMs } = request;
  const args = [`--parent=${parent}`, `--child=${child}`, noValue(id) ? '--detach' : `--id=${id}`];
  // Beyond that there is no clock.
  if (!noValue(timeoutMs) && timeoutMs < Number.MAX_SAFE_INTEGER) {
    if (timeoutMs <= 0) {
      return { ok: false, stop: request.shouldInterrupt?.() ? 'interrupt' : 'clock' };
    }
    args.push(`--duration-ms=${Math.ceil(timeoutMs)}`);
  }
  return told('isolate', args, request, options);
}

async function foldBack(request, options) {
  const wrong = misuse(request, FOLD);
  if (wrong !== undefined) {
    return { ok: false, detail: wrong };
  }
  const { parent, child, subject, mergeSubject } = request;
  const id = request.id ?? basename(child);
  const args = [`--parent=${parent}`, `--child=${child}`, `--id=${id}`];
  if (!noValue(subject)) {
    args.push(`--subject=${subject}`);
  }
  if (!noValue(mergeSubject)) {
    args.push(`--merge-subject=${mergeSubject}`);
  }
  return told('fold', args, request, options);
}

async function abort(request) {
  const wrong = misuse(request, { parent: 'string', child: 'string' });
  if (wrong !== undefined) {
    return { ok: false, detail: wrong };
  }
  return told('remove', [`--child=${request.child}`, '--force'], {});
}

/** Whatever happens, a value. */
async function told(command, args, request, options) {
  try {
    return verdict(command, await perform(command, args, { stopped: stopQuestion(request), options }));
  } catch (error) {
    return { ok: false, detail: `a callback failed, so nothing was begun: ${error?.message ?? error}` };
  }
}

/** What is wrong with a request's types; unknown fields are none of our business. */
function misuse(request, fields) {
  if (request === null || typeof request !== 'object') {
    return 'a request with parent and child is needed';
  }
  for (const [name, type] of Object.entries(fields)) {
    const value = request[name];
    const needed = name === 'parent' || name === 'child';
    if (noValue(value) && !needed) {
      continue;
    }
    if (typeof value !== type || Number.isNaN(value)) {
      return `"${name}" must be a ${type}`;
    }
    if (type === 'string' && value.includes('\0')) {
      return `"${name}" must not hold a NUL character`;
    }
  }
  return undefined;
}

function noValue(value) {
  return value === undefined || value === null;
}

/** The strategy that reads each Parent's own isolationOptions.toml. */
export const strategy = strategyWith(undefined);
