//! The claim of a target's name, and the decision, by its journal, where to begin. The name is claimed before
//! the first byte is fetched, so that an unwritable target fails at once.

use super::{FileOptions, FileTarget, Names, OPEN_END, Zeros, reserve};
use crate::journal::{self, Before, Conversion, Journal, Mark, Mode, Resume, begin_anew, decide_resume};
use crate::size::Human;
use crate::target::disk::{Claimed, Folder, ForeignFile, Handle, Replaced};
use crate::target::real_folder::RealFolder;
use crate::target::refuse;
use crate::target::sync_guard::SyncGuard;
use crate::{Error, ErrorKind, Result};
use container_disk::write_behind::WriteBehind;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// Time without a write after which no run is taken to write a file that cannot be locked.
const LEFT_ALONE: Duration = Duration::from_secs(60);

/// A claimed target name: examined, and locked against a second run. Nothing has been changed.
pub struct Claim {
    folder: Arc<dyn Folder>,
    names: Names,
    tidy: Tidy,
    file: Arc<dyn Handle>,
    replaced: Option<Replaced>,
    created: bool,
    is_locked: bool,
}

/// A target that is ready for data.
pub struct Started<T = FileTarget> {
    /// The target of the data.
    pub target: T,
    /// The journal of the marks.
    pub journal: Journal,
    /// The mark to continue from; `None` is the beginning.
    pub mark: Option<Mark>,
    /// The reason why an earlier run was dropped, if one was.
    pub anew: Option<String>,
}

/// Removes an empty `.partial` after a claim that was dropped, or a start that failed.
struct Tidy {
    folder: Arc<dyn Folder>,
    partial: OsString,
    file: Arc<dyn Handle>,
    armed: bool,
}

impl Claim {
    /// Refuses a name that cannot become a disk: a link, a folder, a device, a file that is in use, a name
    /// that another run is writing, a place without write permission; with [`Mode::Always`] also another
    /// user's `.partial`.
    pub fn take(path: &Path, mode: Mode) -> Result<Self> {
        let (folder, name) = split(path)?;
        let folder = RealFolder::open(folder)?;
        let replaced = refuse::existing(&folder, name, path)?;
        let foreign = if mode == Mode::Always { ForeignFile::Refuse } else { ForeignFile::Replace };
        Claim::of(Arc::new(folder), name, replaced, foreign)
    }

    pub(super) fn of(
        folder: Arc<dyn Folder>,
        name: &OsStr,
        replaced: Option<Replaced>,
        foreign: ForeignFile,
    ) -> Result<Self> {
        let names = Names::of(name);
        let Claimed { file, created, is_locked } = folder.claim(&names.partial, foreign)?;
        let (partial, armed) = (names.partial.clone(), created);
        let tidy = Tidy { folder: folder.clone(), partial, file: file.clone(), armed };
        Ok(Claim { folder, names, tidy, file, replaced, created, is_locked })
    }

    /// Continues the earlier run if that is safe and requested, or starts anew.
    pub fn start(self, options: FileOptions, job: &Conversion, mode: Mode) -> Result<Started> {
        self.refuse_recent()?;
        let partial = self.file.identity().map_err(|e| self.failed("cannot examine", e))?;
        let before = if self.created {
            Before::Nothing
        } else {
            Journal::read(&*self.folder, &self.names.journal, &partial)?
        };
        let doubt = self.file.doubt().map_err(|e| self.failed("cannot examine", e))?;
        let decision = decide_resume(&before, job, mode, doubt.as_deref());
        match self.check_length(decision, options.size, mode)? {
            Resume::Go(mark) => {
                // Data behind the mark is written again, and must not meet pages that an earlier run could
                // not write.
                self.file.drop_cache();
                let journal = Journal::reopen(self.folder.clone(), &self.names.journal, &partial)?;
                let target = self.go_on(options)?;
                Ok(Started { target, journal, mark: Some(mark), anew: None })
            }
            Resume::Anew(anew) => {
                let (target, tidy) = self.begin_anew(options)?;
                let partial = target.file.identity().map_err(|e| target.failed("cannot examine", e))?;
                let journal = Journal::create(target.folder.clone(), &target.names.journal, job, partial)?;
                tidy.disarm();
                // Both names must be durable before the first mark refers to them.
                target
                    .folder
                    .sync()
                    .map_err(|e| target.names.failed(&*target.folder, "cannot sync the folder of", e))?;
                Ok(Started { target, journal, mark: None, anew })
            }
            Resume::Refuse(why) => {
                let partial = self.folder.path(&self.names.partial);
                let what = format!(
                    "cannot go on with {}: {why}; nothing was changed: without --resume the run is begun anew",
                    partial.display()
                );
                Err(Error::new(ErrorKind::Usage, what))
            }
        }
    }

    /// Gives up a mark whose bytes were cut off since. A file of known size has all of it before its first mark, and any
    /// other file reaches the mark.
    fn check_length(&self, decision: Resume, size: Option<u64>, mode: Mode) -> Result<Resume> {
        let Resume::Go(mark) = decision else { return Ok(decision) };
        let len = self.file.len().map_err(|e| self.failed("cannot examine", e))?;
        let least = size.unwrap_or_else(|| mark.position.guest());
        if len >= least {
            return Ok(Resume::Go(mark));
        }
        let why = format!("its .partial has {len} bytes, and had at least {least} at the last mark");
        Ok(begin_anew(mode, why))
    }

    /// Starts anew, without a journal.
    pub fn start_anew(self, options: FileOptions) -> Result<FileTarget> {
        let (target, tidy) = self.begin_anew(options)?;
        tidy.disarm();
        Ok(target)
    }

    /// Makes the new file. It is removed again unless the caller disarms its guard: without a journal it is of no use.
    fn begin_anew(mut self, options: FileOptions) -> Result<(FileTarget, Tidy)> {
        self.refuse_recent()?;
        // The old marks must be gone durably before their data is dropped.
        journal::forget(&*self.folder, &self.names.journal).map_err(|e| {
            let journal = self.folder.path(&self.names.journal);
            Error::io(format!("cannot remove {}, which is in the way", journal.display()), e)
        })?;
        if !self.created {
            self.renew()?;
        }
        self.tidy.armed = true;
        self.ready(options, Zeros::Free)
    }

    /// Refuses a found file that another run may be writing. On a file system without locks nothing but the
    /// time of its last write shows that.
    fn refuse_recent(&self) -> Result<()> {
        if self.created || self.is_locked {
            return Ok(());
        }
        let age = self.file.age().map_err(|e| self.failed("cannot examine", e))?;
        if age >= LEFT_ALONE {
            return Ok(());
        }
        let partial = self.folder.path(&self.names.partial);
        let what = format!(
            "{} was written to {} seconds ago, and its file system has no locks to tell if another run is writing it: \
             give the same command again when it has been left alone for {} seconds, or remove it if no run is",
            partial.display(),
            age.as_secs(),
            LEFT_ALONE.as_secs()
        );
        Err(Error::failed(what))
    }

    /// Creates a new file in place of the existing one, which stays locked until the new one is.
    fn renew(&mut self) -> Result<()> {
        let partial = &self.names.partial;
        self.file.remove(partial).map_err(|e| self.failed("cannot remove", e))?;
        let Claimed { file, created, .. } = self.folder.claim(partial, ForeignFile::Refuse)?;
        if !created {
            let what = format!("{} is being made by another process", self.folder.path(partial).display());
            return Err(Error::failed(what));
        }
        (self.tidy.file, self.file, self.created) = (file.clone(), file, true);
        Ok(())
    }

    fn go_on(self, options: FileOptions) -> Result<FileTarget> {
        let (target, tidy) = self.ready(options, Zeros::Made)?;
        tidy.disarm();
        Ok(target)
    }

    fn ready(self, options: FileOptions, zeros: Zeros) -> Result<(FileTarget, Tidy)> {
        self.make_room(options)?;
        let Claim { folder, names, tidy, file, replaced, .. } = self;
        let size = AtomicU64::new(options.size.unwrap_or(OPEN_END));
        let there = file.len().map_err(|e| names.failed(&*folder, "cannot examine", e))?;
        let behind = {
            let file = file.clone();
            WriteBehind::new(move || file.write_out())
        };
        let target = FileTarget {
            folder,
            names,
            file,
            replaced,
            zeros,
            preallocate: options.preallocate,
            size,
            is_measured: AtomicBool::new(false),
            end: AtomicU64::new(there),
            growing: RwLock::new(()),
            behind,
            syncs: SyncGuard::default(),
        };
        Ok((target, tidy))
    }

    /// Checks the free space, sets the length, reserves blocks.
    fn make_room(&self, options: FileOptions) -> Result<()> {
        let path = self.folder.path(&self.names.target);
        let has = self.file.allocated().map_err(|e| self.failed("cannot examine", e))?;
        let needed =
            if options.preallocate { options.size.unwrap_or(0).max(options.needed) } else { options.needed };
        let needed = needed.saturating_sub(has);
        // Some network file systems do not report it; then a write will fail.
        let free = self.folder.free().unwrap_or(u64::MAX);
        if needed > free {
            let what = format!(
                "the file system of {} has {} free and the disk needs {} ({needed} bytes): make room or choose \
                 another place",
                path.display(),
                Human(free),
                Human(needed),
            );
            return Err(Error::failed(what).because(io::Error::from(io::ErrorKind::StorageFull)));
        }
        let Some(size) = options.size else { return Ok(()) };
        self.file.set_len(size).map_err(|e| {
            let what = format!(
                "the file system of {} cannot hold a file of {} ({size} bytes)",
                path.display(),
                Human(size)
            );
            Error::failed(what).because(e)
        })?;
        if options.preallocate { reserve(&*self.file, size, &path) } else { Ok(()) }
    }

    fn failed(&self, what: &str, e: io::Error) -> Error {
        self.names.failed(&*self.folder, what, e)
    }
}

/// Removes the files of an ended run beside `path`, if continuing makes no sense (the input was refused).
/// Refused while a run is writing them. `identity`: that of the file which the run has written; another one of
/// its name is left as it is.
pub fn discard(path: &Path, identity: Option<&str>) -> Result<()> {
    let (folder, name) = split(path)?;
    let folder = RealFolder::open(folder)?;
    discard_in(Arc::new(folder), name, identity)
}

pub(super) fn discard_in(folder: Arc<dyn Folder>, name: &OsStr, identity: Option<&str>) -> Result<()> {
    let names = Names::of(name);
    let found = folder.open(&names.partial).and_then(|file| file.map(|file| file.identity()).transpose());
    let found = found.map_err(|e| names.failed(&*folder, "cannot examine", e))?;
    if identity.is_some_and(|own| found.as_deref() != Some(own)) {
        let partial = folder.path(&names.partial);
        return Err(Error::failed(format!("{} is not this run's any more", partial.display())));
    }
    let claim = Claim::of(folder, name, None, ForeignFile::Replace)?;
    journal::forget(&*claim.folder, &claim.names.journal)
        .map_err(|e| claim.failed("cannot remove the journal of", e))?;
    claim.file.remove(&claim.names.partial).map_err(|e| claim.failed("cannot remove", e))?;
    Ok(())
}

impl Tidy {
    /// Leaves the file where it is: it is of use from now on.
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Tidy {
    fn drop(&mut self) {
        if self.armed
            && let Err(e) = self.file.remove(&self.partial)
        {
            tracing::warn!("{} is left behind: {e}", self.folder.path(&self.partial).display());
        }
    }
}

/// The folder and the name in it.
fn split(path: &Path) -> Result<(&Path, &OsStr)> {
    use std::os::unix::ffi::OsStrExt;
    let folder_named = path.as_os_str().as_bytes().ends_with(b"/");
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if !folder_named => Ok((folder, name)),
        _ => Err(Error::new(
            ErrorKind::Usage,
            format!("the target {:?} does not name a file", path.display().to_string()),
        )),
    }
}
