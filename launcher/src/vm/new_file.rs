//! A new disk in a file of the host: sparse, begun as `NAME.partial`, and named when it has its size, since a
//! shorter one would be the guest's disk at the next start.
//!
//! A conversion begins its target under the same name, and so each leaves alone what the other has there:
//!
//! | found `NAME.partial` | |
//! |---|---|
//! | locked, or attached to a loop device | refused: another process fills or uses it |
//! | not a plain file | refused |
//! | holds data | refused: it may be a whole disk, or one whose conversion can go on |
//! | holds none | removed with its journal; the disk is another file, since its creator may have it open |

use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, SeekFrom, flock, openat, seek, unlinkat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use storage::publish::{publish, sync_folder};
use storage::{file_in_use, own_file};

/// Mode of a new disk, less the umask.
const MODE: Mode = Mode::from_raw_mode(0o644);
/// Most retries if other processes make and remove the file.
const TRIES: usize = 100;
/// Ends of the names of a conversion's record of what it has written.
const JOURNALS: [&str; 2] = [".journal", ".journal~"];

/// Creates a sparse file. An existing file is not replaced.
pub(super) fn create(path: &Path, size: u64) -> Result<()> {
    let cannot = |e: std::io::Error| Error::io(format!("cannot make {}", path.display()), e);
    let name = path.file_name().ok_or_else(|| cannot(Errno::INVAL.into()))?;
    let unfinished = UnfinishedFile::new(path, name)?;
    let made = unfinished.file.set_len(size).and_then(|()| unfinished.file.sync_all());
    let named = made.and_then(|()| {
        publish(&unfinished.name.folder, &unfinished.file, &unfinished.name.partial, name, None)
    });
    if let Err(e) = named {
        let partial = &unfinished.name;
        if let Err(e) = own_file::remove(&partial.folder, &partial.partial, &unfinished.file) {
            tracing::warn!("{} is left behind: {e}", partial.shown());
        }
        return Err(cannot(e));
    }
    sync_folder(&unfinished.name.folder).map_err(|e| cannot(e.into()))
}

/// The unfinished file, which is locked while it is open.
struct UnfinishedFile<'a> {
    file: File,
    name: PartialName<'a>,
}

impl<'a> UnfinishedFile<'a> {
    fn new(path: &'a Path, name: &OsStr) -> Result<UnfinishedFile<'a>> {
        let partial = PartialName::new(path, name)?;
        for _ in 0..TRIES {
            if let Some(file) = partial.begin()? {
                return Ok(UnfinishedFile { file, name: partial });
            }
        }
        Err(Error::new(
            ErrorKind::Failed,
            format!("{} is repeatedly made and removed by other processes", partial.shown()),
        ))
    }
}

/// The folder and the name of the unfinished file.
struct PartialName<'a> {
    path: &'a Path,
    folder: OwnedFd,
    partial: OsString,
}

impl<'a> PartialName<'a> {
    fn new(path: &'a Path, name: &OsStr) -> Result<PartialName<'a>> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, folder, flags, Mode::empty())
            .map_err(|e| Error::io(format!("cannot open the folder {}", folder.display()), e))?;
        let mut partial = name.to_owned();
        partial.push(".partial");
        Ok(PartialName { path, folder, partial })
    }

    fn shown(&self) -> String {
        self.path.with_file_name(&self.partial).display().to_string()
    }

    /// Creates the unfinished file; `None` if its name was taken, and may be free now.
    fn begin(&self) -> Result<Option<File>> {
        let file = match self.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL) {
            Ok(file) => file,
            Err(Errno::EXIST) => return self.clear().map(|()| None),
            Err(e) => return Err(self.failed("make", e)),
        };
        // Another process takes it for a leftover. Without locks on its file system a file that was just created is ours all the same.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Ok(None);
        }
        let is_named = own_file::leads_to(&self.folder, &self.partial, &file);
        Ok(is_named.map_err(|e| self.failed("examine", e))?.then_some(file))
    }

    /// Removes a file that is in the way, if no process uses it and it holds nothing.
    fn clear(&self) -> Result<()> {
        let found = match self.open(OFlags::RDWR) {
            Err(Errno::ACCESS) => self.open(OFlags::RDONLY),
            other => other,
        };
        let file = match found {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(self.not_a_file()),
            Err(e) => return Err(self.failed("open", e)),
        };
        if !file.metadata().map_err(|e| self.failed("examine", e))?.is_file() {
            return Err(self.not_a_file());
        }
        if let Some(how) = file_in_use(&file).map_err(|e| self.failed("examine", e))? {
            return Err(self.busy(&how));
        }
        // A file system without locks answers with another error.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(self.busy("it is locked by another process"));
        }
        // Another process may have finished it before it was locked: now it is that one's disk.
        if !own_file::leads_to(&self.folder, &self.partial, &file).map_err(|e| self.failed("examine", e))? {
            return Ok(());
        }
        if holds_data(&file) {
            return Err(Error::refused(format!(
                "{} holds data of a disk that was not finished: rename that file if it is whole, run the conversion \
                 or the import again, or remove the file",
                self.shown()
            )));
        }
        self.forget_journal().map_err(|e| self.failed("remove the journal of", e))?;
        own_file::remove(&self.folder, &self.partial, &file).map_err(|e| self.failed("remove", e))?;
        Ok(())
    }

    /// Removes the marks of a conversion durably, before their file goes.
    fn forget_journal(&self) -> rustix::io::Result<()> {
        for end in JOURNALS {
            let mut name = self.partial.clone();
            name.push(end);
            match unlinkat(&self.folder, &name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => return Err(e),
            }
        }
        sync_folder(&self.folder)
    }

    /// Opens the name itself. A planted pipe does not block.
    fn open(&self, flags: OFlags) -> rustix::io::Result<File> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        openat(&self.folder, &self.partial, flags, MODE).map(File::from)
    }

    fn not_a_file(&self) -> Error {
        Error::refused(format!("{} is in the way and is not a plain file; remove it", self.shown()))
    }

    fn busy(&self, how: &str) -> Error {
        let what = format!("{} is in use: {how}; wait for that process, or stop it", self.shown());
        Error::new(ErrorKind::Busy, what)
    }

    fn failed(&self, what: &str, e: impl Into<std::io::Error>) -> Error {
        Error::io(format!("cannot {what} {}", self.shown()), e)
    }
}

/// True if the file has data. (If that is unknown, it may have.)
fn holds_data(file: &File) -> bool {
    seek(file, SeekFrom::Data(0)) != Err(Errno::NXIO)
}
