//! The arguments of `isofold session`.

use clap::{Args, Subcommand};
use isofold::session;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Start one: a worktree of your files as they are, on a branch of its own
    Start(StartArgs),
    /// Run a command in a session (a new one without NAME), then say what changed
    Run(RunArgs),
    /// List them
    List(ListArgs),
    /// Say what is known of one
    Show(NamedArgs),
    /// Print where it is: cd "$(isofold session path NAME)"
    Path(NamedArgs),
    /// Print what it changed, as a patch
    Diff(DiffArgs),
    /// Bring its changes into the main tree, staged, and take it away
    Keep(KeepArgs),
    /// Take it away; refused while it holds work, unless --force, which saves the work first
    Discard(DiscardArgs),
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    pub(crate) how: HowArgs,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HowArgs {
    /// Its name [default: made up]
    #[arg(long, value_name = "N")]
    pub(crate) name: Option<String>,
    /// What its branch and its worktree start with
    #[arg(long, value_name = "P", default_value = session::DEFAULT_PREFIX)]
    pub(crate) prefix: String,
    /// Start from this commit instead of your files as they are
    #[arg(long, value_name = "REF")]
    pub(crate) from: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The session [default: a new one]
    #[arg(value_name = "NAME")]
    pub(crate) session: Option<String>,
    #[command(flatten)]
    pub(crate) how: HowArgs,
    /// End with one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// The command
    #[arg(last = true, required = true, value_name = "ARGV")]
    pub(crate) argv: Vec<std::ffi::OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// One JSON object instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NamedArgs {
    /// The session
    #[arg(value_name = "NAME")]
    pub(crate) session: String,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The session
    #[arg(value_name = "NAME")]
    pub(crate) session: String,
    /// Only how much changed in which file
    #[arg(long)]
    pub(crate) stat: bool,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct KeepArgs {
    /// The session
    #[arg(value_name = "NAME")]
    pub(crate) session: String,
    /// Commit the changes instead of staging them
    #[arg(long)]
    pub(crate) commit: bool,
    /// The commit's message
    #[arg(long, short, value_name = "TEXT", requires = "commit")]
    pub(crate) message: Option<String>,
    /// On a conflict leave conflict markers in the main tree's files
    #[arg(long = "3way", conflicts_with = "commit")]
    pub(crate) three_way: bool,
    /// Keep on whatever branch the main tree is now
    #[arg(long)]
    pub(crate) onto_current: bool,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiscardArgs {
    /// The session
    #[arg(value_name = "NAME")]
    pub(crate) session: String,
    /// Save its work under refs/isofold/saved/ and discard it all the same
    #[arg(long)]
    pub(crate) force: bool,
    /// One JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
}
