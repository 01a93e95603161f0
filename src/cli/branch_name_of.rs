//! `isofold branch-name-of`.

use std::process::ExitCode;

use super::args::BranchNameArgs;
use super::{INVALID, output};

pub(crate) fn run(args: &BranchNameArgs) -> ExitCode {
    if args.ids.is_empty() {
        output::error("no id was given", Some("isofold branch-name-of ID…"));
        return ExitCode::from(INVALID);
    }
    let mut text = String::new();
    for id in &args.ids {
        let Some(id) = id.to_str() else {
            output::error("an id is not UTF-8", None);
            return ExitCode::from(INVALID);
        };
        text.push_str(&isofold::branch_name_of(id));
        text.push('\n');
    }
    output::text(&text);
    ExitCode::SUCCESS
}
