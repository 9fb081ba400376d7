//! A file: written as `NAME.partial`, under its own name only when it is whole and durable.
//!
//! ```text
//!  Claim::take ──► examine NAME (refuse.rs), lock NAME.partial; nothing is changed yet
//!      │ start(job, mode): read NAME.partial.journal, may it be followed?
//!      ├── yes ─► the .partial as it is, the mark to go on from
//!      └── no ──► journal removed and that made durable, .partial emptied, a new journal
//!  FileTarget ──► write, zero, sync (Journal::mark) ──► finish: length, fsync, rename, fsync of the folder, no journal
//! ```
//!
//! Zeros are holes: an empty `.partial` has nothing but holes, so a zero range costs nothing; in one that is gone on
//! with, the range is punched, because it may hold what was written after the last mark. With `preallocate` all blocks
//! are reserved first (they read as zeros) and stay reserved.
//!
//! A file that is replaced keeps its mode and, where we may, its owner; access lists and extended attributes it had
//! are not carried over. `NAME.partial`, `NAME.partial.journal` and `NAME.partial.journal~` are ours: whatever has
//! these names is overwritten.

use super::disk::{Folder, Handle, Kept};
use super::real::RealFolder;
use super::refuse;
use super::{Finished, Order, Target};
use crate::journal::{self, Before, Job, Journal, Mark, Mode, Resume, may_resume};
use crate::size::Human;
use crate::{Error, Kind, Result};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// How often the system is told to begin to write out: often enough that the last sync is short, seldom enough to let
/// it write long runs (measured: 8 MiB against nothing is 0.6 s against 0.85 s for a GiB on ext4).
const WRITE_BEHIND: u64 = 8 << 20;
/// No size is set yet. No file can be this long.
const OPEN_END: u64 = u64::MAX;

/// What is known and wanted of a file target.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileOptions {
    /// The disk's size, where it is known before the data; else [`Target::set_size`] tells it at the end.
    pub size: Option<u64>,
    /// Bytes of data the plan expects; a disk that cannot hold them is refused at once. 0: not known.
    pub needed: u64,
    /// Reserve blocks for the whole disk.
    pub preallocate: bool,
}

/// A target name that is ours: examined, and locked against a second run. Nothing has been changed.
pub struct Claim {
    folder: Arc<dyn Folder>,
    names: Names,
    file: Box<dyn Handle>,
    kept: Option<Kept>,
    created: bool,
}

/// A file target that is ready for data.
pub struct Started {
    /// Where the data goes.
    pub target: FileTarget,
    /// Where the marks go.
    pub journal: Journal,
    /// Where to go on; `None` is the beginning.
    pub mark: Option<Mark>,
    /// Why an earlier run was thrown away, if one was.
    pub anew: Option<String>,
}

/// A file being written.
pub struct FileTarget {
    folder: Arc<dyn Folder>,
    names: Names,
    file: Box<dyn Handle>,
    zeros: Zeros,
    preallocate: bool,
    size: AtomicU64,
    /// The furthest byte that was written or zeroed.
    end: AtomicU64,
    /// Held by every write; taken alone where the file is made longer, so that this never cuts what is just written.
    growing: RwLock<()>,
    written: AtomicU64,
}

struct Names {
    target: OsString,
    partial: OsString,
    journal: OsString,
}

/// What a range that was never written reads as, and so what a zero range costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zeros {
    /// Zeros: nothing to do.
    Free,
    /// Perhaps data of an earlier run.
    Made,
}

impl Claim {
    /// Refuses what cannot become a disk: a link, a folder, a device, a file that is in use, a name that another run
    /// is writing, a place without write permission.
    pub fn take(path: &Path) -> Result<Self> {
        let (folder, name) = split(path)?;
        let folder = RealFolder::open(folder)?;
        let kept = refuse::existing(&folder, name, path)?;
        Claim::of(Arc::new(folder), name, kept)
    }

    pub(super) fn of(folder: Arc<dyn Folder>, name: &OsStr, kept: Option<Kept>) -> Result<Self> {
        let names = Names::of(name);
        let claimed = folder.claim(&names.partial)?;
        Ok(Claim { folder, names, file: claimed.file, kept, created: claimed.created })
    }

    /// Goes on with the earlier run where that is safe and wanted, or starts anew.
    pub fn start(self, options: FileOptions, job: &Job, mode: Mode) -> Result<Started> {
        let partial = self.file.identity().map_err(|e| self.failed("cannot examine", e))?;
        let before = if self.created {
            Before::Nothing
        } else {
            Journal::read(&*self.folder, &self.names.journal, &partial)?
        };
        match may_resume(&before, job, mode) {
            Resume::Go(mark) => {
                let journal = Journal::reopen(self.folder.clone(), &self.names.journal, &partial)?;
                let target = self.go_on(options)?;
                Ok(Started { target, journal, mark: Some(mark), anew: None })
            }
            Resume::Anew(anew) => {
                let target = self.start_anew(options)?;
                let journal = Journal::create(target.folder.clone(), &target.names.journal, job, partial)?;
                // Both names must be durable before the first mark speaks of them.
                target
                    .folder
                    .sync()
                    .map_err(|e| target.names.failed(&*target.folder, "cannot sync the folder of", e))?;
                Ok(Started { target, journal, mark: None, anew })
            }
            Resume::Refuse(why) => {
                self.give_back();
                let path = self.folder.path(&self.names.target);
                let what =
                    format!("cannot go on with {}: {why}; run it without --resume", path.display());
                Err(Error::new(Kind::Usage, what))
            }
        }
    }

    /// Starts anew, without a journal.
    pub fn start_anew(self, options: FileOptions) -> Result<FileTarget> {
        // The old journal's marks must be gone for good before the data they speak of goes.
        let cleared = journal::remove(&*self.folder, &self.names.journal).and_then(|was_there| {
            if was_there {
                self.folder.sync()?;
            }
            self.file.set_len(0)
        });
        cleared.map_err(|e| self.failed("cannot empty", e))?;
        self.ready(options, Zeros::Free)
    }

    fn go_on(self, options: FileOptions) -> Result<FileTarget> {
        self.ready(options, Zeros::Made)
    }

    fn ready(self, options: FileOptions, zeros: Zeros) -> Result<FileTarget> {
        if let Err(e) = self.make_room(options) {
            // What an earlier run left is worth something only if it was there.
            if zeros == Zeros::Free {
                self.give_up();
            }
            return Err(e);
        }
        if let Some(kept) = &self.kept {
            self.file.take_after(kept).map_err(|e| self.failed("cannot set the mode of", e))?;
        }
        let Claim { folder, names, file, .. } = self;
        let size = AtomicU64::new(options.size.unwrap_or(OPEN_END));
        let there = file.len().map_err(|e| names.failed(&*folder, "cannot examine", e))?;
        Ok(FileTarget {
            folder,
            names,
            file,
            zeros,
            preallocate: options.preallocate,
            size,
            end: AtomicU64::new(there),
            growing: RwLock::new(()),
            written: AtomicU64::new(0),
        })
    }

    /// Checks the free space, sets the length, reserves.
    fn make_room(&self, options: FileOptions) -> Result<()> {
        let path = self.folder.path(&self.names.target);
        let has = self.file.allocated().map_err(|e| self.failed("cannot examine", e))?;
        let needed =
            if options.preallocate { options.size.unwrap_or(0).max(options.needed) } else { options.needed };
        let needed = needed.saturating_sub(has);
        // Some network file systems do not tell; the write will.
        let free = self.folder.free().unwrap_or(u64::MAX);
        if needed > free {
            let what = format!(
                "the file system of {} has {} free and the disk needs {} ({needed} bytes): make room or choose \
                 another place",
                path.display(),
                Human(free),
                Human(needed),
            );
            return Err(Error::failed(what));
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

    /// Leaves no `.partial` that was not there before.
    fn give_back(&self) {
        if self.created {
            self.give_up();
        }
    }

    fn give_up(&self) {
        if let Err(e) = self.folder.remove(&self.names.partial) {
            tracing::warn!("{} is left behind: {e}", self.folder.path(&self.names.partial).display());
        }
    }

    fn failed(&self, what: &str, e: io::Error) -> Error {
        self.names.failed(&*self.folder, what, e)
    }
}

impl FileTarget {
    /// A new file without a journal: claim and start in one step.
    pub fn create(path: &Path, options: FileOptions) -> Result<Self> {
        Claim::take(path)?.start_anew(options)
    }

    /// Bytes of data written by this run.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The `.partial` that stays behind when the run ends early, for the message that says how to go on.
    pub fn partial(&self) -> PathBuf {
        self.folder.path(&self.names.partial)
    }

    fn failed(&self, what: &str, e: io::Error) -> Error {
        self.names.failed(&*self.folder, what, e)
    }

    /// Checks a range against the size, and notes how far the disk reaches.
    fn reach(&self, guest: u64, len: u64) -> Result<()> {
        let size = self.size.load(Ordering::Relaxed);
        match guest.checked_add(len).filter(|&end| end <= size) {
            Some(end) => {
                self.end.fetch_max(end, Ordering::Relaxed);
                Ok(())
            }
            None => Err(outside(guest, len, size)),
        }
    }

    fn write_failed(&self, guest: u64, len: usize, e: io::Error) -> Error {
        if is_full(&e) {
            let free = self.folder.free().unwrap_or(0);
            let what = format!(
                "the disk is full: {} of {} are written and {} are free in its file system; make room there and run \
                 the same command again",
                Human(self.written()),
                self.partial().display(),
                Human(free),
            );
            return Error::failed(what).because(e);
        }
        Error::io(format!("cannot write {len} bytes at offset {guest} of {}", self.partial().display()), e)
    }
}

impl Target for FileTarget {
    fn order(&self) -> Order {
        Order::Any
    }

    fn write(&self, guest: u64, data: &[u8]) -> Result<()> {
        let len = data.len() as u64;
        let _growing = self.growing.read();
        self.reach(guest, len)?;
        self.file.write_at(data, guest).map_err(|e| self.write_failed(guest, data.len(), e))?;
        let before = self.written.fetch_add(len, Ordering::Relaxed);
        if before / WRITE_BEHIND != (before + len) / WRITE_BEHIND {
            self.file.start_writeback();
        }
        Ok(())
    }

    fn zero(&self, guest: u64, len: u64) -> Result<()> {
        self.reach(guest, len)?;
        match self.zeros {
            Zeros::Free => Ok(()),
            Zeros::Made => {
                let zeroed = self.file.zero(guest, len, self.preallocate);
                zeroed.map_err(|e| self.write_failed(guest, 0, e))
            }
        }
    }

    fn set_size(&self, size: u64) -> Result<()> {
        let (end, known) = (self.end.load(Ordering::Relaxed), self.size.load(Ordering::Relaxed));
        if known != OPEN_END && known != size {
            let what = format!("the disk was announced with {known} bytes and turned out to have {size}");
            return Err(Error::refused(what));
        }
        if end > size {
            return Err(outside(end, 0, size));
        }
        self.size.store(size, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        // A file that grows must reach as far as the disk does also where that ends in a hole: a run that goes on from
        // here knows only the file.
        if self.size.load(Ordering::Relaxed) == OPEN_END {
            let _alone = self.growing.write();
            let end = self.end.load(Ordering::Relaxed);
            let grown =
                self.file.len().and_then(|len| if len < end { self.file.set_len(end) } else { Ok(()) });
            grown.map_err(|e| self.failed("cannot set the length of", e))?;
        }
        self.file.sync().map_err(|e| self.write_failed(0, 0, e))
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        let size = match self.size.load(Ordering::Relaxed) {
            OPEN_END => self.end.load(Ordering::Relaxed),
            size => size,
        };
        self.file.set_len(size).map_err(|e| self.failed("cannot set the length of", e))?;
        if self.preallocate {
            // A size that was known before is reserved already, and this finds nothing to do.
            reserve(&*self.file, size, &self.folder.path(&self.names.target))?;
        }
        self.file.sync_all().map_err(|e| self.write_failed(0, 0, e))?;
        self.folder.rename(&self.names.partial, &self.names.target).map_err(|e| {
            let target = self.folder.path(&self.names.target);
            Error::io(
                format!(
                    "the disk is whole, but cannot be renamed from {} to {}",
                    self.partial().display(),
                    target.display()
                ),
                e,
            )
        })?;
        self.folder.sync().map_err(|e| self.failed("cannot sync the folder of", e))?;
        // The disk is done. A journal that stays behind speaks of a .partial that is gone, and nobody follows it.
        if let Err(e) = journal::remove(&*self.folder, &self.names.journal) {
            tracing::warn!("{} is left behind: {e}", self.folder.path(&self.names.journal).display());
        }
        Ok(Finished { allocated: self.file.allocated().unwrap_or(0) })
    }
}

/// Removes what an ended run left beside `path`, where going on makes no sense (the input was refused). Refused while
/// a run is writing it.
pub fn discard(path: &Path) -> Result<()> {
    let (folder, name) = split(path)?;
    let folder = RealFolder::open(folder)?;
    discard_in(Arc::new(folder), name)
}

fn discard_in(folder: Arc<dyn Folder>, name: &OsStr) -> Result<()> {
    let claim = Claim::of(folder, name, None)?;
    journal::remove(&*claim.folder, &claim.names.journal)
        .map_err(|e| claim.failed("cannot remove the journal of", e))?;
    claim.folder.remove(&claim.names.partial).map_err(|e| claim.failed("cannot remove", e))?;
    Ok(())
}

impl Names {
    fn of(target: &OsStr) -> Self {
        let with = |end: &str| {
            let mut name = target.to_owned();
            name.push(end);
            name
        };
        Names { target: target.to_owned(), partial: with(".partial"), journal: with(".partial.journal") }
    }

    fn failed(&self, folder: &dyn Folder, what: &str, e: io::Error) -> Error {
        Error::io(format!("{what} {}", folder.path(&self.partial).display()), e)
    }
}

/// The folder and the name in it.
fn split(path: &Path) -> Result<(&Path, &OsStr)> {
    use std::os::unix::ffi::OsStrExt;
    let folder_named = path.as_os_str().as_bytes().ends_with(b"/");
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if !folder_named => Ok((folder, name)),
        _ => Err(Error::new(
            Kind::Usage,
            format!("the target {:?} does not name a file", path.display().to_string()),
        )),
    }
}

fn reserve(file: &dyn Handle, size: u64, path: &Path) -> Result<()> {
    file.reserve(size).map_err(|e| {
        let advice = if e.kind() == io::ErrorKind::Unsupported { "; leave out --preallocate" } else { "" };
        let what = format!("cannot reserve {} ({size} bytes) for {}{advice}", Human(size), path.display());
        Error::failed(what).because(e)
    })
}

fn outside(guest: u64, len: u64, size: u64) -> Error {
    let what =
        format!("the image puts {len} bytes at offset {guest} of the disk, which has only {size} bytes");
    Error::refused(what)
}

fn is_full(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod crash;
#[cfg(test)]
mod tests;
