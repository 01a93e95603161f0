//! The writer: everything that a landing does to a directory, its index and its HEAD, in the one order
//! in which a crash at any moment leaves all old or all new.
//!
//! 1. [`Writer::begin`]: the journal says which locks of git will be taken; they are. Only then may
//!    anything be read that the landing builds on.
//! 2. [`Writer::stage`]: the new files are made out of sight.
//! 3. [`Writer::keep_alive`]: objects that are in the repository by now are kept from a `git gc`.
//! 4. [`Writer::apply`]: the journal says what will be done, then files change places, each checked. The
//!    new index is written beside the old one.
//! 5. [`Writer::commit`]: all of it synced, the ref moves: the commit point. Then the index takes its
//!    place, what was swapped out is looked at once more, and everything of ours goes.
//!
//! Whatever is to be written decides how far a landing reaches ([`Scope`]): files alone, files and
//! index, or those and HEAD. Without a ref to move, a record of the journal is the commit point. Dropping
//! a writer, or [`Writer::abort`], puts everything back.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use super::index;
use super::journal::{Apply, BaseRecord, Journal, Move, Record};
use super::plan::{Ground, Plan};
use super::room::{Room, text};
use super::settle::{Aftermath, Ending};
use super::stage::{Rooms, Stage};
use super::swap::{self, Places};
use super::sync::Syncer;
use super::{WriteError, crash};
use crate::control::Control;
use crate::files::remove::remove_tree;
use crate::git::identity::Identity;
use crate::git::index_file::IndexFile;
use crate::git::lock_files::lock_of;
use crate::git::program::Git;
use crate::git::ref_files::{append_reflog, install, prepare, reflog_line};
use crate::git::repository::{Head, Repo};
use crate::git::tree::{Item, Objects};
use crate::git::{GitError, Oid};
use crate::records::{BaseEntry, random_name};

/// How far a landing reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Working files. Index and HEAD stay, and nobody is kept from them.
    Files,
    /// Working files and index: staging without a commit.
    Index,
    /// Working files, index, and HEAD with its branch.
    Head,
}

/// Where HEAD goes.
pub(crate) struct Moving<'a> {
    pub(crate) to: Oid,
    pub(crate) who: &'a Identity,
    pub(crate) message: &'a str,
}

/// What comes with the files.
#[derive(Default)]
pub(crate) struct Along<'a> {
    /// With [`Scope::Head`]: where HEAD goes.
    pub(crate) moving: Option<Moving<'a>>,
    /// What is staged in the index, where that is not what the files become.
    pub(crate) staged: Option<&'a BTreeMap<Vec<u8>, Option<Item>>>,
    /// The base entry that follows.
    pub(crate) base: Option<&'a BaseEntry>,
    /// Refs that were made in repositories of submodules, to be removed again if nothing comes of it:
    /// git directory, name.
    pub(crate) carried: Vec<(PathBuf, String)>,
}

/// A landing under way in one work tree. Whoever makes one holds the work tree's lock of isofold.
pub(crate) struct Writer<'repo> {
    repo: &'repo Repo,
    scope: Scope,
    head: Head,
    syncer: Syncer,
    /// `None` once it has come to an end.
    open: Option<Open>,
}

/// What there is as long as there is no end.
struct Open {
    room: Room,
    journal: Journal,
    stage: Option<Stage>,
    applied: Option<(Apply, Places)>,
}

impl<'repo> Writer<'repo> {
    /// Starts a landing: the journal, then git's locks. HEAD and index stay as they are from here on, as
    /// far as the scope reaches.
    pub(crate) fn begin(repo: &'repo Repo, scope: Scope, control: &Control) -> Result<Self, WriteError> {
        control.check().map_err(GitError::from)?;
        let before = repo.head()?;
        let mut locks = Vec::new();
        if scope != Scope::Files {
            locks.push(lock_of(&repo.place().index_path()));
        }
        if scope == Scope::Head {
            repo.check_branch(&before)?;
            locks.extend(repo.head_locks(&before));
        }
        let mut syncer = Syncer::default();
        let (room, init) = Room::make(repo, &random_name(), locks)?;
        let started = Journal::start(&room.journal()).and_then(|mut journal| {
            syncer.timed(|| {
                journal.write(&Record::Init(init))?;
                room.sync()
            })?;
            Ok(journal)
        });
        let journal = match started {
            Ok(journal) => journal,
            Err(error) => {
                let _ = remove_tree(room.path());
                return Err(error.into());
            }
        };
        crash::point("journal-init");
        let open = Open { room, journal, stage: None, applied: None };
        // From here on dropping it takes the locks back.
        let mut writer = Self { repo, scope, head: before, syncer, open: Some(open) };
        writer.lock(control)?;
        Ok(writer)
    }

    fn lock(&mut self, control: &Control) -> Result<(), WriteError> {
        let room = &self.open()?.room;
        for (lock, point) in room.locks().iter().zip(["index-locked", "head-locked", "branch-locked"]) {
            lock.take(control)?;
            crash::point(point);
        }
        let now = self.repo.head()?;
        if now.branch != self.head.branch {
            return Err(GitError::Moved { what: "HEAD".to_owned() }.into());
        }
        self.head = now;
        Ok(())
    }

    fn open(&mut self) -> Result<&mut Open, WriteError> {
        self.open.as_mut().ok_or(WriteError::Over)
    }

    /// What HEAD says; with [`Scope::Head`] it goes on saying so.
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// Milliseconds that were spent on having things on the disk.
    pub(crate) fn synced_ms(&self) -> u64 {
        self.syncer.spent_ms()
    }

    /// Makes the new files of a plan, out of sight. `git` reads the objects of the new tree; where
    /// nothing converts content, `unconverted` gives them and no git is needed.
    pub(crate) fn stage(
        &mut self,
        ground: &Ground<'_>,
        plan: &Plan,
        git: &Git,
        unconverted: Option<&dyn Objects>,
        control: &Control,
    ) -> Result<(), WriteError> {
        let root = self.repo.work_dir().to_owned();
        let open = self.open()?;
        let rooms = Rooms::of(&root, plan, open.room.path(), &open.room.id)?;
        open.journal.write(&Record::Stage { rooms: rooms.paths().map(text).collect() })?;
        crash::point("stage-recorded");
        open.stage = Some(Stage::fill(rooms, ground, plan, git, unconverted, control)?);
        Ok(())
    }

    /// Keeps commits alive until the end; their objects are in the repository and on the disk.
    pub(crate) fn keep_alive(&mut self, parent: Option<Oid>, result: Oid) -> Result<(), WriteError> {
        crash::point("objects-durable");
        let repo = self.repo;
        let room = &self.open()?.room;
        if let Some(parent) = parent {
            room.keep_alive(repo, "parent", parent)?;
        }
        crash::point("keep-ref");
        room.keep_alive(repo, "result", result)?;
        crash::point("kept-alive");
        Ok(())
    }

    /// Carries out a plan that was staged: files change places, the new index is written beside.
    /// `before` is the index that the new one is made from. On an error nothing is put back yet.
    pub(crate) fn apply(
        &mut self,
        plan: &Plan,
        before: &IndexFile,
        along: Along<'_>,
        control: &Control,
    ) -> Result<(), WriteError> {
        control.check().map_err(GitError::from)?;
        let (repo, scope, head) = (self.repo, self.scope, self.head.clone());
        let Some(Open { room, journal, stage: Some(stage), applied }) = self.open.as_mut() else {
            return Err(WriteError::Over);
        };
        let rooms: Vec<PathBuf> = stage.rooms().paths().map(std::path::Path::to_owned).collect();
        let mut staged = stage.paths();
        staged.push(room.path().to_owned());
        let sides = || rooms.iter().map(PathBuf::as_path).chain([room.path()]);
        self.syncer.settle(&staged, sides())?;
        crash::point("staged-synced");
        let places = Places::open(repo.work_dir(), &rooms)?;
        let mut record = swap::record(plan, stage, &places)?;
        record.branch.clone_from(&head.branch);
        record.index = scope != Scope::Files;
        record.carried = along.carried.iter().map(|(git_dir, name)| (text(git_dir), name.clone())).collect();
        if let Some(base) = along.base {
            record.base = Some(BaseRecord { commit: base.base.to_string(), text: base.text()? });
        }
        // A ref that stays where it is can't tell what happened; the journal does then.
        if let Some(moving) = along.moving.filter(|moving| Some(moving.to) != head.id) {
            record.moves = Some(Move {
                name: head.branch.clone().unwrap_or_else(|| "HEAD".to_owned()),
                old: head.id.map(|id| id.to_string()),
                new: moving.to.to_string(),
                reflog: reflog_line(head.id, moving.to, &moving.who.committer, moving.message),
                logs: repo.reflogs_of(&head)?.iter().map(|log| text(log)).collect(),
            });
        }
        let record = Record::Apply(Box::new(record));
        self.syncer.timed(|| journal.write(&record))?;
        crash::point("apply-recorded");
        let Record::Apply(record) = record else { return Err(WriteError::Over) };
        let (record, places) = applied.insert((*record, places));
        swap::carry_out(plan, record, places, control)?;
        crash::point("swapped");
        if scope != Scope::Files {
            let items = along.staged.unwrap_or(&plan.index);
            let bytes = index::after(stage, &places.root, before, plan, items);
            let (new, old) = (room.index(), repo.place().index_path());
            let written = fs::write(&new, bytes).and_then(|()| match fs::metadata(&old) {
                Ok(meta) => fs::set_permissions(&new, meta.permissions()),
                Err(_) => Ok(()),
            });
            written.map_err(GitError::io("cannot write", &new))?;
        }
        crash::point("index-written");
        if let Some(moves) = &record.moves {
            prepare(&room.moving_ref(), id_of(&moves.new)?)?;
            for log in &moves.logs {
                append_reflog(&super::room::from_text(log), &moves.reflog)?;
            }
        }
        crash::point("reflog-written");
        Ok(())
    }

    /// The commit point, and what comes after it. An error before it puts everything back; after it
    /// the landing has succeeded, whatever the aftermath says. `forget` removes what the new base entry
    /// makes superfluous and returns refs that go with it.
    pub(crate) fn commit(
        &mut self,
        forget: impl FnOnce() -> Result<Vec<String>, GitError>,
        control: &Control,
    ) -> Result<Aftermath, WriteError> {
        let repo = self.repo;
        let Some(Open { room, journal, applied: Some((apply, places)), .. }) = self.open.as_mut() else {
            return Err(WriteError::Over);
        };
        let mut paths = swap::touched(apply, places);
        // The rooms name the old files; without them there is no way back.
        paths.extend(places.rooms.iter().map(|room| room.path().to_owned()));
        paths.extend([room.path().to_owned(), repo.git_dir().to_owned()]);
        if apply.index {
            paths.push(room.index());
        }
        paths.extend(apply.moves.iter().flat_map(|moves| &moves.logs).map(|log| super::room::from_text(log)));
        self.syncer.settle(&paths, [repo.work_dir(), repo.git_dir()])?;
        control.check().map_err(GitError::from)?;
        crash::point("synced");
        let mut warnings = Vec::new();
        match &apply.moves {
            Some(moves) => {
                let target = repo.ref_path(&moves.name);
                install(&room.moving_ref(), &target)?;
                let above = target.parent().unwrap_or(&target).to_owned();
                if let Err(error) = self.syncer.settle(&[above], []) {
                    warnings.push(error.to_string());
                }
            }
            None => self.syncer.timed(|| journal.write(&Record::Committed))?,
        }
        crash::point("ref-moved");
        let Some(Open { room, journal, applied: Some((apply, places)), .. }) = self.open.take() else {
            return Err(WriteError::Over);
        };
        let rooms = places.rooms.iter().map(|room| room.path().to_owned()).collect();
        let place = crate::git::show(room.path());
        let ending = Ending { repo, room, rooms, journal, apply: &apply };
        let mut after = ending.forward(&places, forget, &mut self.syncer).unwrap_or_else(|error| {
            let unfinished = format!("the work has landed, but {error}; isofold recover finishes it ({place})");
            Aftermath { warnings: vec![unfinished], ..Aftermath::default() }
        });
        after.warnings.extend(warnings);
        Ok(after)
    }

    /// [`Self::apply`] and [`Self::commit`] in one, with nothing to forget; on an error everything is put
    /// back.
    pub(crate) fn finish(
        mut self,
        plan: &Plan,
        before: &IndexFile,
        along: Along<'_>,
        control: &Control,
    ) -> Result<Aftermath, WriteError> {
        self.apply(plan, before, along, control)?;
        self.commit(|| Ok(Vec::new()), control)
    }

    /// Puts everything back as it was.
    pub(crate) fn abort(mut self) -> Result<Aftermath, WriteError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<Aftermath, WriteError> {
        let Some(Open { room, journal, stage, applied }) = self.open.take() else {
            return Ok(Aftermath::default());
        };
        let repo = self.repo;
        let rooms = stage.iter().flat_map(|stage| stage.rooms().paths().map(std::path::Path::to_owned)).collect();
        let Some((apply, places)) = applied else {
            let named = super::recover::rooms_in(&room.journal());
            let warnings = room.clear(repo, &named, &[]);
            return Ok(Aftermath { warnings, ..Aftermath::default() });
        };
        let place = room.path().to_owned();
        let ending = Ending { repo, room, rooms, journal, apply: &apply };
        ending.back(&places, &mut self.syncer).map_err(|error| WriteError::NotPutBack { place, why: error.to_string() })
    }
}

fn id_of(text: &str) -> Result<Oid, GitError> {
    Oid::from_str(text).map_err(|_| GitError::Format { what: "an id in a journal".to_owned() })
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.put_back() {
            tracing::error!(%error, "a landing could not be taken back");
        }
    }
}
