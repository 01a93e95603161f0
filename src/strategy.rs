//! What a host loads: an [`Isolator`] and an [`Integrator`], made from options.

use std::path::{Path, PathBuf};

use crate::control::Control;
use crate::fold::update::{self, UpdateRequest};
use crate::fold::{self, FoldOutcome, FoldRequest};
use crate::isolate::remove::{self, RemoveOutcome};
use crate::isolate::{self, IsolateOutcome, IsolateRequest};
use crate::options::IsolationOptions;
use crate::reference::{self, Reference, ReferenceError};

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

/// What the jobs of a strategy have in common.
#[derive(Debug, Clone, Default)]
struct Setup {
    options: Source,
    reference: reference::Source,
}

impl Setup {
    /// The options, once the paths of a job were found good; a reference is looked at last.
    fn options(
        &self,
        parent: &Path,
        reference: &Result<Option<Reference>, ReferenceError>,
    ) -> Result<IsolationOptions, String> {
        let options = self.options.options(parent)?;
        reference.as_ref().map(|_| options).map_err(ToString::to_string)
    }

    /// The control of a job, with what the reference gives to every git.
    fn control(control: &Control, reference: &Result<Option<Reference>, ReferenceError>) -> Control {
        match reference {
            Ok(Some(reference)) => control.with_environment(reference.environment().clone()),
            _ => control.clone(),
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
    setup: Setup,
}

impl Strategy {
    /// A strategy that reads each Parent's own options.
    pub fn new() -> Self {
        Self::default()
    }

    /// A strategy with these options, whatever the Parent's file says.
    pub fn with_options(options: IsolationOptions) -> Self {
        Self { setup: Setup { options: Source::Given(Box::new(options)), ..Setup::default() } }
    }

    /// A strategy with the options of a file (TOML or JSON), read anew for each job. A file that
    /// can't be used makes the job an invalid invocation.
    pub fn with_options_file(file: impl Into<PathBuf>) -> Self {
        Self { setup: Setup { options: Source::File(file.into()), ..Setup::default() } }
    }

    /// The same strategy, acting for a reference: every git of its jobs carries the reference's
    /// environment, and what a fold commits its author. Without one, the reference that
    /// [`Reference::parse`] put in force counts.
    #[must_use]
    pub fn with_reference(mut self, reference: Reference) -> Self {
        self.setup.reference = reference::Source::Given(Box::new(reference));
        self
    }

    /// The same strategy, acting for the reference in a file (TOML or JSON), which is read anew for each
    /// job. A file that can't be used makes the job an invalid invocation.
    #[must_use]
    pub fn with_reference_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.setup.reference = reference::Source::File(file.into());
        self
    }

    /// The reference that the strategy acts for, if it has one of its own.
    ///
    /// # Errors
    /// [`ReferenceError`] where the file can't be used.
    pub fn reference(&self) -> Result<Option<Reference>, ReferenceError> {
        self.setup.reference.load()
    }

    /// Makes Children.
    pub fn isolator(&self) -> Isolator {
        Isolator { setup: self.setup.clone() }
    }

    /// Folds them back.
    pub fn integrator(&self) -> Integrator {
        Integrator { setup: self.setup.clone() }
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
    setup: Setup,
}

impl Isolator {
    /// Only the checks of an invocation: paths and options. `Err` is the report.
    ///
    /// # Errors
    /// In one line, what makes the invocation invalid.
    pub fn check(&self, request: &IsolateRequest) -> Result<(), String> {
        let reference = self.setup.reference.load();
        isolate::check(request, |parent| self.setup.options(parent, &reference)).map(drop)
    }
}

impl IsolationBackend for Isolator {
    fn isolate(&self, request: &IsolateRequest, control: &Control) -> IsolateOutcome {
        let reference = self.setup.reference.load();
        let control = Setup::control(control, &reference);
        isolate::isolate(request, |parent| self.setup.options(parent, &reference), &control)
    }

    fn remove(&self, child: &Path, force: bool, control: &Control) -> RemoveOutcome {
        let control = Setup::control(control, &self.setup.reference.load());
        remove::remove(child, force, &control)
    }
}

/// Folds Children back.
#[derive(Debug, Clone)]
pub struct Integrator {
    setup: Setup,
}

impl Integrator {
    /// Only the checks of an invocation: paths and options. `Err` is the report.
    ///
    /// # Errors
    /// In one line, what makes the invocation invalid.
    pub fn check(&self, request: &FoldRequest) -> Result<(), String> {
        let reference = self.setup.reference.load();
        fold::check(request, |parent| self.setup.options(parent, &reference)).map(drop)
    }

    /// Only the checks of an update: paths and options. `Err` is the report.
    ///
    /// # Errors
    /// In one line, what makes the invocation invalid.
    pub fn check_update(&self, request: &UpdateRequest) -> Result<(), String> {
        let reference = self.setup.reference.load();
        update::check_update(request, |parent| self.setup.options(parent, &reference)).map(drop)
    }

    /// Merges the Parent's work into the Child's files: the way on after a conflict. On success
    /// [`Integration::files`](crate::Integration::files) are the Child's, and the landing is
    /// [`Landing::Update`](crate::Landing::Update) or nothing. The Parent is only read.
    pub fn update(&self, request: &UpdateRequest, control: &Control) -> FoldOutcome {
        let reference = self.setup.reference.load();
        let control = Setup::control(control, &reference);
        update::update(request, |parent| self.setup.options(parent, &reference), &control)
    }
}

impl FoldBackend for Integrator {
    fn fold(&self, request: &FoldRequest, control: &Control) -> FoldOutcome {
        let reference = self.setup.reference.load();
        let control = Setup::control(control, &reference);
        fold::fold(request, |parent| self.setup.options(parent, &reference), &control)
    }
}
