//! The arguments of every command. Required ones are optional here where the contract wants its own
//! order of checks.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use super::help::HELP;
use super::output::When;
use super::session::args::SessionCommand;

/// Isolate work in a git worktree that is just like your own directory, and fold it back.
#[derive(Debug, Parser)]
#[command(name = "isofold", disable_version_flag = true, disable_help_subcommand = true, override_help = HELP)]
pub(crate) struct Cli {
    /// Print the version
    #[arg(long, short = 'V')]
    pub(crate) version: bool,
    /// With --version: as JSON, with the protocol's number
    #[arg(long, requires = "version")]
    pub(crate) json: bool,
    /// Work as if started in DIR
    #[arg(short = 'C', value_name = "DIR", global = true)]
    pub(crate) directory: Vec<PathBuf>,
    /// Colours on stdout
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", global = true, hide_possible_values = true)]
    pub(crate) color: When,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a Child: a worktree filled with the Parent's files as they are
    Isolate(IsolateArgs),
    /// Merge a Child's work into its Parent, all or nothing
    Fold(FoldArgs),
    /// Merge the Parent's work into a Child's files: the way on after a conflict
    Update(UpdateArgs),
    /// Take a Child away; loose work is refused, or saved first with --force
    Remove(RemoveArgs),
    /// What was saved before it would have become unreachable: list it, make a branch of it, drop it
    #[command(subcommand)]
    Saved(SavedCommand),
    /// Clear away what nobody needs: killed runs' leftovers, base entries of Children that are gone
    Prune(PruneArgs),
    /// Try something in a worktree of its own, keep it if it works
    Session {
        #[command(subcommand)]
        command: SessionCommand,
    },
    /// Settle a fold that was cut off: finish it, or take it back
    Recover(RecoverArgs),
    /// Print the branch that belongs to each id
    BranchNameOf(BranchNameArgs),
    /// The reference work line: look at a copy, make one, or print the environment for git
    Reference(ReferenceArgs),
    /// Run a command in a worktree of its own, and return what it did as a patch
    Capture(CaptureArgs),
    /// One patch per agent, which outlives the agent's worktree
    Patch(PatchArgs),
    /// What the hooks of agent tools call
    Hook(HookArgs),
    /// Print what makes a shell complete commands: isofold completions bash > FILE
    Completions {
        #[arg(value_enum, value_name = "SHELL")]
        shell: clap_complete::Shell,
    },
}

/// What isolate and fold have in common.
#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// The id that the branch and the commits are named after
    #[arg(long)]
    pub(crate) id: Option<OsString>,
    /// The directory that holds the work (absolute)
    #[arg(long, value_name = "DIR")]
    pub(crate) parent: Option<PathBuf>,
    /// The isolated worktree (absolute)
    #[arg(long, value_name = "DIR")]
    pub(crate) child: Option<PathBuf>,
    /// Comes back as "key" in every line
    #[arg(long, value_name = "KEY")]
    pub(crate) context: Option<OsString>,
    /// Stop after this many milliseconds
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) duration_ms: Option<OsString>,
    /// isolationOptions from this file (TOML or JSON) instead of the Parent's
    #[arg(long, value_name = "FILE")]
    pub(crate) options: Option<PathBuf>,
    /// Act for the reference in this file (TOML or JSON): its author, its environment for git
    #[arg(long, value_name = "FILE")]
    pub(crate) reference: Option<PathBuf>,
    /// Run ARGV at each status, with --id, --label and --phase appended
    #[arg(long)]
    pub(crate) on_status: bool,
    /// The command of --on-status
    #[arg(last = true, value_name = "ARGV")]
    pub(crate) argv: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct IsolateArgs {
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// No branch: the Child's HEAD is detached
    #[arg(long)]
    pub(crate) detach: bool,
}

#[derive(Debug, Args)]
pub(crate) struct FoldArgs {
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// Subject of the commit of the Child's loose work [default: Integration of ID]
    #[arg(long, value_name = "S")]
    pub(crate) subject: Option<String>,
    /// Subject of a merge commit [default: Integration of ID]
    #[arg(long, value_name = "S")]
    pub(crate) merge_subject: Option<String>,
    /// What merges beyond the trivial: git where there is one (auto), always git, or never git
    #[arg(long, value_enum, value_name = "ENGINE", default_value = "auto")]
    pub(crate) merge_engine: EngineArg,
    /// Fold into the branch the Parent is on now, even if it was on another at isolate
    #[arg(long)]
    pub(crate) onto_current: bool,
    /// The Child may be a clone of its own: its commits are fetched, its configuration is not read
    #[arg(long)]
    pub(crate) foreign_child: bool,
    /// Say what would happen; write nothing to the Parent
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct UpdateArgs {
    #[command(flatten)]
    pub(crate) host: HostArgs,
    /// Where both changed the same, leave conflict markers in the Child's files
    #[arg(long)]
    pub(crate) markers: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum EngineArg {
    Auto,
    Git,
    Builtin,
}

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The Child (absolute)
    #[arg(long, value_name = "DIR")]
    pub(crate) child: Option<PathBuf>,
    /// Save loose work under refs/isofold/saved/ and remove all the same
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReferenceArgs {
    /// What to do
    #[arg(value_enum, value_name = "inspect|materialize|env")]
    pub(crate) action: ReferenceAction,
    /// The reference (TOML or JSON); - is stdin
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    pub(crate) reference: PathBuf,
    /// The copy of the line
    #[arg(long, value_name = "DIR")]
    pub(crate) copy: Option<PathBuf>,
    /// One line of JSON on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// materialize: stop after this many milliseconds
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(crate) duration_ms: Option<OsString>,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum ReferenceAction {
    /// Say whether the copy is there and is one of the line
    Inspect,
    /// Make the copy
    Materialize,
    /// Print the environment for git
    Env,
}

#[derive(Debug, Args)]
pub(crate) struct RecoverArgs {
    /// The directory that was folded into [default: the current one]
    #[arg(long, value_name = "DIR")]
    pub(crate) parent: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct BranchNameArgs {
    /// One id or more
    #[arg(value_name = "ID", allow_hyphen_values = true)]
    pub(crate) ids: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SavedCommand {
    /// List what is saved, newest first
    List {
        /// Also in the repositories of submodules
        #[arg(long)]
        all: bool,
        /// As one line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Make the branch restored/NAME at it; it stays saved
    Restore {
        /// As saved list shows it
        name: String,
    },
    /// Forget it
    Drop {
        /// As saved list shows it
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CaptureArgs {
    /// The commit that the command starts from [default: HEAD]
    #[arg(long, value_name = "REF", conflicts_with = "from_dirty")]
    pub(crate) base_ref: Option<OsString>,
    /// A directory of the work tree [default: .]
    #[arg(long, value_name = "DIR")]
    pub(crate) repo_path: Option<PathBuf>,
    /// Where the patch goes, instead of a temporary directory
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// End the command after this many seconds; what it did by then is still returned
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    pub(crate) timeout: Option<OsString>,
    /// Start from the working files as they are, not from a commit
    #[arg(long)]
    pub(crate) from_dirty: bool,
    /// The command's stdin [default: empty]
    #[arg(long, value_name = "FILE")]
    pub(crate) stdin: Option<PathBuf>,
    /// Show the command's output on stderr as it comes
    #[arg(long)]
    pub(crate) tee: bool,
    /// A command for sh -c
    #[arg(long, value_name = "STRING", allow_hyphen_values = true)]
    pub(crate) command: Option<OsString>,
    /// Or a command and its arguments
    #[arg(last = true, value_name = "ARGV")]
    pub(crate) argv: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct PatchArgs {
    #[command(subcommand)]
    pub(crate) what: PatchCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PatchCommand {
    /// Write what a linked worktree holds beyond the agent's base
    Record {
        /// Whose patch it is
        #[arg(long, value_name = "A", allow_hyphen_values = true)]
        agent: OsString,
        /// The worktree, or a directory in it [default: .]
        #[arg(long, value_name = "DIR")]
        worktree: Option<PathBuf>,
    },
    /// Every patch: agent, base, files, size, age
    List {
        /// As JSON, in one line
        #[arg(long)]
        json: bool,
    },
    /// Bring a patch into the main checkout's working files; its index stays
    Land {
        #[arg(value_name = "A", allow_hyphen_values = true)]
        agent: OsString,
        /// Merge what the checkout changed meanwhile; leave markers where that can't be done
        #[arg(long = "3way")]
        three_way: bool,
    },
    /// Print a patch
    Show {
        #[arg(value_name = "A", allow_hyphen_values = true)]
        agent: OsString,
    },
    /// Forget a patch
    Drop {
        #[arg(value_name = "A", allow_hyphen_values = true)]
        agent: OsString,
    },
}

#[derive(Debug, Args)]
pub(crate) struct PruneArgs {
    /// Saved commits older than this go too, and base entries of gone Children still registered
    #[arg(long, value_name = "DAYS")]
    pub(crate) older_than: Option<u32>,
    /// Say what would go; touch nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// As one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    #[command(subcommand)]
    pub(crate) what: HookCommand,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum HookCommand {
    /// After an edit: record the agent's patch; never fails, never says anything
    Patch,
    /// Make a worktree of the name in the event, and print its path
    WorktreeCreate,
    /// Take such a worktree away; what only it holds is saved first
    WorktreeRemove,
}

impl HookArgs {
    /// Whether it is the hook that never fails.
    pub(crate) fn is_patch(&self) -> bool {
        matches!(self.what, HookCommand::Patch)
    }
}
