// isolationOptions, read strictly; the words are those of the binary.

import { refusal } from './exclude.js';
import { isBlank, plain } from './text.js';

/** `{ok: true, options}` with a copy that nobody else can change, or `{ok: false, reason}`. */
export function readOptions(raw) {
  if (raw === null || typeof raw !== 'object' || Array.isArray(raw)) {
    return { ok: false, reason: "isolationOptions can't be parsed: a table of options is expected." };
  }
  const unknown = Object.keys(raw).find((key) => key !== 'exclude');
  if (unknown !== undefined) {
    const reason = `isolationOptions "${plain(unknown)}" is not one isofold reads (known: exclude).`;
    return { ok: false, reason };
  }
  if (!Object.hasOwn(raw, 'exclude')) {
    return { ok: true, options: {} };
  }
  const exclude = raw.exclude;
  const good = (item) => typeof item === 'string' && !isBlank(item);
  // `every` skips the holes of a sparse list.
  if (!Array.isArray(exclude) || !Array.from(exclude).every(good)) {
    return { ok: false, reason: 'isolationOptions "exclude" must be a list of non-empty path patterns.' };
  }
  for (const pattern of exclude) {
    const hint = refusal(pattern);
    if (hint !== undefined) {
      const reason = `isolationOptions "exclude" pattern "${plain(pattern)}" can match nothing; ${plain(hint)}.`;
      return { ok: false, reason };
    }
  }
  return { ok: true, options: Object.freeze({ exclude: Object.freeze([...exclude]) }) };
}
