//! `isofold isolate`.

use std::process::ExitCode;

use isofold::{IsolateOutcome, IsolateRequest, Isolation, IsolationBackend, PointsOutside};
use serde_json::{Value, json};

use super::args::IsolateArgs;
use super::host::{Face, begin, paths};
use super::progress::watched;
use super::{INTERRUPTED, output};

pub(crate) fn run(args: IsolateArgs) -> ExitCode {
    let detach = args.detach;
    let (protocol, job) = match begin(Face::Isolation, args.host, !detach) {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    let mut request = IsolateRequest::detached(job.parent, job.child);
    request.id = job.id;
    request.detach = detach;
    if let Err(why) = job.strategy.isolator().check(&request) {
        return protocol.invalid(&why);
    }
    protocol.status("isolating");
    protocol.started();
    match watched(&job.control, || job.strategy.isolator().isolate(&request, &job.control)) {
        IsolateOutcome::Isolated(isolation) => {
            protocol.status("isolated");
            protocol.finished("isolated", fields(&isolation));
            tell(&isolation);
            ExitCode::SUCCESS
        }
        IsolateOutcome::Failed(report) => protocol.ended("failed", &report, Vec::new(), 1),
        IsolateOutcome::Interrupted(report) => protocol.ended("interrupted", &report, Vec::new(), INTERRUPTED),
        IsolateOutcome::InvalidInvocation(why) => protocol.invalid(&why),
    }
}

fn fields(isolation: &Isolation) -> Vec<(&'static str, Value)> {
    vec![
        ("child", isolation.child.to_string_lossy().into()),
        ("branch", isolation.branch.clone().into()),
        ("head", isolation.head.clone().into()),
        ("base", isolation.base.clone().into()),
        ("files", isolation.files.into()),
        ("links", isolation.links.into()),
        ("directories", isolation.directories.into()),
        ("bytes", isolation.bytes.into()),
        ("cloned", isolation.cloned.into()),
        ("copied", isolation.copied.into()),
        ("xattrs_refused", isolation.xattrs_refused.into()),
        ("skipped", paths(&isolation.skipped)),
        ("left_out", paths(&isolation.left_out)),
        ("unsteady", paths(&isolation.unsteady)),
        ("points_outside", points_outside(&isolation.points_outside)),
        ("base_omitted", paths(&isolation.base_omitted)),
        ("saved", isolation.saved.clone().into()),
        ("elapsed_ms", isolation.elapsed_ms.into()),
    ]
}

fn points_outside(outside: &PointsOutside) -> Value {
    let first: Vec<Value> = outside
        .first
        .iter()
        .map(|out| {
            json!({
                "path": out.path.to_string_lossy(),
                "target": out.target.to_string_lossy(),
                "into": if out.into_parent { "parent" } else { "elsewhere" },
            })
        })
        .collect();
    json!({"total": outside.total, "into_parent": outside.into_parent, "first": first})
}

fn tell(isolation: &Isolation) {
    let at = isolation.branch.as_ref().map_or_else(|| "detached".to_owned(), |b| format!("on branch {b}"));
    output::tell(&format!(
        "Isolated {} files into {} ({at}; {} cloned, {} copied, {} left out) in {} ms.",
        isolation.files + isolation.links,
        isolation.child.display(),
        isolation.cloned,
        isolation.copied,
        isolation.left_out.len(),
        isolation.elapsed_ms
    ));
    if isolation.points_outside.total > 0 {
        output::tell(&format!(
            "{} links or scripts lead out of it, {} of them into the Parent: writing through them changes what is there.",
            isolation.points_outside.total, isolation.points_outside.into_parent
        ));
    }
}
