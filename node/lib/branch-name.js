// The name of the branch that an id works on: a pure function of the id.

import { createHash } from 'node:crypto';

/** A slug longer than this is cut. */
const LONGEST_SLUG = 80;
/** Where a slug that is too long is cut, before `-` and seven hex digits follow. */
const CUT_SLUG = 72;

const TRACKED = /^[a-z][a-z0-9+.-]*:[^#]+#([0-9]+)(?::([^]+))?$/i;

export function branchNameOf(id) {
  if (typeof id !== 'string') {
    throw new TypeError('an id is a string');
  }
  const tracked = TRACKED.exec(id);
  const text = tracked ? `${tracked[1]}-${tracked[2] ?? ''}` : id;
  let slug = trim(text.toLowerCase().replace(/[^a-z0-9]+/g, '-')) || 'isolation';
  if (slug.length > LONGEST_SLUG) {
    const digest = createHash('sha256').update(id, 'utf8').digest('hex');
    slug = `${trim(slug.slice(0, CUT_SLUG))}-${digest.slice(0, 7)}`;
  }
  return `issue/${slug}`;
}

export function refOf(id) {
  return `refs/heads/${branchNameOf(id)}`;
}

function trim(slug) {
  return slug.replace(/^-+|-+$/g, '');
}
