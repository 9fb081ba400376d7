//! `store:NAME[:TAG]`: the user's own images, shared by all verbs and all processes of that user.
//!
//! ```text
//!  STORE/                an OCI image layout (layout/); a name in its index is NAME:TAG
//!  STORE/ingest/PID-N    on its way                    removed by the next open, if its process is gone
//!  STORE/ingest/part-…   half a blob                   gone on with by the next pull, or removed by prune
//!  STORE/lock            shared: reads and writes      exclusive: prune
//! ```
//!
//! | who | holds | so that |
//! |---|---|---|
//! | an open [`Store`] | the lock, shared | no blob that it has found or brought vanishes under it |
//! | [`prune()`] | the lock, exclusive | it sees every blob that somebody is about to name |
//! | a change of the index | the folder's own lock, for a moment | two changes do not lose one another |
//! | a file on its way | its own lock | another process can tell it from one left behind |
//!
//! Where anybody may write to one of its folders, or to the folder `coracle` above it, it is refused, as the folder for VMs
//! is: that person chooses the images in it ([`guard::folder`]). Such a mode may have been mended since, so a folder, a blob,
//! the index or the lock is refused, too, where it is neither of the store's owner, nor root's, nor our own
//! (`layout/owner.rs`). A new store is its owner's alone (0700, its lock 0600): whoever can open the lock can hold it, and
//! keep everybody else out. A store that a version before made 0755 stays so, and may be read by others; its lock is closed
//! to them by the next verb that writes to it.
//!
//! All of these locks end with their process. So a kill at any moment, a cut of the power included, leaves whole
//! images under their names, and at most files that the next open or prune removes.

mod home;
mod list;
mod prune;
#[cfg(test)]
mod tests;

pub use home::folder;
pub use list::{Listed, ListedFacts};
pub use prune::{Pruned, prune};

use crate::layout::folder::Folder;
use crate::layout::lock::{Keeps, Locked};
use crate::layout::{self, Layout, index};
use crate::manifest::{Descriptor, Document};
use crate::place::{Blob, BlobWriter, Place, Sink, Which};
use crate::reference::Local;
use crate::{Digest, Error, ErrorKind, Result};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

const LOCK: &str = "lock";

/// The store, open. As a place, and as a sink, its tags are `NAME:TAG` (see [`Local::which`]).
pub struct Store {
    layout: Layout,
    /// Given up when dropped.
    _shared: Locked,
}

impl Store {
    /// Opens the store in a folder; makes it where it does not exist. Waits while another process prunes.
    pub fn open(path: &Path) -> Result<Store> {
        closed(path)?;
        let shared = share(lock_file(path)?, path)?;
        let layout = Layout::create_as(path, "the store".to_owned(), true)?;
        Ok(Store { layout, _shared: shared })
    }

    /// Opens one that is there, to be read alone: nothing is made and nothing cleared away, so that a program which has
    /// given up every right to write there can do it.
    pub fn read(path: &Path) -> Result<Store> {
        let none = || {
            let what = format!("there is no store in {}; `pull` and `build` make one", path.display());
            Error::new(ErrorKind::NotFound, what)
        };
        closed(path)?;
        let lock = match Folder::open_owned(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Err(none()),
            folder => folder?.trusted_file(LOCK)?,
        };
        let Some((lock, _)) = lock else { return Err(none()) };
        let shared = share(lock, path)?;
        Ok(Store { layout: Layout::open_as(path, "the store".to_owned(), true)?, _shared: shared })
    }

    /// What has a name, sorted by name.
    pub fn list(&self) -> Result<Vec<Listed>> {
        list::list(&self.layout)
    }

    /// Whether something is called so (`NAME:TAG`).
    pub fn has_name(&self, tag: &str) -> Result<bool> {
        Ok(self.layout.tags()?.iter().any(|known| known == tag))
    }

    /// Gives what is called `from` the further name `to`.
    pub fn tag(&self, from: &Local, to: &Local) -> Result<()> {
        index::change(&self.layout.top, |index| index.copy(self.name(), &from.to_string(), &to.to_string()))
    }

    /// Takes a name away. The bytes go with the next prune, if no other name needs them.
    pub fn untag(&self, name: &Local) -> Result<()> {
        let tag = name.to_string();
        if index::change(&self.layout.top, |index| Ok(index.remove(&tag)))? {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!("the store has no image {tag:?}; `images` lists what it has"),
        ))
    }

    /// How many bytes of a blob are here: all, or those of a half one, which [`Sink::resume`] goes on with.
    pub fn partial(&self, digest: &Digest) -> Result<u64> {
        use crate::layout::{blobs, ingest};
        let whole = blobs::open(&self.layout.top, digest)?;
        if let Some((_, size)) = whole {
            return Ok(size);
        }
        let Some(folder) = self.layout.top.sub(ingest::INGEST)? else { return Ok(0) };
        Ok(folder.file(&blobs::half_name(digest))?.map_or(0, |(_, size)| size))
    }
}

impl Place for Store {
    fn name(&self) -> &str {
        self.layout.name()
    }

    fn document(&self, which: &Which) -> Result<Document> {
        self.layout.document(which)
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
        self.layout.blob(descriptor)
    }
}

impl Sink for Store {
    fn has(&self, descriptor: &Descriptor) -> Result<bool> {
        self.layout.has(descriptor)
    }

    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
        self.layout.begin(promised)
    }

    fn resume(&self, promised: &Descriptor) -> Result<(u64, Box<dyn BlobWriter + '_>)> {
        self.layout.resume(promised)
    }

    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()> {
        self.layout.put(document, tag)
    }

    fn as_place(&self) -> Option<&dyn Place> {
        Some(self)
    }
}

/// Makes the folder of a store, where it does not exist.
pub fn make(path: &Path) -> Result<()> {
    closed(path)?;
    Folder::create_owned(path).map(drop)
}

fn closed(path: &Path) -> Result<()> {
    let above = path.parent().filter(|above| above.ends_with("coracle"));
    let open = above.map_or(Ok(()), guard::folder::closed).and_then(|()| layout::closed(path));
    open.map_err(|open| {
        Error::failed(format!("the store {} cannot be used: {open}", path.display())).because(open)
    })
}

fn share(lock: File, path: &Path) -> Result<Locked> {
    let who = format!("prunes the store {}", path.display());
    Locked::wait(lock, Keeps::Exclusive, &who)
        .map_err(|e| Error::io(format!("cannot lock the store {}", path.display()), e))
}

fn lock_file(path: &Path) -> Result<File> {
    Folder::create_owned(path)?.make_lock(LOCK)
}
