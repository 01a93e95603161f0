// What `runIsolator` and `runIntegrator` are called with: the arguments of the command, or an object of
// them; and the checks of the host face, for backends that are not the binary.

import { lstatSync, realpathSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join, normalize } from 'node:path';

import { plain } from './text.js';

/** Flags that take a value, and those that do not, of the part that every backend can serve. */
const FLAGS = {
  isolate: { value: ['id', 'parent', 'child', 'context', 'duration-ms'], plain: ['detach', 'on-status'] },
  fold: {
    value: ['id', 'parent', 'child', 'context', 'duration-ms', 'subject', 'merge-subject'],
    plain: ['on-status'],
  },
};

/** An invocation as a list of arguments. */
export function argumentsOf(invocation) {
  if (Array.isArray(invocation)) {
    return invocation.map((argument) => String(argument));
  }
  if (invocation === null || typeof invocation !== 'object') {
    throw new TypeError('an invocation is a list of arguments, or an object of them');
  }
  const args = [];
  for (const [key, value] of Object.entries(invocation)) {
    const flag = `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
    if (key !== 'onStatus' && value !== undefined && value !== null && value !== false) {
      args.push(value === true ? flag : `${flag}=${value}`);
    }
  }
  const command = invocation.onStatus;
  if (command !== undefined && command !== null) {
    args.push('--on-status', '--', ...command.map((argument) => String(argument)));
  }
  return args;
}

/** The value of a flag in arguments that may be wrong; `undefined` where it is not there. */
export function valueOf(args, name) {
  for (let at = 0; at < args.length && args[at] !== '--'; at += 1) {
    if (args[at] === `--${name}`) {
      return args[at + 1];
    }
    if (args[at].startsWith(`--${name}=`)) {
      return args[at].slice(name.length + 3);
    }
  }
  return undefined;
}

/** The arguments without a flag and its value. */
export function without(args, name) {
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  const kept = [];
  for (let at = 0; at < args.length; at += 1) {
    if (at < end && args[at] === `--${name}`) {
      at += 1;
    } else if (at >= end || !args[at].startsWith(`--${name}=`)) {
      kept.push(args[at]);
    }
  }
  return kept;
}

/** A duration in milliseconds; `undefined` for anything else. */
export function milliseconds(text) {
  return /^[0-9]+$/.test(text ?? '') && Number(text) > 0 ? Number(text) : undefined;
}

/** The checked invocation, or the first thing that is wrong with it as `{report}`. */
export function check(command, args) {
  const parsed = parse(FLAGS[command], args);
  const report = parsed.report ?? fault(command, parsed) ?? placesFault(command, parsed);
  return report === undefined ? parsed : { ...parsed, report };
}

function parse(flags, args) {
  const parsed = { onStatus: [] };
  for (let at = 0; at < args.length; at += 1) {
    if (args[at] === '--') {
      parsed.onStatus = args.slice(at + 1);
      break;
    }
    const [, name, value] = /^--([a-z-]+)(?:=([^]*))?$/.exec(args[at]) ?? [];
    const takes = flags.value.includes(name);
    if (!takes && !(flags.plain.includes(name) && value === undefined)) {
      return { ...parsed, report: `unexpected argument '${plain(args[at])}' found` };
    }
    if (Object.hasOwn(parsed, name)) {
      return { ...parsed, report: `the argument '--${name}' cannot be used multiple times` };
    }
    if (takes && value === undefined) {
      at += 1;
      if (at >= args.length || args[at].startsWith('--')) {
        return { ...parsed, report: `a value is required for '--${name}' but none was supplied` };
      }
    }
    parsed[name] = takes ? (value ?? args[at]) : true;
  }
  return parsed;
}

function fault(command, parsed) {
  if (parsed['on-status'] && parsed.onStatus.length === 0) {
    return '--on-status needs a command after --';
  }
  if (!parsed['on-status'] && parsed.onStatus.length > 0) {
    return 'a command after -- needs --on-status';
  }
  if (!parsed.id && !parsed.detach) {
    return '--id is missing or empty';
  }
  const missing = ['parent', 'child'].find((name) => !parsed[name]);
  if (missing !== undefined) {
    return `--${missing} is missing`;
  }
  const duration = parsed['duration-ms'];
  if (duration !== undefined && milliseconds(duration) === undefined) {
    return `--duration-ms must be a positive whole number, not ${JSON.stringify(duration)}`;
  }
  const relative = ['parent', 'child'].find((name) => !isAbsolute(parsed[name]));
  if (relative !== undefined) {
    return `--${relative} ${plain(parsed[relative])} is a relative path; an absolute one is needed`;
  }
  return undefined;
}

function placesFault(command, { parent, child }) {
  const parentFault = directoryFault('Parent', parent);
  if (parentFault !== undefined) {
    return parentFault;
  }
  let place;
  if (command === 'fold') {
    const childFault = directoryFault('Child', child);
    if (childFault !== undefined) {
      return childFault;
    }
    place = realpathSync(child);
  } else {
    if (isThere(child)) {
      return `the Child ${plain(child)} exists already; name a path that does not`;
    }
    place = futurePlace(child);
    if (place === undefined) {
      return `the Child ${plain(child)} can't be made: what is there above it is not a directory`;
    }
  }
  const real = realpathSync(parent);
  if (real === place) {
    return `Parent and Child are the same place: ${plain(real)}`;
  }
  if (place.startsWith(join(real, '/'))) {
    return `the Child ${plain(place)} lies inside the Parent ${plain(real)}`;
  }
  if (real.startsWith(join(place, '/'))) {
    return `the Parent ${plain(real)} lies inside the Child ${plain(place)}`;
  }
  return undefined;
}

function directoryFault(what, path) {
  try {
    const found = statSync(path, { throwIfNoEntry: false });
    if (found === undefined) {
      return `the ${what} ${plain(path)} does not exist`;
    }
    return found.isDirectory() ? undefined : `the ${what} ${plain(path)} is not a directory`;
  } catch (error) {
    return `the ${what} ${plain(path)} can't be read: ${error.message}`;
  }
}

/** Whether there is anything, be it a link that leads nowhere. */
function isThere(path) {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // Below what is no directory, or may not be looked into.
    return false;
  }
}

/** Where a path that does not exist yet will be; `undefined` below what is no directory. */
function futurePlace(path) {
  const names = [];
  let at = normalize(path).replace(/(.)\/$/, '$1');
  try {
    while (!isThere(at)) {
      names.unshift(at.slice(at.lastIndexOf('/') + 1));
      at = dirname(at);
    }
    const real = realpathSync(at);
    return statSync(real).isDirectory() ? join(real, ...names) : undefined;
  } catch {
    return undefined;
  }
}
