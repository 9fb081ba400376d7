//! The disk of a clone, open: its bytes as a qcow2, and whether they are still those of the same version.

use super::version;
use cdi::source::{FileSource, Source as _, SparseFile};
use cdi::{Error, Result};
use disk_format::ReadAt as _;
use disk_format::qcow2::write::View;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// The disk, opened anew where it changed.
pub(super) struct Disk {
    path: PathBuf,
    opened: Mutex<Arc<Opened>>,
}

impl Disk {
    pub(super) fn open(path: PathBuf) -> Result<Disk> {
        let opened = Mutex::new(Arc::new(Opened::open(&path)?));
        Ok(Disk { path, opened })
    }

    /// The disk as it is now. Blocks.
    pub(super) fn now(&self) -> Result<Arc<Opened>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(e) = opened.unchanged() {
            tracing::warn!("the disk is opened anew: {}", printable::line(&e.chain()));
            *opened = Arc::new(Opened::open(&self.path)?);
        }
        Ok(Arc::clone(&opened))
    }
}

/// One version of the disk.
pub(super) struct Opened {
    path: PathBuf,
    source: FileSource,
    view: View<SparseFile>,
    version: String,
    etag: String,
}

impl Opened {
    fn open(path: &Path) -> Result<Opened> {
        let source = FileSource::open_itself(path)?;
        let disk = source
            .sparse()
            .ok_or_else(|| Error::refused(format!("{} is a pipe, not a disk", path.display())))?;
        let version = version::of(path, &source)?;
        let etag = format!("\"{}\"", version::digest(&version));
        Ok(Opened { path: path.to_owned(), source, view: View::new(disk)?, version, etag })
    }

    /// Bytes of what is shown.
    pub(super) fn size(&self) -> u64 {
        self.view.size()
    }

    pub(super) fn etag(&self) -> &str {
        &self.etag
    }

    /// Fills `buf`, where it is known that the disk did not change up to then. Blocks.
    pub(super) fn read(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.view.read_exact_at(buf, offset)?;
        self.unchanged().map_err(io::Error::other)
    }

    fn unchanged(&self) -> Result<()> {
        self.source.unchanged()?;
        // Another file may have come in its place, and a device tells of writes elsewhere.
        if version::of(&self.path, &self.source)? != self.version {
            return Err(Error::failed(format!("{} changed while it was served", self.path.display())));
        }
        Ok(())
    }
}
