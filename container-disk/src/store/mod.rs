//! `store:NAME[:TAG]`: the user's own images, shared by all commands and processes of that user.
//!
//! ```text
//!  STORE/                 an OCI image layout (layout/); a name in its index is NAME:TAG
//!  STORE/ingest/coracle-… unfinished file              removed by the next open, if its process is gone
//!  STORE/ingest/part-…    partial blob                 resumed by the next pull, or removed by prune
//!  STORE/lock             shared: reads and writes     exclusive: prune
//! ```
//!
//! | component | lock | purpose |
//! |---|---|---|
//! | an open [`Store`] | the store's lock, shared | no blob that it uses is removed |
//! | [`prune()`] | the store's lock, exclusive | no blob is removed that another process is about to name |
//! | a change of the index | the folder's own lock, for a moment | no change is lost |
//! | an unfinished file | its own lock | other processes can tell it from a leftover one |
//!
//! A store is refused if every user may write to one of its folders or to the folder `coracle` (or that of `CORACLE_HOME`) above it, like
//! the folder for VMs, because any user could then choose the images in it ([`guard::folder`]). Such a mode
//! may have been corrected since. So a folder, a blob, the index or the lock is also refused if it belongs
//! neither to the store's owner, nor to root, nor to the user of this process (`layout/owner.rs`). A new
//! store is accessible to its owner alone (0700, its lock 0600), since a user who can open the lock can hold
//! it and block all others. A store that an older version created with mode 0755 keeps it and stays readable
//! for others. Its lock is closed to them by the next command that writes to the store.
//!
//! All of these locks end with their process. So a kill or a power failure at any moment leaves complete
//! images under their names, and at most files that the next open or prune removes.
//! images under their names, and at most files that the next open or prune removes.

mod home;
mod list;
mod prune;
#[cfg(test)]
mod tests;

pub use home::{default_folder, folder, relative_home};
pub use list::{Listed, ListedFacts};
pub use prune::{Pruned, prune};

use crate::layout::folder::Folder;
use crate::layout::lock::{Keeps, Locked};
use crate::layout::{self, Layout, index};
use crate::manifest::{Descriptor, Document};
use crate::place::{Blob, BlobWriter, Place, Reference, Sink, SinkLock};
use crate::reference::Local;
use crate::{Digest, Error, ErrorKind, Result};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

const LOCK: &str = "lock";

/// An open store. As a place and as a sink its tags are `NAME:TAG` (see [`Local::reference`]).
pub struct Store {
    layout: Layout,
    /// The lock. Released when the store is dropped.
    _shared: Locked,
}

impl Store {
    /// Opens the store in a folder, and creates it if it does not exist. Blocks while another process prunes.
    pub fn open(path: &Path) -> Result<Store> {
        closed(path)?;
        // Before the lock, which changes the folder.
        layout::is_layout(&Folder::create_owned(path)?)?;
        let shared = share(lock_file(path)?, path)?;
        let layout = Layout::create_as(path, "the store".to_owned(), true)?;
        Ok(Store { layout, _shared: shared })
    }

    /// Opens an existing store for reading. Nothing is created or removed, so a confined program without
    /// write access can do it.
    pub fn read(path: &Path) -> Result<Store> {
        closed(path)?;
        let Some((lock, _)) = existing(path)?.trusted_file(LOCK)? else { return Err(none(path)) };
        let shared = share(lock, path)?;
        Ok(Store { layout: Layout::open_as(path, "the store".to_owned(), true)?, _shared: shared })
    }

    /// All named images, sorted by name.
    pub fn list(&self) -> Result<Vec<Listed>> {
        list::list(&self.layout)
    }

    /// All names (`NAME:TAG`), without a look at their images.
    pub fn names(&self) -> Result<Vec<String>> {
        self.layout.tags()
    }

    /// Adds the name `to` to the image with the name `from`.
    pub fn tag(&self, from: &Local, to: &Local) -> Result<()> {
        index::change(&self.layout.top, |index| index.copy(self.name(), &from.to_string(), &to.to_string()))
    }

    /// Removes a name. The next prune removes the bytes if no other name needs them.
    pub fn untag(&self, name: &Local) -> Result<()> {
        let tag = name.to_string();
        if index::change(&self.layout.top, |index| Ok(index.remove(&tag)))? {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!("the store has no image {tag:?}; `coracle images` lists what it has"),
        ))
    }

    /// Number of bytes of a blob in the store: all, or those of a partial blob, which [`Sink::resume`]
    /// continues.
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

    fn document(&self, reference: &Reference) -> Result<Document> {
        self.layout.document(reference)
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

    fn lock(&self) -> Result<SinkLock> {
        self.layout.lock()
    }

    fn as_place(&self) -> Option<&dyn Place> {
        Some(self)
    }
}

/// Creates the folder of a store if it does not exist.
pub fn make(path: &Path) -> Result<()> {
    closed(path)?;
    Folder::create_owned(path).map(drop)
}

/// The folder of a store that exists.
fn existing(path: &Path) -> Result<Folder> {
    Folder::open_owned(path).map_err(|e| if e.kind() == ErrorKind::NotFound { none(path) } else { e })
}

fn none(path: &Path) -> Error {
    let what = format!("there is no store in {}; `pull` and `build` make one", path.display());
    Error::new(ErrorKind::NotFound, what)
}

fn closed(path: &Path) -> Result<()> {
    let mut above = home::above(path).into_iter();
    let open = above.try_for_each(|above| guard::folder::refuse_shared(&above));
    let open = open.and_then(|()| layout::closed(path));
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
