//! `isofold completions`.

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;

use super::args::Cli;
use super::output;

pub(crate) fn run(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "isofold", &mut script);
    output::bytes(&script);
    ExitCode::SUCCESS
}
