/**
 * isofold isolates work in a git worktree and folds it back. This package drives the `isofold`
 * binary: one process a job, found by `ISOFOLD_BIN`, then beside the package, then on PATH.
 */

/** Options of isolation; docs/options.md. */
export interface IsolationOptions {
  /** Untracked paths that isolate leaves out, in place of `DEFAULT_EXCLUDES`; `[]` leaves out nothing. */
  readonly exclude?: readonly string[];
}

/** Why a job was stopped before its end: its time was up, or somebody asked for it. */
export type Stop = 'clock' | 'interrupt';

/** A job that did not succeed: it was stopped, or it failed. The Parent is what it was. */
export type Unsuccessful =
  | { readonly ok: false; readonly stop: Stop; readonly detail?: undefined }
  | { readonly ok: false; readonly detail: string; readonly stop?: undefined };

/** Callbacks that are asked at least every 20 ms while a job runs, the interrupt first. */
export interface StopCallbacks {
  /** True once somebody wants the job to stop: `{ok: false, stop: 'interrupt'}`. */
  readonly shouldInterrupt?: (() => boolean) | null;
  /**
   * True once the job has to stop, whyever. Unless `shouldInterrupt` says so too, or the answer is
   * `'interrupt'`, the stop is the clock's.
   */
  readonly shouldStop?: (() => boolean | Stop | null | undefined) | null;
}

export interface AttachRequest extends StopCallbacks {
  /** The directory that holds the work (absolute). */
  readonly parent: string;
  /** Where the isolated worktree goes (absolute); nothing is there yet. */
  readonly child: string;
  /** Names the branch. Without one the Child's HEAD is detached. */
  readonly id?: string | null;
  /** Real milliseconds until the clock stops the job; without it there is no clock. */
  readonly timeoutMs?: number | null;
}

/** All or nothing: on anything but `{ok: true}` the Child is not there. */
export type AttachResult = { readonly ok: true } | Unsuccessful;

export interface AbortRequest {
  readonly parent: string;
  readonly child: string;
}

export type AbortResult = { readonly ok: true } | Unsuccessful;

export interface FoldRequest extends StopCallbacks {
  /** The directory that the work goes to (absolute). */
  readonly parent: string;
  /** The directory that the work is in (absolute). */
  readonly child: string;
  /** Only names; default: the name of the Child's directory. */
  readonly id?: string | null;
  /** Subject of the commit of the Child's loose work; default `Integration of ID`. */
  readonly subject?: string | null;
  /** Subject of a merge commit; default `Integration of ID`. */
  readonly mergeSubject?: string | null;
  /** When `now()` reaches this, the clock stops the job; without it there is no clock. */
  readonly deadlineMs?: number | null;
  /** The clock that `deadlineMs` is on; any scale, also a fake one. Default `Date.now`. */
  readonly now?: (() => number) | null;
}

/** On anything but `{ok: true}` the Parent's files, index, HEAD and refs are what they were. */
export type FoldResult =
  | { readonly ok: true }
  | (Unsuccessful & { readonly conflict?: undefined })
  | {
      readonly ok: false;
      readonly conflict: true;
      /** One line: the paths, and what each side did to them. */
      readonly report: string;
      readonly stop?: undefined;
      readonly detail?: undefined;
    };

export interface IsolationBackend {
  /** Makes a Child. Never rejects. */
  attach(request: AttachRequest): Promise<AttachResult>;
  /**
   * Takes a Child away: worktree and registration; its branch stays. Loose work is saved first under
   * `refs/isofold/saved/`. A Child that is gone already is fine. Never rejects.
   */
  abort(request: AbortRequest): Promise<AbortResult>;
}

export interface FoldBackend {
  /** Merges the Child's commits and loose work into the Parent. Never rejects. */
  fold(request: FoldRequest): Promise<FoldResult>;
}

export interface Strategy {
  readonly isolation: IsolationBackend;
  readonly fold: FoldBackend;
  readonly reference: GitReferenceKind;
  /** The full name of the branch that belongs to an id. */
  refOf(id: string): string;
}

/** The strategy that reads each Parent's own `isolationOptions.toml`. */
export const strategy: Strategy;

/**
 * A strategy with these options; they win over the Parent's file. Options that name nothing (`{}`)
 * leave the file in force. Strict: an unknown key or a pattern that can match nothing is a reason.
 */
export function createStrategy(
  options?: IsolationOptions,
): { readonly ok: true; readonly strategy: Strategy } | { readonly ok: false; readonly reason: string };

/** The branch (without `refs/heads/`) that belongs to an id: a pure function of it. */
export function branchNameOf(id: string): string;

/** `refs/heads/` and `branchNameOf(id)`. */
export function refOf(id: string): string;

/**
 * Whether a pattern matches `path` (relative to the root) itself; what lies below a match is not looked
 * at. A pattern `x/` answers for a directory `x`.
 */
export function isExcluded(path: string, patterns: readonly string[]): boolean;

/** What is left out where nobody says otherwise. */
export const DEFAULT_EXCLUDES: readonly string[];

/** Variables for git processes. */
export type Env = Record<string, string>;

/** What the reference of a work line holds. */
export interface GitReferenceInput {
  readonly remote: string;
  readonly branch: string;
  /** The variable that holds the token for the remote; the token itself is never read. */
  readonly credentialEnv?: string;
  readonly author?: { readonly name: string; readonly email: string };
}

export type Inspection =
  | { readonly kind: 'missing' }
  | { readonly kind: 'matches' }
  | { readonly kind: 'mismatch'; readonly reason: string };

export interface GitReference {
  readonly ok: true;
  /** `REMOTE (BRANCH)` */
  readonly summary: string;
  /** The branch. */
  readonly target: string;
  /** What stands at a path; works offline. What can't be told is a mismatch that says why. */
  inspect(path: string): Inspection;
  /** Makes a single-branch clone at a path; a clone that fails leaves nothing. Never rejects. */
  materialize(path: string): Promise<{ readonly ok: true } | { readonly ok: false; readonly reason: string }>;
  /** What every git carries: author, committer, and how the token is asked for. */
  readonly env: Readonly<Env>;
}

export interface GitReferenceKind {
  /**
   * Reads a reference strictly. A success makes its `env` the one that every later git of this process
   * carries; the last one wins.
   */
  parse(raw: unknown): GitReference | { readonly ok: false; readonly reason: string };
}

export const gitReference: GitReferenceKind;

/** A copy of the environment that every git of this process carries beside its own; `{}`: none. */
export function runEnv(): Env;
/** Replaces it. */
export function setRunEnv(env: Readonly<Env>): void;
/** From here on gits carry nothing more. */
export function clearRunEnv(): void;

/** The arguments of `isofold isolate`, as an object. */
export interface IsolateInvocation {
  readonly id?: string;
  readonly detach?: boolean;
  readonly parent: string;
  readonly child: string;
  readonly context?: string;
  readonly durationMs?: number;
  /** Only without `backend`. */
  readonly options?: string;
  /** Only without `backend`. */
  readonly reference?: string;
  readonly onStatus?: readonly string[];
}

/** The arguments of `isofold fold`, as an object. */
export interface FoldInvocation extends Omit<IsolateInvocation, 'detach'> {
  readonly subject?: string;
  readonly mergeSubject?: string;
  /** Only without `backend`. */
  readonly mergeEngine?: 'auto' | 'git' | 'builtin';
  /** Only without `backend`. */
  readonly ontoCurrent?: boolean;
  /** Only without `backend`. */
  readonly foreignChild?: boolean;
  /** Only without `backend`. */
  readonly dryRun?: boolean;
}

interface RunRequest {
  /** Gets each line of docs/protocol.md, its newline included; default: stdout. */
  readonly write?: (line: string) => unknown;
  /** A clock of the host's own for `--duration-ms`; any scale, also a fake one. */
  readonly now?: () => number;
  /** Asked at least every 20 ms; once it is set the job is interrupted. */
  readonly interruptFlag?: (() => boolean) | { readonly aborted: boolean } | { readonly interrupted: boolean } | { readonly value: boolean };
  /** Where the job's processes run; for relative paths of `--options` and `--on-status`. */
  readonly cwd?: string;
}

export interface RunIsolatorRequest extends RunRequest {
  /** The arguments after `isofold isolate`. */
  readonly invocation: readonly string[] | IsolateInvocation;
  /** Who does the work; default: the binary. */
  readonly backend?: IsolationBackend;
}

export interface RunIntegratorRequest extends RunRequest {
  /** The arguments after `isofold fold`. */
  readonly invocation: readonly string[] | FoldInvocation;
  /** Who does the work; default: the binary. */
  readonly backend?: FoldBackend;
}

export interface IsolatorResult {
  readonly outcome: 'isolated' | 'failed' | 'invalid-invocation' | 'interrupted';
  /** Only on success. */
  readonly child?: string;
  /** Only otherwise. */
  readonly report?: string;
  readonly exitCode: number;
}

export interface IntegratorResult {
  readonly outcome: 'integrated' | 'conflict' | 'failed' | 'invalid-invocation' | 'interrupted';
  /** Only on success. */
  readonly parent?: string;
  /** Only otherwise. */
  readonly report?: string;
  readonly exitCode: number;
}

/** `isofold isolate` in this process. Rejects only if `write` throws, after the job has ended. */
export function runIsolator(request: RunIsolatorRequest): Promise<IsolatorResult>;

/** `isofold fold` in this process. Rejects only if `write` throws, after the job has ended. */
export function runIntegrator(request: RunIntegratorRequest): Promise<IntegratorResult>;
