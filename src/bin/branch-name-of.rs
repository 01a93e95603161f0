//! `branch-name-of ID…`: the branch that belongs to each id, one a line.
#![allow(clippy::print_stderr, reason = "a program talks to a person")]

use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let ids: Vec<_> = std::env::args_os().skip(1).collect();
    if ids.is_empty() {
        eprintln!("error: no id was given\n\nhint: branch-name-of ID…");
        return ExitCode::from(2);
    }
    let mut text = String::new();
    for id in &ids {
        let Some(id) = id.to_str() else {
            eprintln!("error: an id is not UTF-8");
            return ExitCode::from(2);
        };
        text.push_str(&isofold::branch_name_of(id));
        text.push('\n');
    }
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
