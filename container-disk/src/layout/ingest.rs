//! Files that are being written and have no final name yet.
//!
//! ```text
//!  ingest/coracle-PID-N   new, held by a lock ──write──► fsync ──rename──► blobs/sha256/HEX ──fsync of the folder
//!  ingest/part-HEX        a partial blob that a later process resumes          (store only)
//! ```
//!
//! A file of such a name belongs to the process that holds its lock (flock), which ends with the process. A
//! file without a lock is left over from a killed process, and [`clear`] removes it. Other programs use a
//! folder `ingest`, too: their files stay.
//!
//! Linux reports a write-back error once, and the page cache keeps bytes that the disk never received. So a
//! file whose sync failed is removed, and a partial blob is verified by the bytes that the disk returns
//! ([`Temp::settle`]).

use super::folder::Folder;
use super::lock::{Keeps, Locked};
use crate::write_behind::write_out;
use crate::{Error, ErrorKind, Result};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// The folder of unfinished files.
pub(crate) const INGEST: &str = "ingest";
/// Prefix of the names of new files.
const OWN: &str = "coracle-";
/// Prefix of the names of partial blobs.
pub(crate) const PART: &str = "part-";

/// A file without its final name. Dropping it removes the file, unless it is kept for a later process.
pub(crate) struct Temp {
    folder: Folder,
    name: String,
    pub(crate) file: Locked,
    keep: bool,
}

impl Temp {
    /// Creates a file in the ingest folder of `top`.
    pub(crate) fn new(top: &Folder) -> Result<Temp> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        for _ in 0..1000 {
            let name = format!("{OWN}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
            let folder = top.make_sub(INGEST)?;
            let file = match folder.new_file(&name) {
                Ok(Some(file)) => file,
                Ok(None) => continue,
                // Another process has just removed the empty folder.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let file = Locked::wait(file, Keeps::All, "clears up here")
                .map_err(|e| cannot_lock(&folder, &name, e))?;
            let mut temp = Temp { folder, name, file, keep: true };
            // Another process may have found the file unlocked between the two calls, and removed it as a
            // leftover.
            if temp.is_there()? {
                temp.keep = false;
                return Ok(temp);
            }
        }
        Err(Error::failed(format!(
            "{} has no free name for a new file; remove leftover files there",
            top.path().join(INGEST).display()
        )))
    }

    /// Opens or creates the partial file `name`. `None` while another process writes it. A file that other
    /// users can write to is replaced, since they could change it after its digest was verified.
    pub(crate) fn half(top: &Folder, name: String) -> Result<Option<Temp>> {
        let folder = top.make_sub(INGEST)?;
        let Some(file) = folder.own_file(&name)? else { return Ok(None) };
        Ok(Some(Temp { folder, name, file, keep: true }))
    }

    /// The path, for messages.
    pub(crate) fn path(&self) -> String {
        self.folder.shown(&self.name)
    }

    /// Marks the file for removal.
    pub(crate) fn spoil(&mut self) {
        self.keep = false;
    }

    /// Syncs the bytes of an earlier attempt, and opens the file for reading from the disk instead of the
    /// page cache. Returns the number of bytes too.
    pub(crate) fn settle(&self) -> Result<(u64, FromDisk<'_>)> {
        let cannot = |e| Error::io(format!("cannot resume {}", self.path()), e);
        self.file.sync_all().map_err(cannot)?;
        // Synced pages leave the cache, so that later readers also see the bytes that the disk holds.
        write_out(&*self.file);
        Ok((self.file.metadata().map_err(cannot)?.len(), FromDisk::of(&self.file)))
    }

    /// Syncs the file, renames it to its final name, and syncs the folder. After a failed sync the file is
    /// removed: the next sync would succeed, and its bytes would be read from the page cache.
    pub(crate) fn rename(mut self, to: &Folder, name: &str) -> Result<()> {
        if let Err(e) = self.file.sync_all() {
            self.spoil();
            return Err(Error::io(format!("cannot make {} durable", self.path()), e));
        }
        self.folder.rename(&self.file, &self.name, to, name)?;
        self.keep = true;
        Ok(())
    }

    /// True if the name still refers to this file.
    fn is_there(&self) -> Result<bool> {
        self.folder.leads_to(&self.name, &self.file)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.keep
            && let Err(e) = self.folder.remove_own(&self.name, &self.file)
        {
            tracing::warn!("{e}; the next prune removes it");
        }
    }
}

/// A reader that bypasses the page cache, if the file system supports direct I/O.
pub(crate) struct FromDisk<'a> {
    file: &'a File,
    /// The file's flags before direct I/O was switched on. `None` if it is off.
    before: Option<OFlags>,
    room: Vec<u8>,
}

impl<'a> FromDisk<'a> {
    /// Bytes of one read. A multiple of the block size of all devices, as is every offset.
    const PIECE: usize = 256 << 10;
    /// Alignment in memory that all devices accept.
    const ALIGNED: usize = 4096;

    fn of(file: &'a File) -> FromDisk<'a> {
        let before = fcntl_getfl(file).ok();
        let before = before.filter(|flags| fcntl_setfl(file, *flags | OFlags::DIRECT).is_ok());
        FromDisk { file, before, room: vec![0; Self::PIECE + Self::ALIGNED] }
    }

    /// Reads up to one piece from `at`, which must be the end of the previous piece.
    pub(crate) fn piece(&mut self, at: u64) -> io::Result<&[u8]> {
        let begin = self.room.as_ptr().align_offset(Self::ALIGNED).min(Self::ALIGNED);
        let room = begin..begin + Self::PIECE;
        let mut n = 0;
        while n < Self::PIECE {
            match self.file.read_at(&mut self.room[room.start + n..room.end], at + n as u64) {
                Ok(0) => break,
                Ok(more) => n += more,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // The file system accepts the flag and rejects the read, or the file ends inside a block.
                Err(e) if Errno::from_io_error(&e) == Some(Errno::INVAL) && self.before.is_some() => {
                    self.undo()
                }
                Err(e) => return Err(e),
            }
        }
        Ok(&self.room[room.start..room.start + n])
    }

    fn undo(&mut self) {
        if let Some(before) = self.before.take()
            && let Err(e) = fcntl_setfl(self.file, before)
        {
            tracing::debug!("cannot switch off direct I/O for a partial blob: {e}");
        }
    }
}

impl Drop for FromDisk<'_> {
    fn drop(&mut self) {
        self.undo();
    }
}

/// The files that [`clear`] removes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leftovers {
    /// Unfinished files, by names that no other program gives.
    Own,
    /// Unfinished files of older versions too, whose names are two numbers. Only a store may be cleared of them.
    OfStore,
    /// Partial blobs too.
    WithPartial,
}

/// Removes files of ours without a lock. Returns the number of bytes that were freed.
pub(crate) fn clear(top: &Folder, which: Leftovers) -> Result<u64> {
    let Some(folder) = top.sub(INGEST)? else { return Ok(0) };
    let mut freed = 0;
    for name in folder.names()? {
        let is_cleared = is_own(&name)
            || which >= Leftovers::OfStore && is_pair(&name)
            || which >= Leftovers::WithPartial && name.starts_with(PART);
        if !is_cleared {
            continue;
        }
        let Some((file, size)) = folder.file(&name)? else { continue };
        let locked = Locked::at_once(file, Keeps::All).map_err(|e| cannot_lock(&folder, &name, e))?;
        if let Some(file) = locked
            && folder.remove_own(&name, &file)?
        {
            freed += size;
        }
    }
    Ok(freed)
}

/// True for the names of [`Temp::new`]. A file of another name in a layout is its owner's.
pub(crate) fn is_own(name: &str) -> bool {
    name.strip_prefix(OWN).is_some_and(is_pair)
}

/// True for two numbers with a hyphen.
fn is_pair(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('-').is_some_and(|(process, count)| is_number(process) && is_number(count))
}

fn cannot_lock(folder: &Folder, name: &str, e: io::Error) -> Error {
    Error::io(format!("cannot lock {}", folder.shown(name)), e)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn top() -> (tempfile::TempDir, Folder) {
        let at = tempfile::tempdir().unwrap();
        let top = Folder::open(at.path()).unwrap();
        (at, top)
    }

    #[test]
    fn only_files_of_our_own_names_are_cleared() {
        let (at, top) = top();
        fs::create_dir(at.path().join(INGEST)).unwrap();
        let kept =
            ["notes.txt", "2024-plan", "1-2-3", "-1", "1-", "coracle-1", "coracle-x-1", "part-sha256-00"];
        for name in kept.iter().chain(&["1-1", "4711-20", "coracle-4711-20"]) {
            fs::write(at.path().join(INGEST).join(name), "12345").unwrap();
        }
        assert_eq!(clear(&top, Leftovers::Own).unwrap(), 5);
        assert_eq!(clear(&top, Leftovers::OfStore).unwrap(), 10);
        for name in kept {
            assert!(at.path().join(INGEST).join(name).exists(), "{name}");
        }
        assert_eq!(clear(&top, Leftovers::WithPartial).unwrap(), 5);
        assert_eq!(fs::read_dir(at.path().join(INGEST)).unwrap().count(), kept.len() - 1);
    }

    #[test]
    fn a_file_that_another_process_put_there_is_neither_renamed_nor_removed() {
        let (at, top) = top();
        for is_kept in [true, false] {
            let temp = Temp::new(&top).unwrap();
            let path = at.path().join(INGEST).join(&temp.name);
            fs::remove_file(&path).unwrap();
            fs::write(&path, "another one's").unwrap();
            if is_kept {
                let e = temp.rename(&top, "blob").unwrap_err();
                assert!(e.to_string().contains("removed or replaced by another run"), "{e}");
            } else {
                drop(temp);
            }
            assert_eq!(fs::read(&path).unwrap(), b"another one's");
            assert!(!at.path().join("blob").exists());
        }
    }
}
