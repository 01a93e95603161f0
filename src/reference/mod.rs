//! The reference work line: where a host's line of work is and who the host acts as, read strictly, a
//! copy of the line, and the environment of those who touch it.

mod inspect;
mod materialize;
mod parse;
mod remote;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::environment::{self, Credential, Environment};

pub use inspect::{InspectError, Inspection};
pub use materialize::{MaterializeError, Materialized};
pub use parse::ReferenceError;

use remote::Remote;

/// Where the line of work is, and who acts.
///
/// ```
/// use isofold::Reference;
///
/// let reference = Reference::from_toml(
///     "remote = \"https://example.test/line.git\"\nbranch = \"main\"\ncredentialEnv = \"LINE_TOKEN\"\n",
/// )?;
/// assert_eq!(reference.summary(), "https://example.test/line.git (main)");
/// assert_eq!(reference.target(), "main");
/// assert!(reference.env().iter().any(|(name, _)| name == "GIT_CONFIG_COUNT"));
///
/// let error = Reference::from_json(r#"{"remote": "https://example.test/line.git"}"#).unwrap_err();
/// assert_eq!(error.to_string(), "missing \"branch\" — a git reference has remote, branch");
/// # Ok::<(), isofold::ReferenceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    remote: Remote,
    branch: String,
    environment: Arc<Environment>,
}

impl Reference {
    /// Reads a value, as a host that has its own configuration file holds it (JSON, TOML, or whatever
    /// else has a `Serialize`), and puts the reference in force: from now on every git that this process
    /// starts carries its environment, and the commits that reach history carry its author. The
    /// reference that was parsed last counts, but where a [`Strategy`](crate::Strategy) has one of its own.
    ///
    /// ```standalone_crate
    /// # use std::process::Command;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let parent = dir.path().canonicalize().unwrap().join("parent");
    /// # let child = dir.path().canonicalize().unwrap().join("child");
    /// # std::fs::create_dir(&parent).unwrap();
    /// # let git = |args: &[&str]| {
    /// #     let git = Command::new("git").arg("-C").arg(&parent).args(args).output().unwrap();
    /// #     assert!(git.status.success());
    /// #     String::from_utf8(git.stdout).unwrap()
    /// # };
    /// # git(&["init", "-q", "-b", "main"]);
    /// # git(&["-c", "user.name=An Example", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "start"]);
    /// use isofold::{Control, FoldBackend, FoldOutcome, FoldRequest};
    /// use isofold::{IsolateOutcome, IsolateRequest, IsolationBackend, Reference, Strategy};
    ///
    /// let value = serde_json::json!({
    ///     "remote": "https://example.test/line.git",
    ///     "branch": "main",
    ///     "author": {"name": "Line Bot", "email": "bot@example.test"},
    /// });
    /// Reference::parse(&value)?;
    ///
    /// let (strategy, control) = (Strategy::new(), Control::new());
    /// let isolated = strategy.isolator().isolate(&IsolateRequest::new("w", &parent, &child), &control);
    /// assert!(matches!(isolated, IsolateOutcome::Isolated(_)));
    /// std::fs::write(child.join("work"), "done\n").unwrap();
    /// let folded = strategy.integrator().fold(&FoldRequest::new("w", &parent, &child), &control);
    /// assert!(matches!(folded, FoldOutcome::Integrated(_)));
    /// assert_eq!(git(&["log", "-1", "--format=%an <%ae>"]), "Line Bot <bot@example.test>\n");
    /// # Ok::<(), isofold::ReferenceError>(())
    /// ```
    ///
    /// # Errors
    /// [`ReferenceError`]; the reference that was in force stays so.
    pub fn parse(value: &impl serde::Serialize) -> Result<Self, ReferenceError> {
        let reference = Self::from_value(value)?;
        reference.put_in_force();
        Ok(reference)
    }

    /// Reads a value like [`Self::parse`], and puts nothing in force.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn from_value(value: &impl serde::Serialize) -> Result<Self, ReferenceError> {
        let value = serde_json::to_value(value).map_err(|_| ReferenceError::NotATable)?;
        parse::read(&value)
    }

    /// Reads JSON text, and puts nothing in force.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn from_json(text: &str) -> Result<Self, ReferenceError> {
        parse::read(&parse::json(text)?)
    }

    /// Reads TOML text, and puts nothing in force.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn from_toml(text: &str) -> Result<Self, ReferenceError> {
        parse::read(&parse::toml(text)?)
    }

    /// Reads text of either kind, JSON where it starts with `{`, and puts nothing in force.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn from_text(text: &str) -> Result<Self, ReferenceError> {
        if text.trim_start().starts_with('{') { Self::from_json(text) } else { Self::from_toml(text) }
    }

    /// Reads a file: JSON where its name ends in `.json` or its text starts with `{`, else TOML. Nothing
    /// is put in force.
    ///
    /// # Errors
    /// [`ReferenceError`].
    pub fn from_file(path: &Path) -> Result<Self, ReferenceError> {
        let read = |source| ReferenceError::Read { path: path.to_owned(), source };
        let text = std::fs::read_to_string(path).map_err(read)?;
        if path.extension().is_some_and(|e| e == "json") { Self::from_json(&text) } else { Self::from_text(&text) }
    }

    fn new(remote: Remote, branch: String, credential_env: Option<String>, author: Option<(String, String)>) -> Self {
        // Even where the reference never comes in force, its token is for nobody else.
        if let Some(variable) = &credential_env {
            environment::withhold(variable);
        }
        let credential = credential_env.map(|variable| Credential { variable, site: remote.site() });
        Self { remote, branch, environment: Arc::new(Environment { author, credential }) }
    }

    /// Puts the reference in force for the whole process, as [`Self::parse`] does.
    pub fn put_in_force(&self) {
        environment::put_in_force(self.environment.clone());
    }

    /// The address of the remote, as it was given.
    pub fn remote(&self) -> &str {
        self.remote.as_str()
    }

    /// The branch that the line is on.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// The variable that holds the token, where there is one.
    pub fn credential_env(&self) -> Option<&str> {
        self.environment.credential.as_ref().map(|credential| credential.variable.as_str())
    }

    /// Name and address of the author, where the reference has one.
    pub fn author(&self) -> Option<(&str, &str)> {
        self.environment.author.as_ref().map(|(name, email)| (name.as_str(), email.as_str()))
    }

    /// The reference in short: `REMOTE (BRANCH)`.
    pub fn summary(&self) -> String {
        format!("{} ({})", self.remote(), self.branch)
    }

    /// What work on the line is meant for: the branch.
    pub fn target(&self) -> &str {
        &self.branch
    }

    /// The environment of a git that acts for the reference: who commits and, with a `credentialEnv`, a
    /// helper that gives the token to the remote's own scheme, host and port. It holds no token: git
    /// finds that in the variable. Configuration entries are numbered after those
    /// (`GIT_CONFIG_COUNT`) that this process has already.
    pub fn env(&self) -> Vec<(String, String)> {
        let there = std::env::var("GIT_CONFIG_COUNT").ok().and_then(|count| count.trim().parse().ok());
        self.environment.variables(there.unwrap_or(0))
    }

    pub(crate) fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }
}

/// Where a job takes its reference from.
#[derive(Debug, Clone, Default)]
pub(crate) enum Source {
    /// None of its own: what is in force for the process counts.
    #[default]
    Process,
    Given(Box<Reference>),
    File(PathBuf),
}

impl Source {
    pub(crate) fn load(&self) -> Result<Option<Reference>, ReferenceError> {
        match self {
            Self::Process => Ok(None),
            Self::Given(reference) => Ok(Some((**reference).clone())),
            Self::File(file) => Reference::from_file(file).map(Some),
        }
    }
}
