//! What a host loads: an [`Isolator`] and an [`Integrator`], made from options.

use std::path::{Path, PathBuf};

use crate::control::Control;
use crate::fold::{self, FoldOutcome, FoldRequest};
use crate::isolate::remove::{self, RemoveOutcome};
use crate::isolate::{self, IsolateOutcome, IsolateRequest};
use crate::options::IsolationOptions;

/// Where the options come from.
#[derive(Debug, Clone, Default)]
enum Source {
    /// `isolationOptions.toml` at the Parent's root, or the defaults.
    #[default]
    Parent,
    Given(Box<IsolationOptions>),
    File(PathBuf),
}

impl Source {
    fn options(&self, parent: &Path) -> Result<IsolationOptions, String> {
        match self {
            Self::Parent => IsolationOptions::of_parent(parent).map_err(|e| e.to_string()),
            Self::Given(options) => Ok((**options).clone()),
            Self::File(file) => IsolationOptions::from_file(file).map_err(|e| e.to_string()),
        }
    }
}

/// An isolation strategy: how Children are made and folded back.
///
/// By default the options are read from the Parent's `isolationOptions.toml`; options that are
/// given win over the file.
///
/// ```
/// use isofold::{Strategy, IsolationOptions};
///
/// let strategy = Strategy::with_options(IsolationOptions::with_excludes(["*.pem"]).unwrap());
/// assert_eq!(strategy.ref_of("github:owner/repo#9"), "refs/heads/issue/9");
/// ```
#[derive(Debug, Clone, Default)]
pub struct Strategy {
    source: Source,
}

impl Strategy {
    /// A strategy that reads each Parent's own options.
    pub fn new() -> Self {
        Self::default()
    }

    /// A strategy with these options, whatever the Parent's file says.
    pub fn with_options(options: IsolationOptions) -> Self {
        Self { source: Source::Given(Box::new(options)) }
    }

    /// A strategy with the options of a file (TOML or JSON), read anew for each job. A file that
    /// can't be used makes the job an invalid invocation.
    pub fn with_options_file(file: impl Into<PathBuf>) -> Self {
        Self { source: Source::File(file.into()) }
    }

    /// Makes Children.
    pub fn isolator(&self) -> Isolator {
        Isolator { source: self.source.clone() }
    }

    /// Folds them back.
    pub fn integrator(&self) -> Integrator {
        Integrator { source: self.source.clone() }
    }

    /// The full name of the branch that belongs to an id.
    pub fn ref_of(&self, id: &str) -> String {
        format!("refs/heads/{}", crate::branch_name_of(id))
    }
}

/// What makes and removes Children; hosts that hold several strategies keep a
/// `Box<dyn IsolationBackend>`.
pub trait IsolationBackend: Send + Sync {
    /// Makes a Child. All or nothing: on any outcome but [`IsolateOutcome::Isolated`] nothing is left.
    fn isolate(&self, request: &IsolateRequest, control: &Control) -> IsolateOutcome;

    /// Takes a Child away. Loose work is saved first with `force`, refused without.
    fn remove(&self, child: &Path, force: bool, control: &Control) -> RemoveOutcome;
}

/// What folds Children back; hosts that hold several strategies keep a `Box<dyn FoldBackend>`.
pub trait FoldBackend: Send + Sync {
    /// Folds. On any outcome but [`FoldOutcome::Integrated`] the Parent is what it was.
    fn fold(&self, request: &FoldRequest, control: &Control) -> FoldOutcome;
}

/// Makes and removes Children.
#[derive(Debug, Clone)]
pub struct Isolator {
    source: Source,
}

impl Isolator {
    /// Only the checks of an invocation: paths and options. `Err` is the report.
    ///
    /// # Errors
    /// In one line, what makes the invocation invalid.
    pub fn check(&self, request: &IsolateRequest) -> Result<(), String> {
        isolate::check(request, |parent| self.source.options(parent)).map(drop)
    }
}

impl IsolationBackend for Isolator {
    fn isolate(&self, request: &IsolateRequest, control: &Control) -> IsolateOutcome {
        isolate::isolate(request, |parent| self.source.options(parent), control)
    }

    fn remove(&self, child: &Path, force: bool, control: &Control) -> RemoveOutcome {
        remove::remove(child, force, control)
    }
}

/// Folds Children back.
#[derive(Debug, Clone)]
pub struct Integrator {
    source: Source,
}

impl Integrator {
    /// Only the checks of an invocation: paths and options. `Err` is the report.
    ///
    /// # Errors
    /// In one line, what makes the invocation invalid.
    pub fn check(&self, request: &FoldRequest) -> Result<(), String> {
        fold::check(request, |parent| self.source.options(parent)).map(drop)
    }
}

impl FoldBackend for Integrator {
    fn fold(&self, request: &FoldRequest, control: &Control) -> FoldOutcome {
        fold::fold(request, |parent| self.source.options(parent), control)
    }
}
