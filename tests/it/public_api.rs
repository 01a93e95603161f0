//! The public interface for hosts, used whole: what compiles here today has to compile in every later
//! version of the same major (before 1.0: minor) number. A removed or renamed item, another signature, a
//! lost trait or a field of another type is an error of the compiler; a change here that is no addition
//! needs a new number and a line in CHANGELOG.md. Additions break nobody and are not seen.
#![allow(clippy::type_complexity, clippy::ref_option_ref, reason = "types are what is held fast here")]

use std::error::Error;
use std::fmt::{Debug, Display};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use isofold::options::{DEFAULT_EXCLUDES, Excludes, OPTIONS_FILE, PatternError, Place};
use isofold::{
    Conflict, Control, FoldBackend, FoldNotes, FoldOutcome, FoldRequest, InspectError, Inspection, Integration,
    Integrator, IsolateOutcome, IsolateRequest, Isolation, IsolationBackend, IsolationOptions, Isolator, Landing,
    MaterializeError, Materialized, MergeEngine, OptionsError, PointsOut, PointsOutside, Progress, Reference,
    ReferenceError, RemoveOutcome, Stage, Stop, Strategy, branch_name_of,
};

fn shared<T: Send + Sync + Debug + 'static>() {}
fn cloned<T: Clone>() {}
fn error<T: Error + Send + Sync + 'static>() {}
fn shown<T: Display>() {}
fn default<T: Default>() -> T {
    T::default()
}

/// Every type may cross threads and be printed for a programmer.
#[test]
fn types_keep_their_traits() {
    shared::<(Strategy, Isolator, Integrator, IsolateRequest, Isolation, IsolateOutcome, RemoveOutcome)>();
    shared::<(FoldRequest, FoldOutcome, Integration, FoldNotes, Landing, Conflict, MergeEngine)>();
    shared::<(Control, Progress, Stage, Stop, IsolationOptions, Excludes, Place)>();
    shared::<(Reference, Inspection, Materialized, PointsOutside, PointsOut)>();
    cloned::<(Strategy, Isolator, Integrator, IsolateRequest, Isolation, IsolateOutcome, RemoveOutcome)>();
    cloned::<(FoldRequest, FoldOutcome, Integration, FoldNotes, Landing, Conflict, MergeEngine)>();
    cloned::<(Control, Progress, Stage, Stop, IsolationOptions, Excludes, Reference, Inspection)>();
    error::<OptionsError>();
    error::<PatternError>();
    error::<ReferenceError>();
    error::<InspectError>();
    error::<MaterializeError>();
    error::<Stop>();
    shown::<Stop>();
    let _: (Strategy, Control, IsolationOptions, MergeEngine) = default();
}

/// Signatures, as function pointers.
#[test]
fn functions_keep_their_signatures() {
    let name: fn(&str) -> String = branch_name_of;
    let excludes: [&str; 2] = DEFAULT_EXCLUDES;
    let file: &str = OPTIONS_FILE;
    assert_eq!((name("x").as_str(), excludes[0], file), ("issue/x", ".env", "isolationOptions.toml"));

    let _: fn() -> Strategy = Strategy::new;
    let _: fn(IsolationOptions) -> Strategy = Strategy::with_options;
    let _: fn(&'static Path) -> Strategy = Strategy::with_options_file;
    let _: fn(Strategy, Reference) -> Strategy = Strategy::with_reference;
    let _: fn(Strategy, PathBuf) -> Strategy = Strategy::with_reference_file;
    let _: fn(&Strategy) -> Result<Option<Reference>, ReferenceError> = Strategy::reference;
    let _: fn(&Strategy) -> Isolator = Strategy::isolator;
    let _: fn(&Strategy) -> Integrator = Strategy::integrator;
    let _: fn(&Strategy, &str) -> String = Strategy::ref_of;
    let _: fn(&Isolator, &IsolateRequest) -> Result<(), String> = Isolator::check;
    let _: fn(&Integrator, &FoldRequest) -> Result<(), String> = Integrator::check;
    let _: fn(&Isolator, &IsolateRequest, &Control) -> IsolateOutcome = Isolator::isolate;
    let _: fn(&Isolator, &Path, bool, &Control) -> RemoveOutcome = Isolator::remove;
    let _: fn(&Integrator, &FoldRequest, &Control) -> FoldOutcome = Integrator::fold;
    let _: fn(&'static str, &'static Path, PathBuf) -> IsolateRequest = IsolateRequest::new;
    let _: fn(&'static Path, PathBuf) -> IsolateRequest = IsolateRequest::detached;
    let _: fn(String, &'static Path, PathBuf) -> FoldRequest = FoldRequest::new;

    let _: fn() -> Control = Control::new;
    let _: fn(Duration) -> Control = Control::with_clock;
    let _: fn(Control, Arc<AtomicBool>) -> Control = Control::with_interrupt_flag;
    let _: fn(&Control) = Control::interrupt;
    let _: fn(&Control) -> bool = Control::is_interrupted;
    let _: fn(&Control) -> Result<(), Stop> = Control::check;
    let _: fn(&Control) -> Duration = Control::elapsed;
    let _: fn(&Control) -> bool = Control::has_clock;
    let _: fn(&Control) -> &Progress = Control::progress;
    assert_eq!(Control::new().paused(|| 3), 3);
    let _: fn(&Progress) -> Stage = Progress::stage;
    let _: [fn(&Progress) -> u64; 3] = [Progress::files, Progress::bytes_cloned, Progress::bytes_copied];

    let _: fn([&'static str; 1]) -> Result<IsolationOptions, OptionsError> = IsolationOptions::with_excludes;
    let _: fn(&IsolationOptions) -> &Excludes = IsolationOptions::excludes;
    let _: fn(&str, Option<&Path>) -> Result<IsolationOptions, OptionsError> = IsolationOptions::from_toml;
    let _: fn(&str, Option<&Path>) -> Result<IsolationOptions, OptionsError> = IsolationOptions::from_json;
    let _: fn(&serde_json::Value) -> Result<IsolationOptions, OptionsError> = IsolationOptions::from_json_value;
    let _: [fn(&Path) -> Result<IsolationOptions, OptionsError>; 2] =
        [IsolationOptions::from_file, IsolationOptions::of_parent];
    let _: fn([String; 1]) -> Result<Excludes, PatternError> = Excludes::new;
    let _: fn(&Excludes) -> &[String] = Excludes::patterns;
    let _: fn(&Excludes) -> bool = Excludes::is_empty;
    let _: [fn(&Excludes, &Path, bool) -> bool; 2] = [Excludes::matches, Excludes::covers];

    let _: [fn(&serde_json::Value) -> Result<Reference, ReferenceError>; 2] = [Reference::parse, Reference::from_value];
    let _: [fn(&str) -> Result<Reference, ReferenceError>; 3] =
        [Reference::from_json, Reference::from_toml, Reference::from_text];
    let _: fn(&Path) -> Result<Reference, ReferenceError> = Reference::from_file;
    let _: fn(&Reference) = Reference::put_in_force;
    let _: [fn(&Reference) -> &str; 3] = [Reference::remote, Reference::branch, Reference::target];
    let _: fn(&Reference) -> String = Reference::summary;
    let _: fn(&Reference) -> Option<&str> = Reference::credential_env;
    let _: fn(&Reference) -> Option<(&str, &str)> = Reference::author;
    let _: fn(&Reference) -> Vec<(String, String)> = Reference::env;
    let _: fn(&Reference, &Path) -> Result<Inspection, InspectError> = Reference::inspect;
    let _: fn(&Reference, &Path, &Control) -> Result<Materialized, MaterializeError> = Reference::materialize;
}

/// What a host writes into a request, and reads from a result.
fn uses_every_field(isolate: &mut IsolateRequest, fold: &mut FoldRequest, isolation: &Isolation, done: &Integration) {
    isolate.id = Some(String::new());
    isolate.detach = true;
    isolate.parent = PathBuf::new();
    isolate.child = PathBuf::new();
    fold.id = String::new();
    fold.parent = PathBuf::new();
    fold.child = PathBuf::new();
    fold.subject = Some(String::new());
    fold.merge_subject = None;
    fold.onto_current = true;
    fold.dry_run = true;
    fold.merge_engine = MergeEngine::Builtin;

    let Isolation { child, branch, head, base, skipped, left_out, unsteady, base_omitted, saved, .. } = isolation;
    let _: (&PathBuf, &Option<String>, &Option<String>, &String) = (child, branch, head, base);
    let _: [&Vec<PathBuf>; 4] = [skipped, left_out, unsteady, base_omitted];
    let _: &Vec<String> = saved;
    let Isolation { files, links, directories, bytes, cloned, copied, xattrs_refused, elapsed_ms, .. } = isolation;
    let _: [&u64; 8] = [files, links, directories, bytes, cloned, copied, xattrs_refused, elapsed_ms];
    let PointsOutside { total, into_parent, first, .. } = &isolation.points_outside;
    let _: ([&u64; 2], &Vec<PointsOut>) = ([total, into_parent], first);

    let Integration { parent, landing, head, commits, files, notes, .. } = done;
    let _: (&PathBuf, &Option<String>, &Vec<String>, &Vec<PathBuf>) = (parent, head, commits, files);
    match landing {
        Landing::Nothing | Landing::FastForward | Landing::Merge | Landing::Update => {}
    }
    let FoldNotes { base, engine, left_out, excluded_but_folded, not_folded, saved, warnings, .. } = notes;
    let _: (&Option<String>, &Option<&'static str>, &Vec<(PathBuf, &'static str)>) = (base, engine, not_folded);
    let _: ([&Vec<PathBuf>; 2], [&Vec<String>; 2]) = ([left_out, excluded_but_folded], [saved, warnings]);
    let FoldNotes { options_changed, elapsed_ms, .. } = notes;
    let _: (&bool, &u64) = (options_changed, elapsed_ms);
}

/// Outcomes are matched whole: a new one is a change that hosts have to know of.
fn tells(isolated: &IsolateOutcome, folded: &FoldOutcome, removed: &RemoveOutcome) -> [String; 3] {
    let isolated = match isolated {
        IsolateOutcome::Isolated(isolation) => isolation.child.display().to_string(),
        IsolateOutcome::Failed(report)
        | IsolateOutcome::Interrupted(report)
        | IsolateOutcome::InvalidInvocation(report) => report.clone(),
    };
    let folded = match folded {
        FoldOutcome::Integrated(integration) => integration.parent.display().to_string(),
        FoldOutcome::Conflict { report, conflicts, notes } => {
            let [Conflict { path, kind, detail, ours, theirs, .. }] = &conflicts[..] else {
                return [report.clone(), String::new(), format!("{notes:?}")];
            };
            format!("{path} {kind} {detail} {ours:?} {theirs:?}")
        }
        FoldOutcome::Failed(report) | FoldOutcome::Interrupted(report) | FoldOutcome::InvalidInvocation(report) => {
            report.clone()
        }
    };
    let removed = match removed {
        RemoveOutcome::Removed { saved } => saved.join(" "),
        RemoveOutcome::AlreadyGone => String::new(),
        RemoveOutcome::Refused(report)
        | RemoveOutcome::Failed(report)
        | RemoveOutcome::Interrupted(report)
        | RemoveOutcome::InvalidInvocation(report) => report.clone(),
    };
    [isolated, folded, removed]
}

/// A backend of somebody else's.
struct Refusing;

impl IsolationBackend for Refusing {
    fn isolate(&self, request: &IsolateRequest, control: &Control) -> IsolateOutcome {
        match control.check() {
            Err(Stop::Clock) => IsolateOutcome::Failed("the clock fired".to_owned()),
            Err(Stop::Interrupt) => IsolateOutcome::Interrupted("interrupted".to_owned()),
            Ok(()) => IsolateOutcome::InvalidInvocation(format!("no {}", request.child.display())),
        }
    }

    fn remove(&self, _: &Path, force: bool, _: &Control) -> RemoveOutcome {
        if force { RemoveOutcome::AlreadyGone } else { RemoveOutcome::Refused("not without force".to_owned()) }
    }
}

impl FoldBackend for Refusing {
    fn fold(&self, request: &FoldRequest, _: &Control) -> FoldOutcome {
        FoldOutcome::Failed(request.id.clone())
    }
}

#[test]
fn a_host_can_hold_several_strategies() {
    let strategy = Strategy::new();
    let isolations: Vec<Box<dyn IsolationBackend>> = vec![Box::new(strategy.isolator()), Box::new(Refusing)];
    let folds: Vec<Box<dyn FoldBackend>> = vec![Box::new(strategy.integrator()), Box::new(Refusing)];
    let control = Control::new();
    let told: Vec<[String; 3]> = isolations
        .iter()
        .zip(&folds)
        .map(|(isolation, fold)| {
            let isolated = isolation.isolate(&IsolateRequest::new("w", "relative", "/c"), &control);
            let folded = fold.fold(&FoldRequest::new("w", "relative", "/c"), &control);
            tells(&isolated, &folded, &isolation.remove(Path::new("relative"), false, &control))
        })
        .collect();
    assert!(told[0].iter().all(|report| report.contains("relative")), "{told:?}");
    assert_eq!(told[1], ["no /c", "w", "not without force"]);
    let _: fn(&mut IsolateRequest, &mut FoldRequest, &Isolation, &Integration) = uses_every_field;
}
