//! The first screen of help: the jobs, not an alphabet of commands.

/// What `isofold --help` prints.
pub(crate) const HELP: &str = "\
Isolate work in a git worktree that is just like your own directory,
and fold it back without losing anything.

Usage: isofold [-C DIR] COMMAND ...   (isofold COMMAND --help says more)

Try something, keep it if it works:
  session         start, run, list, show, path, diff, keep, discard

Get what a command or an agent did as a patch:
  capture         Run a command in a worktree of its own; patch, code, output
  patch           One patch per agent: record, list, show, land, drop
  hook            What the hooks of agent tools call

Isolate and fold, for hosts (a JSON object a line):
  isolate         Make a Child: a worktree filled with the Parent's files
  fold            Merge a Child's work into its Parent, all or nothing
  update          Merge the Parent's work into a Child, after a conflict
  remove          Take a Child away
  branch-name-of  Print the branch that belongs to an id
  reference       The reference work line: inspect, materialize, env

Keep house:
  recover         Finish or take back what a killed run left
  saved           What was saved before it would have been lost
  prune           Clear away what nobody needs
  completions     For bash, zsh, fish and others

Options: -C DIR  --color auto|always|never  -V, --version [--json]  -h, --help
";
