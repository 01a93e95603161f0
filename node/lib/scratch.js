// Files that are handed to the binary by name: in a directory of their own, gone when the job is.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Files for one job. Nothing is made until the first one is asked for. */
export function scratch() {
  let directory;
  return {
    /** The path of a new file that holds `value` as JSON. */
    json(name, value) {
      directory ??= mkdtempSync(join(tmpdir(), 'isofold-host-'));
      const path = join(directory, `${name}.json`);
      writeFileSync(path, JSON.stringify(value), { mode: 0o600 });
      return path;
    },
    drop() {
      if (directory !== undefined) {
        rmSync(directory, { recursive: true, force: true });
      }
    },
  };
}
