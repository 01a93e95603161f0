//! `isofold fold`.

use std::process::ExitCode;

use isofold::{FoldBackend, FoldNotes, FoldOutcome, FoldRequest, Integration, Landing, MergeEngine};
use serde_json::{Value, json};

use super::args::{EngineArg, FoldArgs};
use super::host::{Face, begin, paths};
use super::progress::watched;
use super::{INTERRUPTED, output};

pub(crate) fn run(args: FoldArgs) -> ExitCode {
    let (protocol, job) = match begin(Face::Integration, args.host, true) {
        Ok(begun) => begun,
        Err(code) => return code,
    };
    let mut request = FoldRequest::new(job.id.unwrap_or_default(), job.parent, job.child);
    request.subject = args.subject;
    request.merge_subject = args.merge_subject;
    request.onto_current = args.onto_current;
    request.foreign_child = args.foreign_child;
    request.dry_run = args.dry_run;
    request.merge_engine = match args.merge_engine {
        EngineArg::Auto => MergeEngine::Auto,
        EngineArg::Git => MergeEngine::Git,
        EngineArg::Builtin => MergeEngine::Builtin,
    };
    if let Err(why) = job.strategy.integrator().check(&request) {
        return protocol.invalid(&why);
    }
    protocol.status("integrating");
    protocol.started();
    match watched(&job.control, || job.strategy.integrator().fold(&request, &job.control)) {
        FoldOutcome::Integrated(integration) => {
            protocol.status("integrated");
            let mut all = success(&integration);
            if request.dry_run {
                all.push(("dry_run", true.into()));
            }
            all.extend(notes(&integration.notes));
            protocol.finished("integrated", all);
            tell(&integration, request.dry_run);
            ExitCode::SUCCESS
        }
        FoldOutcome::Conflict { report, conflicts, notes: noted } => {
            let mut all = vec![("conflicts", json!(conflicts))];
            all.extend(notes(&noted));
            protocol.ended("conflict", &report, all, 1)
        }
        FoldOutcome::Failed(report) => protocol.ended("failed", &report, Vec::new(), 3),
        FoldOutcome::Interrupted(report) => protocol.ended("interrupted", &report, Vec::new(), INTERRUPTED),
        FoldOutcome::InvalidInvocation(why) => protocol.invalid(&why),
    }
}

fn landing(landing: Landing) -> &'static str {
    match landing {
        Landing::Nothing => "nothing",
        Landing::FastForward => "fast-forward",
        Landing::Merge => "merge",
        Landing::Update => "update",
    }
}

pub(super) fn success(integration: &Integration) -> Vec<(&'static str, Value)> {
    vec![
        ("parent", integration.parent.to_string_lossy().into()),
        ("landing", landing(integration.landing).into()),
        ("head", integration.head.clone().into()),
        ("commits", integration.commits.clone().into()),
        ("files", integration.files.len().into()),
        ("changed", paths(&integration.files)),
    ]
}

pub(super) fn notes(notes: &FoldNotes) -> Vec<(&'static str, Value)> {
    let not_folded: Vec<Value> =
        notes.not_folded.iter().map(|(path, why)| json!({"path": path.to_string_lossy(), "why": why})).collect();
    vec![
        ("base", notes.base.clone().into()),
        ("engine", notes.engine.into()),
        ("left_out", paths(&notes.left_out)),
        ("excluded_but_folded", paths(&notes.excluded_but_folded)),
        ("not_folded", not_folded.into()),
        ("saved", notes.saved.clone().into()),
        ("warnings", notes.warnings.clone().into()),
        ("options_changed", notes.options_changed.into()),
        ("phases_ms", notes.phases_ms.iter().map(|(name, ms)| ((*name).to_owned(), json!(ms))).collect::<Value>()),
        ("elapsed_ms", notes.elapsed_ms.into()),
    ]
}

fn tell(integration: &Integration, dry_run: bool) {
    let parent = integration.parent.display();
    let files = integration.files.len();
    let text = match (integration.landing, dry_run) {
        (Landing::Nothing, _) => format!("Nothing to fold into {parent}."),
        (how, true) => format!("Would fold {files} files into {parent} ({}).", landing(how)),
        (how, false) => {
            format!("Folded {files} files into {parent} ({}) in {} ms.", landing(how), integration.notes.elapsed_ms)
        }
    };
    output::tell(&text);
}
