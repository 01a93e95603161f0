//! `isofold update`.

use std::process::ExitCode;

use isofold::{FoldOutcome, Integration, Landing, UpdateRequest};
use serde_json::json;

use super::args::UpdateArgs;
use super::fold::{notes, success};
use super::host::{Face, begin, paths};
use super::progress::watched;
use super::{INTERRUPTED, output};

pub(crate) fn run(args: UpdateArgs) -> ExitCode {
    let (protocol, job) = match begin(Face::Integration, args.host, true) {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    let child = job.child.clone();
    let mut request = UpdateRequest::new(job.id.unwrap_or_default(), job.parent, job.child);
    request.markers = args.markers;
    if let Err(why) = job.strategy.integrator().check_update(&request) {
        return protocol.invalid(&why);
    }
    protocol.status("integrating");
    protocol.started();
    match watched(&job.control, || job.strategy.integrator().update(&request, &job.control)) {
        FoldOutcome::Integrated(integration) => {
            protocol.status("integrated");
            let mut all = success(&integration);
            all.push(("child", child.to_string_lossy().into()));
            all.extend(notes(&integration.notes));
            protocol.finished("integrated", all);
            tell(&integration, &child);
            ExitCode::SUCCESS
        }
        FoldOutcome::Conflict { report, conflicts, notes: noted } => {
            let mut all = vec![("conflicts", json!(conflicts)), ("marked", paths(&noted.marked))];
            all.extend(notes(&noted));
            protocol.ended("conflict", &report, all, 1)
        }
        FoldOutcome::Failed(report) => protocol.ended("failed", &report, Vec::new(), 3),
        FoldOutcome::Interrupted(report) => protocol.ended("interrupted", &report, Vec::new(), INTERRUPTED),
        FoldOutcome::InvalidInvocation(why) => protocol.invalid(&why),
    }
}

fn tell(integration: &Integration, child: &std::path::Path) {
    let child = child.display();
    output::tell(&match integration.landing {
        Landing::Nothing => format!("{child} has the Parent's work already."),
        _ => format!("Brought {} files into {child} in {} ms.", integration.files.len(), integration.notes.elapsed_ms),
    });
}
