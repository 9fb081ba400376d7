//! An ISO image as a file: written under a temporary name, flushed to disk, renamed. Only the owner may read
//! it.

use super::{Seed, iso};
use crate::error::{Error, Result};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes the ISO image to `path`, replacing an existing one.
pub fn write(seed: &Seed, path: &Path, seconds: u64) -> Result<()> {
    let partial = partial(path);
    let written = write_partial(seed, &partial, seconds).and_then(|()| {
        let cannot = |e| Error::io(format!("cannot rename {} to {}", partial.display(), path.display()), e);
        fs::rename(&partial, path).map_err(cannot)
    });
    if written.is_err() {
        // The file may hold secrets, and no later run looks for it. A failure to remove it matters less than
        // the failure above.
        let _ = fs::remove_file(&partial);
        return written;
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| Error::io(format!("cannot sync the folder of {}", path.display()), e))
}

fn write_partial(seed: &Seed, partial: &Path, seconds: u64) -> Result<()> {
    // A leftover of an earlier run. The file must be new, so that its mode is right and it is not a link.
    match fs::remove_file(partial) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io(format!("cannot remove {}, which is in the way", partial.display()), e));
        }
        _ => {}
    }
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(partial)
        .map_err(|e| Error::io(format!("cannot make {}", partial.display()), e))?;
    let mut out = BufWriter::with_capacity(256 << 10, NamedFile { file, path: partial });
    iso::write(&seed.files, &seed.label, seconds, &mut out)?;
    let cannot = |e| Error::io("cannot write the ISO image", e);
    out.flush().map_err(cannot)?;
    out.get_ref().file.sync_all().map_err(|e| Error::io(format!("cannot write {}", partial.display()), e))
}

fn partial(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    name.into()
}

/// A file with its path in its errors.
struct NamedFile<'a> {
    file: File,
    path: &'a Path,
}

impl NamedFile<'_> {
    fn with_path(&self, e: &io::Error) -> io::Error {
        io::Error::new(e.kind(), format!("{}: {e}", self.path.display()))
    }
}

impl Write for NamedFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|e| self.with_path(&e))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|e| self.with_path(&e))
    }
}
