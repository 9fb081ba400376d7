//! The files of an archive while they are written: below one folder, each step by the descriptor of the one
//! before it.
//!
//! No link is followed: there is none in a folder that this run has made, and a link that another program
//! puts there fails at `O_NOFOLLOW`. A file is created only under a free name.

use super::Unpacked;
use super::folder::Folder;
use super::members::Step;
use crate::run::watch::Watch;
use crate::{Error, Result};
use container_disk::tar::quoted;
use container_disk::write_behind::{WriteBehind, write_out};
use guard::confine::{Attributes, set_attributes};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::sync::mpsc::Receiver;

/// Mode of a folder that the archive has files in and does not name.
const UNNAMED: u32 = 0o755;
/// Mode bits that this process needs to create files in the folder.
const OWN: u32 = 0o700;

/// The most files that are written and wait to be synced, and their bytes. One sync after each small file
/// would be slow, and meanwhile the kernel writes these out.
const BATCH: usize = 64;
const BATCH_BYTES: u64 = 64 << 20;

/// The folder that is filled.
pub(super) struct Staging<'a> {
    folder: &'a Folder,
    at: OwnedFd,
    /// The folder that was used last, by its name.
    last: Option<(String, OwnedFd)>,
    open: Option<Open>,
    /// Files that have all their bytes and are not durable yet.
    written: Vec<(String, File)>,
    written_bytes: u64,
    done: Unpacked,
    has_modes: bool,
}

/// The file that is being written.
struct Open {
    name: String,
    file: File,
    mode: u32,
    bytes: u64,
    // Dropped before the file, which it holds.
    behind: WriteBehind,
}

impl<'a> Staging<'a> {
    /// `at` is the empty folder.
    pub(super) fn new(folder: &'a Folder, at: OwnedFd) -> Staging<'a> {
        Staging {
            folder,
            at,
            last: None,
            open: None,
            written: Vec::with_capacity(BATCH),
            written_bytes: 0,
            done: Unpacked::default(),
            has_modes: true,
        }
    }

    /// Takes steps until there are no more.
    pub(super) fn take_all(&mut self, steps: Receiver<Step>, watch: &Watch) -> Result<Unpacked> {
        for step in steps {
            match step {
                Step::Data { at, bytes } => {
                    self.write(at, &bytes)?;
                    watch.count_written(bytes.len() as u64);
                }
                Step::Folder { name, mode } => {
                    self.close()?;
                    self.last = Some((name.clone(), self.walk(&name, mode)?));
                    self.done.folders += 1;
                }
                Step::File { name, mode, size } => {
                    self.close()?;
                    self.make(name, mode, size)?;
                    self.done.files += 1;
                }
            }
        }
        self.close()?;
        self.sync()?;
        Ok(self.done)
    }

    fn make(&mut self, name: String, mode: u32, size: u64) -> Result<()> {
        let (parent, last) = name.rsplit_once('/').unwrap_or(("", &name));
        if self.last.as_ref().is_none_or(|(known, _)| known != parent) {
            self.last = Some((parent.to_owned(), self.walk(parent, UNNAMED)?));
        }
        let at = self.last.as_ref().map_or(self.at.as_fd(), |(_, at)| at.as_fd());
        if parent.is_empty() {
            self.folder.check_free(last)?;
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let private = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(at, last, flags, private).map(File::from);
        let file = file.map_err(|e| match e {
            Errno::EXIST => Error::of_bytes(format!("tar: {} comes twice in the archive", quoted(&name))),
            e => cannot_make(&name, e),
        })?;
        let failed = |e| Error::io(format!("cannot write {}", quoted(&name)), e);
        if size > 0 {
            file.set_len(size).map_err(|e| match e.kind() {
                io::ErrorKind::FileTooLarge => {
                    let what = format!(
                        "tar: {} has {size} bytes with its holes, and the file system of the volume takes no such file",
                        quoted(&name)
                    );
                    Error::of_bytes(what).because(e)
                }
                _ => failed(e),
            })?;
        }
        let behind = WriteBehind::for_file(&file).map_err(failed)?;
        self.open = Some(Open { name, file, mode, bytes: 0, behind });
        Ok(())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        let open = self.open.as_mut();
        let open = open.ok_or_else(|| Error::failed("bytes of no file; this is a fault of the program"))?;
        let written = open.file.write_all_at(bytes, at);
        written.map_err(|e| Error::io(format!("cannot write {}", quoted(&open.name)), e))?;
        open.behind.count(bytes.len() as u64);
        open.bytes = open.bytes.saturating_add(bytes.len() as u64);
        self.done.bytes = self.done.bytes.saturating_add(bytes.len() as u64);
        Ok(())
    }

    /// Completes the open file, which then waits to be synced with others.
    fn close(&mut self) -> Result<()> {
        let Some(Open { name, file, mode, bytes, behind }) = self.open.take() else { return Ok(()) };
        drop(behind);
        if let Err(e) = set_attributes(&file, Attributes::Mode(mode))
            && std::mem::replace(&mut self.has_modes, false)
        {
            // The file system chooses the modes; warned once.
            tracing::warn!("{} has not got the mode {mode:04o}, and others may not: {e}", quoted(&name));
        }
        write_out(&file);
        self.written.push((name, file));
        self.written_bytes = self.written_bytes.saturating_add(bytes);
        if self.written.len() >= BATCH || self.written_bytes >= BATCH_BYTES { self.sync() } else { Ok(()) }
    }

    /// Makes the written files durable, each by its own sync: the sync of a whole file system does not cover
    /// files of FUSE, nor lost bytes on old kernels. Then they are closed, which may report lost bytes too.
    fn sync(&mut self) -> Result<()> {
        self.written_bytes = 0;
        for (name, file) in self.written.drain(..) {
            let synced = self.folder.sync(&file);
            // Durable bytes need not stay in memory.
            write_out(&file);
            let closed = synced.and_then(|()| self.folder.close(file.into()));
            closed.map_err(|e| Error::io(format!("cannot make {} durable", quoted(&name)), e))?;
        }
        Ok(())
    }

    /// Opens a folder below, and creates missing ones on the way.
    fn walk(&self, name: &str, mode: u32) -> Result<OwnedFd> {
        let mut at = self.at.try_clone().map_err(|e| Error::io("cannot keep a folder open", e))?;
        let mut parts = name.split('/').filter(|part| !part.is_empty()).peekable();
        let mut is_top = true;
        while let Some(part) = parts.next() {
            let mode = if parts.peek().is_none() { mode } else { UNNAMED };
            at = self.step(at.as_fd(), part, name, mode, is_top)?;
            is_top = false;
        }
        Ok(at)
    }

    fn step(&self, at: BorrowedFd<'_>, part: &str, name: &str, mode: u32, is_top: bool) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(at, part, flags, Mode::empty());
        let opened = match open() {
            Err(Errno::NOENT) => {
                if is_top {
                    self.folder.check_free(part)?;
                }
                rustix::fs::mkdirat(at, part, Mode::from_raw_mode(mode | OWN)).and_then(|()| open())
            }
            opened => opened,
        };
        opened.map_err(|e| match e {
            Errno::NOTDIR | Errno::LOOP => {
                Error::of_bytes(format!("tar: a part of {} is a file in the archive, too", quoted(name)))
            }
            e => cannot_make(name, e),
        })
    }
}

fn cannot_make(name: &str, e: Errno) -> Error {
    match e {
        Errno::NAMETOOLONG | Errno::INVAL | Errno::ILSEQ => {
            let what = format!("tar: the file system of the volume takes no name like {}", quoted(name));
            Error::of_bytes(what).because(io::Error::from(e))
        }
        e => Error::io(format!("cannot make {}", quoted(name)), e),
    }
}
