//! Files on their way to a final name.
//!
//! ```text
//!  ingest/PID-N      new, held by a lock ──write──► fsync ──rename──► blobs/sha256/HEX ──fsync of the folder
//!  ingest/part-HEX   a half blob that a later process goes on with        (store only)
//! ```
//!
//! A file here belongs to whoever holds its lock (flock; it ends with the process). One that nobody holds is what a
//! process left that was killed: [`clear`] removes it.
//!
//! Linux reports a write-back error once, and the page cache keeps what the disk never got. So a file whose sync failed is
//! removed, and a half blob is judged by the bytes that come back from the disk ([`Temp::settle`]).

use super::folder::Folder;
use super::lock::{Keeps, Locked};
use crate::behind::write_out;
use crate::{Error, ErrorKind, Result};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// The folder of such files.
pub(crate) const INGEST: &str = "ingest";
/// How the names of half blobs begin.
pub(crate) const PART: &str = "part-";

/// A file without its final name. Dropped, it is removed, unless it is to be kept.
pub(crate) struct Temp {
    folder: Folder,
    name: String,
    pub(crate) file: Locked,
    keep: bool,
}

impl Temp {
    /// A new file in the ingest folder of `top`.
    pub(crate) fn new(top: &Folder) -> Result<Temp> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        for _ in 0..1000 {
            let name = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
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
            // Between the two calls another process may have taken it for one that nobody holds.
            if temp.is_there()? {
                temp.keep = false;
                return Ok(temp);
            }
        }
        Err(Error::failed(format!("{} has no room for a new file", top.path().join(INGEST).display())))
    }

    /// The half file of that name, or a new one; `None` while another process is at it. One that others may write to
    /// is not gone on with: they could change it after its digest was right.
    pub(crate) fn half(top: &Folder, name: String) -> Result<Option<Temp>> {
        let folder = top.make_sub(INGEST)?;
        let Some(file) = folder.own_file(&name)? else { return Ok(None) };
        Ok(Some(Temp { folder, name, file, keep: true }))
    }

    /// For messages.
    pub(crate) fn path(&self) -> String {
        self.folder.shown(&self.name)
    }

    /// It is not to be kept.
    pub(crate) fn spoil(&mut self) {
        self.keep = false;
    }

    /// Makes what an earlier attempt has left durable, and opens it for a reading that comes from the disk. How many bytes
    /// it has.
    pub(crate) fn settle(&self) -> Result<(u64, FromDisk<'_>)> {
        let cannot = |e| Error::io(format!("cannot go on with {}", self.path()), e);
        self.file.sync_all().map_err(cannot)?;
        // Synced pages leave the cache, so that later readers see what the disk holds, too.
        write_out(&*self.file);
        Ok((self.file.metadata().map_err(cannot)?.len(), FromDisk::of(&self.file)))
    }

    /// Makes it durable, and gives it its final name, durably. A file that could not be made durable is not kept: the next
    /// sync would succeed, and its bytes be read from the page cache.
    pub(crate) fn rename(mut self, to: &Folder, name: &str) -> Result<()> {
        if let Err(e) = self.file.sync_all() {
            self.spoil();
            return Err(Error::io(format!("cannot make {} durable", self.path()), e));
        }
        self.folder.rename(&self.name, to, name)?;
        self.keep = true;
        Ok(())
    }

    /// Whether its name still leads to it.
    fn is_there(&self) -> Result<bool> {
        self.folder.leads_to(&self.name, &self.file)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.keep
            && let Err(e) = self.folder.remove(&self.name)
        {
            tracing::warn!("{e}; the next prune removes it");
        }
    }
}

/// A reading of a file past the page cache, where its file system permits that.
pub(crate) struct FromDisk<'a> {
    file: &'a File,
    /// The flags of the file before, while it is read directly.
    before: Option<OFlags>,
    room: Vec<u8>,
}

impl<'a> FromDisk<'a> {
    /// Bytes that are read at once. A multiple of the blocks of all devices, as is every offset.
    const PIECE: usize = 256 << 10;
    /// Alignment in memory that all devices accept.
    const ALIGNED: usize = 4096;

    fn of(file: &'a File) -> FromDisk<'a> {
        let before = fcntl_getfl(file).ok();
        let before = before.filter(|flags| fcntl_setfl(file, *flags | OFlags::DIRECT).is_ok());
        FromDisk { file, before, room: vec![0; Self::PIECE + Self::ALIGNED] }
    }

    /// The bytes from `at` on, a piece at most; `at` is the end of the piece before.
    pub(crate) fn piece(&mut self, at: u64) -> io::Result<&[u8]> {
        let begin = self.room.as_ptr().align_offset(Self::ALIGNED).min(Self::ALIGNED);
        let room = begin..begin + Self::PIECE;
        let mut n = 0;
        while n < Self::PIECE {
            match self.file.read_at(&mut self.room[room.start + n..room.end], at + n as u64) {
                Ok(0) => break,
                Ok(more) => n += more,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // A file system that takes the flag and cannot read so, or an end that is not that of a block.
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
            tracing::debug!("a file stays open for direct reads: {e}");
        }
    }
}

impl Drop for FromDisk<'_> {
    fn drop(&mut self) {
        self.undo();
    }
}

/// Removes what nobody holds; half blobs only when asked to. How many bytes that were.
pub(crate) fn clear(top: &Folder, half_blobs_too: bool) -> Result<u64> {
    let Some(folder) = top.sub(INGEST)? else { return Ok(0) };
    let mut freed = 0;
    for name in folder.names()? {
        if name.starts_with(PART) && !half_blobs_too {
            continue;
        }
        let Some((file, size)) = folder.file(&name)? else { continue };
        let locked = Locked::at_once(file, Keeps::All).map_err(|e| cannot_lock(&folder, &name, e))?;
        if let Some(file) = locked
            && folder.leads_to(&name, &file)?
            && folder.remove(&name)?
        {
            freed += size;
        }
    }
    Ok(freed)
}

fn cannot_lock(folder: &Folder, name: &str, e: io::Error) -> Error {
    Error::io(format!("cannot lock {}", folder.shown(name)), e)
}
