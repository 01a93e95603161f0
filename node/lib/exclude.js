// Exclude patterns: only `*` and `**` are special; a pattern without `/` matches the last segment of a
// path at any depth, one with `/` the whole path from the root.

import { isBlank } from './text.js';

export const DEFAULT_EXCLUDES = Object.freeze(['.env', '.env.*']);

/** Whether a pattern matches `path` itself; what lies below a match is not looked at. */
export function isExcluded(path, patterns) {
  if (typeof path !== 'string' || !Array.isArray(patterns)) {
    throw new TypeError('isExcluded takes a path and a list of patterns');
  }
  const plain = path.replace(/\/+$/, '');
  const name = plain.slice(plain.lastIndexOf('/') + 1);
  return patterns.some((pattern) => {
    if (typeof pattern !== 'string' || isBlank(pattern) || refusal(pattern) !== undefined) {
      return false;
    }
    // `x/` means a directory; whoever asks about one path knows whether it is one.
    const body = pattern.replace(/\/$/, '');
    return expression(body).test(body.includes('/') ? plain : name);
  });
}

/** Why a pattern can match nothing, as a hint; `undefined` for one that can. */
export function refusal(pattern) {
  const trimmed = pattern.replace(/^\/+/, '');
  if (trimmed === '') {
    return 'name a path below the root, without a leading "/"';
  }
  if (trimmed.length !== pattern.length) {
    return `patterns start at the root already: write "${trimmed}"`;
  }
  const parts = pattern.replace(/\/$/, '').split('/');
  if (parts.includes('')) {
    const tail = pattern.endsWith('/') ? '/' : '';
    return `write "${pattern.split('/').filter((part) => part !== '').join('/')}${tail}"`;
  }
  if (parts.includes('.') || parts.includes('..')) {
    const instead = pattern.split('/').filter((part) => part !== '.' && part !== '..').join('/');
    return instead === '' || instead === '/'
      ? '"." and ".." are no names below the root'
      : `paths have no "." or ".." segments: write "${instead}"`;
  }
  return pattern.includes('\0') ? 'a path holds no NUL byte' : undefined;
}

function expression(body) {
  if (!body.includes('/')) {
    return new RegExp(`^${segment(body)}$`, 'su');
  }
  const parts = body.split('/');
  let source = '';
  parts.forEach((part, index) => {
    const last = index === parts.length - 1;
    if (/^\*{2,}$/.test(part)) {
      // Any number of segments; at the end at least one, since `a/**` is not `a`.
      source += last ? '.*' : '(?:.*/)?';
    } else {
      source += segment(part) + (last ? '' : '/');
    }
  });
  return new RegExp(`^${source}$`, 'su');
}

/** `*` is any run within a segment; a longer run of stars beside other text may cross `/`. */
function segment(part) {
  return part.replace(/\*+|[^*]/gsu, (token) => {
    if (token.startsWith('*')) {
      return token.length === 1 ? '[^/]*' : '.*';
    }
    return token.replace(/[\\^$.|?+()[\]{}/]/u, '\\$&');
  });
}
