//! A target file: written as `NAME.partial`, and renamed only when it is complete and durable.
//!
//! ```text
//!  Claim::take (claim.rs) ──► examine NAME (refuse.rs), lock NAME.partial; nothing is changed yet
//!      │ start(job, mode): read NAME.partial.journal, may it be followed?
//!      ├── yes ─► the .partial as it is, the mark to continue from
//!      └── no ──► journal removed durably, a new .partial, a new journal
//!  FileTarget ──► write, zero, sync (Journal::mark) ──► finish: length, fsync, publish, fsync of the folder, no journal
//! ```
//!
//! Zeros are holes. An empty `.partial` has nothing but holes, so a zero range costs nothing. In one that is
//! continued the range is punched, because it may hold data from behind the last mark. With `preallocate` all
//! blocks are reserved first (they read as zeros) and stay reserved. A run passes each range of a disk once,
//! as data or as zeros.
//!
//! A complete disk replaces the file that had its name when the name was claimed, and no other file
//! (`storage::publish`). If another program has taken the name in the meantime, or uses or has changed the
//! file (a VM), the disk stays in its `.partial`. If a user has removed the `.partial`, the run fails, also if
//! the next run has created one of that name: each run renames and removes its own open file alone
//! ([`Handle`]). A disk that is begun anew is written into a new file, since another program may have the old
//! one open.
//!
//! The new disk takes over the mode of the file it replaces and, if permitted, the owner, but only if no
//! other user can have put the file there (`refuse.rs`); access lists and extended attributes are not carried
//! over. Only this user can read the `.partial` until it is complete and durable. The names `NAME.partial`,
//! `NAME.partial.journal` and `NAME.partial.journal~` are reserved: files of these names are overwritten, and
//! another user's file is replaced, unless a process is writing it.

mod claim;

pub use claim::{Claim, Started, discard};

use super::disk::{Folder, Handle, Replaced};
use super::sync_guard::SyncGuard;
use super::{Finished, Order, Target};
use crate::journal::{self, Mode};
use crate::size::Human;
use crate::{Detail, Error, Result};
use container_disk::write_behind::WriteBehind;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// The size that stands for "not set". No file can be this long.
const OPEN_END: u64 = u64::MAX;

/// Options of a file target.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileOptions {
    /// The disk's size, if it is known before the data; otherwise [`Target::set_size`] sets it at the end.
    pub size: Option<u64>,
    /// Bytes of data that the plan expects; a full file system is refused at once. 0: not known.
    pub needed: u64,
    /// Reserve blocks for the whole disk.
    pub preallocate: bool,
}

/// A file being written.
pub struct FileTarget {
    folder: Arc<dyn Folder>,
    names: Names,
    file: Arc<dyn Handle>,
    /// The file under the final name, until the disk is complete.
    replaced: Option<Replaced>,
    zeros: Zeros,
    preallocate: bool,
    size: AtomicU64,
    /// True if the size was set at the end of the disk.
    is_measured: AtomicBool,
    /// The end of the furthest range that was written or zeroed.
    end: AtomicU64,
    /// Read lock for every write; write lock to extend the file, so that this never truncates a concurrent
    /// write.
    growing: RwLock<()>,
    behind: WriteBehind,
    syncs: SyncGuard,
}

struct Names {
    target: OsString,
    partial: OsString,
    journal: OsString,
}

/// The content of a range that was never written, which decides the cost of zeroing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Zeros {
    /// Zeros: nothing to do.
    Free,
    /// Possibly data of an earlier run.
    Made,
}

impl FileTarget {
    /// A new file without a journal: claim and start in one step.
    pub fn create(path: &Path, options: FileOptions) -> Result<Self> {
        Claim::take(path, Mode::Never)?.start_anew(options)
    }

    /// Bytes of data written by this run.
    pub fn written(&self) -> u64 {
        self.behind.written()
    }

    /// The `.partial` that stays when the run ends early, for the message on how to continue.
    pub fn partial(&self) -> PathBuf {
        self.folder.path(&self.names.partial)
    }

    fn failed(&self, what: &str, e: io::Error) -> Error {
        self.names.failed(&*self.folder, what, e)
    }

    /// The ID of the file that is written, by which it can be told from another one of its name.
    pub fn identity(&self) -> Result<String> {
        self.file.identity().map_err(|e| self.failed("cannot examine", e))
    }

    /// The error for a complete disk that could not be renamed.
    fn not_published(&self, e: io::Error) -> Error {
        let (partial, target) = (self.partial(), self.folder.path(&self.names.target));
        let (partial, target) = (partial.display(), target.display());
        if e.kind() == io::ErrorKind::NotFound {
            return Error::failed(format!(
                "{partial} was removed or replaced by another run, and the bytes of this one are lost: {target} is left \
                 as it was; give the same command again, which begins anew"
            ))
            .of_lost_data();
        }
        if e.kind() == io::ErrorKind::AlreadyExists {
            let how = if self.replaced.is_some() { "changed or replaced" } else { "made" };
            return Error::failed(format!(
                "{target} was {how} by another program while this run was going on, and is left as it is; the disk is \
                 whole in {partial}: rename that, or give the same command again, which replaces {target}"
            ))
            .of_a_whole_disk();
        }
        if e.kind() == io::ErrorKind::ResourceBusy {
            return Error::failed(format!(
                "{target} came into use while this run was going on, and is left as it is; the disk is whole in {partial}: \
                 rename that, or give the same command again when {target} is free"
            ))
            .because(e)
            .of_a_whole_disk();
        }
        Error::io(format!("the disk is whole, but cannot be renamed from {partial} to {target}"), e)
            .of_a_whole_disk()
    }

    /// The error for a complete, durable disk whose name may be lost with the power.
    fn name_not_durable(&self, e: io::Error) -> Error {
        let target = self.folder.path(&self.names.target);
        let target = target.display();
        Error::io(
            format!("{target} is whole, but its name may be lost with the power: cannot sync its folder"),
            e,
        )
        .of_a_whole_disk()
    }

    fn sync_all(&self) -> Result<()> {
        self.syncs.run(|| self.file.sync_all()).map_err(|e| self.write_failed("sync", e))
    }

    /// Checks a range against the size, and records the end of the disk.
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

    /// `doing`: "write 5 bytes at offset 7 of".
    fn write_failed(&self, doing: &str, e: io::Error) -> Error {
        if is_full(&e) {
            let free = self.folder.free().unwrap_or(0);
            let what = format!(
                "the disk is full: {} of {} are written and {} are free in its file system; make room there",
                Human(self.written()),
                self.partial().display(),
                Human(free),
            );
            return Error::failed(what).because(e);
        }
        self.failed(&format!("cannot {doing}"), e)
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
        let written = self.file.write_at(data, guest);
        written.map_err(|e| self.write_failed(&format!("write {len} bytes at offset {guest} of"), e))?;
        self.behind.count(len);
        Ok(())
    }

    fn zero(&self, guest: u64, len: u64) -> Result<()> {
        self.reach(guest, len)?;
        match self.zeros {
            Zeros::Free => Ok(()),
            Zeros::Made => {
                let zeroed = self.file.zero(guest, len, self.preallocate);
                zeroed.map_err(|e| self.write_failed(&format!("zero {len} bytes at offset {guest} of"), e))
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
        self.is_measured.store(known == OPEN_END, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        // A file must be extended to the disk's end also if that is a hole: a later run, or the one that compares what was
        // written, knows only the file. One whose size was known before has its length.
        let size = self.size.load(Ordering::Relaxed);
        if size == OPEN_END || self.is_measured.load(Ordering::Relaxed) {
            let _alone = self.growing.write();
            let end = if size == OPEN_END { self.end.load(Ordering::Relaxed) } else { size };
            let grown =
                self.file.len().and_then(|len| if len < end { self.file.set_len(end) } else { Ok(()) });
            grown.map_err(|e| self.failed("cannot set the length of", e))?;
        }
        self.syncs.run(|| self.file.sync()).map_err(|e| self.write_failed("sync", e))
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        let size = match self.size.load(Ordering::Relaxed) {
            OPEN_END => self.end.load(Ordering::Relaxed),
            size => size,
        };
        self.file.set_len(size).map_err(|e| self.failed("cannot set the length of", e))?;
        if self.preallocate {
            // A size that was known before is reserved already; then this does nothing.
            reserve(&*self.file, size, &self.folder.path(&self.names.target))?;
        }
        // Twice: the first sync may take long for a large disk, and until it is done only this user has
        // access, so that a run that is stopped meanwhile can be continued. The second sync only writes mode
        // and owner.
        self.sync_all()?;
        let kept = self.replaced.as_ref().and_then(|replaced| replaced.kept.as_ref());
        self.file.take_after(kept).map_err(|e| self.failed("cannot set the mode of", e))?;
        self.sync_all()?;
        let over = self.replaced.as_ref().map(|replaced| &replaced.standing);
        let published = self.file.publish(&self.names.partial, &self.names.target, over);
        published.map_err(|e| self.not_published(e))?;
        self.folder.sync().map_err(|e| self.name_not_durable(e))?;
        // The disk is complete. A journal that stays is for a .partial that is gone, and is never followed. One
        // of another file is that of the next run, which has begun already.
        let removed = self.file.identity();
        let removed = removed.and_then(|id| journal::remove_of(&*self.folder, &self.names.journal, &id));
        if let Err(e) = removed {
            tracing::warn!("{} is left behind: {e}", self.folder.path(&self.names.journal).display());
        }
        Ok(Finished { allocated: self.file.allocated().unwrap_or(0) })
    }
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
    Error::refused(what).with_detail(Detail::Behind { size })
}

fn is_full(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod crash;
#[cfg(test)]
mod foreign_files;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod unwritable;
