//! A file or a block device by its path: read at any offset, with its holes known beforehand where the file
//! has some. A named pipe (`<(…)` of a shell) is read once, like standard input.

use super::once::Once;
use super::{Identity, Source, SourceFacts};
use crate::device::{self, DeviceVersion};
use crate::{Detail, Error, ErrorKind, Result};
use disk_format::ReadAt;
use disk_format::qcow2::write::Sparse;
use disk_format::read_at::FileAt;
use rustix::fs::{Advice, FileType, OFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use storage::{Access, QEMU_WRITES, Storage, is_locked};

/// A file, a block device or a named pipe.
#[derive(Debug)]
pub struct FileSource {
    facts: SourceFacts,
    from: From,
}

#[derive(Debug)]
enum From {
    File {
        file: Arc<File>,
        bytes: Arc<FileAt>,
        /// The version of a device when it was opened, if the kernel counts its writes.
        device: Option<DeviceVersion>,
    },
    /// A pipe; or the rest of a file, which is kept open.
    Pipe(Once, Option<File>),
}

impl FileSource {
    /// Opens a path for reading. A file that is in use is refused.
    pub fn open(path: &Path) -> Result<Self> {
        let source = FileSource::open_used(path)?;
        source.check_unused().map(|()| source)
    }

    /// Opens a path that may be in use: the caller calls [`Source::check_unused`].
    pub(super) fn open_used(path: &Path) -> Result<Self> {
        FileSource::open_with(path, OFlags::empty())
    }

    /// Opens a path that is not a symbolic link; a link is refused, and so is a file that is in use.
    pub fn open_itself(path: &Path) -> Result<Self> {
        let source = FileSource::open_with(path, OFlags::NOFOLLOW)?;
        source.check_unused().map(|()| source)
    }

    /// The size of a block device in bytes. It may be in use.
    pub fn size_of_device(path: &Path) -> Result<u64> {
        let cannot = |e: Errno| Error::io(format!("cannot examine {}", path.display()), e);
        rustix::fs::seek(open(path, OFlags::empty())?, SeekFrom::End(0)).map_err(cannot)
    }

    fn open_with(path: &Path, more: OFlags) -> Result<Self> {
        let file = open(path, more)?;
        if path.extension().is_some_and(|end| end == "partial") {
            hold(&file, path);
        }
        FileSource::of(file.into(), path.display().to_string())
    }

    /// An open descriptor, with its name for messages. Bytes before its present position are not part of the
    /// source, and it may be in use.
    pub(super) fn of(fd: OwnedFd, name: String) -> Result<Self> {
        let file = File::from(fd);
        let cannot = |e: io::Error| Error::io(format!("cannot examine {name}"), e);
        let kind = kind(&file).map_err(cannot)?;
        let what = match kind {
            FileType::RegularFile | FileType::BlockDevice => return FileSource::seekable(file, name, kind),
            FileType::Fifo | FileType::Socket => None,
            FileType::Directory => Some("a folder; name a disk image in it"),
            FileType::CharacterDevice => Some("a character device (or a terminal), not a disk"),
            _ => Some("not a file"),
        };
        if let Some(what) = what {
            return Err(Error::refused(format!("the source {name} is {what}")));
        }
        let facts = SourceFacts {
            name: name.clone(),
            size: None,
            seekable: false,
            remote: false,
            plain: false,
            reentry: false,
            identity: None,
        };
        Ok(FileSource { facts, from: From::Pipe(Once::new(file, name), None) })
    }

    fn seekable(file: File, name: String, kind: FileType) -> Result<Self> {
        let cannot = |e: Errno| Error::io(format!("cannot examine {name}"), e);
        let at = rustix::fs::tell(&file).map_err(cannot)?;
        if at != 0 {
            // Another program has read the beginning: the rest can only be streamed.
            let facts = SourceFacts {
                name: name.clone(),
                size: None,
                seekable: false,
                remote: false,
                plain: false,
                reentry: false,
                identity: None,
            };
            let copy = file.try_clone().map_err(|e| Error::io(format!("cannot use {name}"), e))?;
            return Ok(FileSource { facts, from: From::Pipe(Once::new(file, name), Some(copy)) });
        }
        let stat = rustix::fs::fstat(&file).map_err(cannot)?;
        let (size, identity, device) = if kind == FileType::BlockDevice {
            let size = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(cannot)?;
            rustix::fs::seek(&file, SeekFrom::Start(0)).map_err(cannot)?;
            (size, None, device::version(&file))
        } else {
            (u64::try_from(stat.st_size).unwrap_or(0), Some(identity(&stat)), None)
        };
        // A hint only, for more read-ahead.
        if let Err(e) = rustix::fs::fadvise(&file, 0, None, Advice::Sequential) {
            tracing::trace!("no read-ahead hint for {name}: {e}");
        }
        let copy = file.try_clone().map_err(|e| Error::io(format!("cannot use {name}"), e))?;
        let facts = SourceFacts {
            name,
            size: Some(size),
            seekable: true,
            remote: false,
            plain: false,
            reentry: false,
            identity,
        };
        Ok(FileSource {
            facts,
            from: From::File { file: Arc::new(file), bytes: Arc::new(FileAt::new(copy, size)), device },
        })
    }
}

impl FileSource {
    /// Bytes and holes at any offset; `None` for a pipe.
    pub fn sparse(&self) -> Option<SparseFile> {
        match &self.from {
            From::File { file, bytes, .. } => Some(SparseFile { file: file.clone(), bytes: bytes.clone() }),
            From::Pipe(..) => None,
        }
    }
}

impl Source for FileSource {
    fn facts(&self) -> &SourceFacts {
        &self.facts
    }

    fn file(&self) -> Option<BorrowedFd<'_>> {
        match &self.from {
            From::File { file, .. } => Some(file.as_fd()),
            From::Pipe(_, file) => file.as_ref().map(File::as_fd),
        }
    }

    fn check_unused(&self) -> Result<()> {
        let From::File { file, .. } = &self.from else { return Ok(()) };
        let name = &self.facts.name;
        for byte in QEMU_WRITES {
            // A file system without locks answers with an error: no lock can be held on it.
            if is_locked(file.as_fd(), byte, 1).unwrap_or(false) {
                let what = format!("a running QEMU writes to {name}: stop it first, or read a snapshot");
                return Err(Error::failed(what));
            }
        }
        let storage = Storage::of(file, name).map_err(|e| Error::io(format!("cannot examine {name}"), e))?;
        match storage.user(Access::Reads) {
            Some(user) => Err(Error::failed(format!(
                "{name} changes while it is read: {user}; stop that first, or read a snapshot"
            ))),
            None => Ok(()),
        }
    }

    fn read_at(&self) -> Option<Arc<dyn ReadAt>> {
        match &self.from {
            From::File { bytes, .. } => Some(bytes.clone()),
            From::Pipe(..) => None,
        }
    }

    fn stream(&self, from: u64) -> Result<Box<dyn Read + Send>> {
        match &self.from {
            From::File { bytes, .. } => Ok(Box::new(Sequential { bytes: bytes.clone(), at: from })),
            From::Pipe(pipe, _) => pipe.stream(from),
        }
    }

    fn unchanged(&self) -> Result<()> {
        let From::File { file, device, .. } = &self.from else { return Ok(()) };
        let name = &self.facts.name;
        let stat = rustix::fs::fstat(file).map_err(|e| Error::io(format!("cannot examine {name}"), e))?;
        let was = self.facts.size.unwrap_or(0);
        let how = match (device, &self.facts.identity) {
            (Some(then), _) if device::version(file).as_ref() != Some(then) => {
                "the kernel counted writes to it".to_owned()
            }
            (None, Some(then)) if identity(&stat) != *then => match stat.st_size {
                now if u64::try_from(now) != Ok(was) => format!("it had {was} bytes and now has {now}"),
                _ => "its times have changed".to_owned(),
            },
            _ => return Ok(()),
        };
        let what = format!("{name} was changed while it was read ({how}); run the same command again");
        Err(Error::failed(what).of_another_version())
    }

    /// A program that writes to a pipe closes it also when it fails.
    fn marks_its_end(&self) -> bool {
        !matches!(self.from, From::Pipe(_, None))
    }

    fn data_map(&self) -> Option<Box<dyn Iterator<Item = Range<u64>> + Send>> {
        match &self.from {
            From::File { file, .. } => Some(Box::new(data_map(file.clone(), self.facts.size?))),
            From::Pipe(..) => None,
        }
    }
}

/// The ranges of a file that may hold data, in order. Between them are holes, which read as zeros. One range
/// if the file system or the device does not report holes.
pub fn data_map(file: Arc<File>, size: u64) -> impl Iterator<Item = Range<u64>> + Send {
    let mut at = 0;
    std::iter::from_fn(move || {
        let found = data_from(&file, at, size)?;
        at = found.end;
        Some(found)
    })
}

/// The first range of a file that may hold data, at this offset or behind it.
fn data_from(file: &File, at: u64, size: u64) -> Option<Range<u64>> {
    if at >= size {
        return None;
    }
    let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(start) => start.max(at),
        // Only a hole from here to the end.
        Err(Errno::NXIO) => size,
        Err(_) => at,
    };
    if start >= size {
        return None;
    }
    // An answer that makes no sense counts as data: reading too much is never wrong.
    let hole = rustix::fs::seek(file, SeekFrom::Hole(start)).ok().filter(|&hole| hole > start);
    Some(start..hole.unwrap_or(size).min(size))
}

/// The bytes of a file with its holes, looked up in its file system on each call.
#[derive(Debug, Clone)]
pub struct SparseFile {
    file: Arc<File>,
    bytes: Arc<FileAt>,
}

impl ReadAt for SparseFile {
    fn size(&self) -> u64 {
        self.bytes.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.bytes.read_exact_at(buf, offset)
    }
}

impl Sparse for SparseFile {
    fn data_from(&self, offset: u64) -> Option<Range<u64>> {
        data_from(&self.file, offset, self.size())
    }
}

/// Reads on from an offset, without the shared position of the descriptor.
struct Sequential {
    bytes: Arc<FileAt>,
    at: u64,
}

impl Read for Sequential {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.bytes.size().saturating_sub(self.at);
        let n = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        self.bytes.read_exact_at(&mut buf[..n], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

fn open(path: &Path, more: OFlags) -> Result<File> {
    let shown = path.display();
    // A device without a medium must not block here; a named pipe must wait for its writer.
    let wait = std::fs::metadata(path).is_ok_and(|m| m.file_type().is_fifo());
    let flags = if wait { OFlags::NOCTTY } else { OFlags::NOCTTY | OFlags::NONBLOCK };
    let opened = File::options().read(true).custom_flags((flags | more).bits() as i32).open(path);
    opened.map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, format!("there is no file {shown}")).because(e)
        }
        io::ErrorKind::PermissionDenied => {
            let error = Error::failed(format!("no permission to read {shown}"));
            error.with_detail(Detail::Denied(path.to_owned())).because(e)
        }
        _ if e.raw_os_error() == Some(Errno::LOOP.raw_os_error()) && more.contains(OFlags::NOFOLLOW) => {
            Error::refused(format!("{shown} is a link; the disk itself must be there"))
        }
        _ => Error::io(format!("cannot open {shown}"), e),
    })
}

/// Locks a file whose name another run may take for an unfinished file, and replace. Other sources are not
/// locked: on NFS the lock would keep a VM from starting with them. A file system without locks answers with
/// an error, and so does the lock of a run that reads its own file back.
fn hold(file: &File, path: &Path) {
    if let Err(e) = file.try_lock_shared() {
        tracing::debug!("{} is not locked while it is read: {e}", path.display());
    }
}

fn kind(file: &File) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode))
}

/// A file with the same inode, size and times holds the same bytes, short of an attack by its owner.
fn identity(stat: &Stat) -> Identity {
    let value = format!(
        "file:{}:{}:{}:{}.{:09}:{}.{:09}",
        stat.st_dev,
        stat.st_ino,
        stat.st_size,
        stat.st_mtime,
        stat.st_mtime_nsec,
        stat.st_ctime,
        stat.st_ctime_nsec
    );
    Identity::of_content(value, u64::try_from(stat.st_size).ok())
}

#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod tests;
