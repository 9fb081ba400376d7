//! The open disk of a clone: its bytes as a qcow2, and checks of its version.

use super::version;
use cdi::source::{FileSource, Source as _, SparseFile};
use cdi::{Error, Result};
use disk_format::ReadAt as _;
use disk_format::qcow2::write::View;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The disk, which is opened anew when it changed.
pub(super) struct Disk {
    path: PathBuf,
    is_shared: bool,
    opened: Mutex<Arc<Opened>>,
}

impl Disk {
    /// Opens the disk. `is_shared`: several nodes may write to it.
    pub(super) fn open(path: PathBuf, is_shared: bool) -> Result<Disk> {
        let opened = Mutex::new(Arc::new(Opened::open(&path, is_shared)?));
        Ok(Disk { path, is_shared, opened })
    }

    /// The present version of the disk. Blocks.
    pub(super) fn now(&self) -> Result<Arc<Opened>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = opened.unchanged() {
            tracing::warn!("the disk is opened anew: {}", printable::line(&e.chain()));
            *opened = Arc::new(Opened::open(&self.path, self.is_shared)?);
        }
        Ok(Arc::clone(&opened))
    }
}

/// One version of the disk.
pub(super) struct Opened {
    path: PathBuf,
    is_shared: bool,
    source: FileSource,
    view: View<SparseFile>,
    version: String,
    etag: String,
}

impl Opened {
    fn open(path: &Path, is_shared: bool) -> Result<Opened> {
        let source = FileSource::open_itself(path)?;
        let disk = source
            .sparse()
            .ok_or_else(|| Error::refused(format!("{} is a pipe, not a disk", path.display())))?;
        let version = version::of(path, &source, is_shared)?;
        let etag = format!("\"{}\"", version::digest(&version));
        Ok(Opened { path: path.to_owned(), is_shared, source, view: View::new(disk)?, version, etag })
    }

    /// Bytes of the qcow2.
    pub(super) fn size(&self) -> u64 {
        self.view.size()
    }

    pub(super) fn etag(&self) -> &str {
        &self.etag
    }

    /// Fills `buf`; an error if the disk changed before or during the read. Blocks.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.view.read_exact_at(buf, offset)?;
        self.unchanged().map_err(io::Error::other)
    }

    fn unchanged(&self) -> Result<()> {
        self.source.unchanged()?;
        // Another file may have taken its place, and a device has counters of other writes.
        if version::of(&self.path, &self.source, self.is_shared)? != self.version {
            return Err(Error::failed(format!("{} changed while it was served", self.path.display())));
        }
        Ok(())
    }
}
