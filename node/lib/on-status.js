// The command of `--on-status`, for backends that are not the binary.

import { spawn } from 'node:child_process';

import { commandEnv } from './env.js';
import { POLL_MS } from './process.js';

/** How long a command may take; then its process group is killed. */
const LIMIT_MS = 5000;

/** Runs `argv` for a status. Whatever it does changes nothing. */
export function tellCommand(argv, { id, label, phase, cwd, interrupted }) {
  return new Promise((settle) => {
    const named = id === undefined ? [] : ['--id', id];
    const [program, ...args] = [...argv, ...named, '--label', label, '--phase', phase];
    let child;
    try {
      // Its output must not mix with the lines on stdout.
      child = spawn(program, args, { cwd, env: commandEnv(), detached: true, stdio: ['ignore', 2, 2] });
    } catch {
      settle();
      return;
    }
    const since = performance.now();
    const timer = setInterval(() => {
      if (interrupted() || performance.now() - since >= LIMIT_MS) {
        endGroup(child.pid);
      }
    }, POLL_MS);
    const end = () => {
      clearInterval(timer);
      settle();
    };
    child.on('error', end);
    child.on('exit', end);
  });
}

function endGroup(pid) {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It ended by itself meanwhile.
  }
}
