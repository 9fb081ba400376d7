//! Files on their way to a final name.
//!
//! ```text
//!  ingest/PID-N      new, held by a lock ──write──► fsync ──rename──► blobs/sha256/HEX ──fsync of the folder
//!  ingest/part-HEX   a half blob that a later process goes on with        (store only)
//! ```
//!
//! A file here belongs to whoever holds its lock (flock; it ends with the process). One that nobody holds is what a
//! process left that was killed: [`clear`] removes it.

use super::folder::Folder;
use super::lock::{Keeps, Locked};
use crate::{Error, ErrorKind, Result};
use std::io;
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

    /// Makes it durable, and gives it its final name, durably.
    pub(crate) fn rename(mut self, to: &Folder, name: &str) -> Result<()> {
        let synced = self.file.sync_all();
        synced.map_err(|e| Error::io(format!("cannot make {} durable", self.path()), e))?;
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
