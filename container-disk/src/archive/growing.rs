//! An archive that is being written. It grows in `FILE.partial` and is renamed to `FILE` at the end, unless
//! another program has created, replaced or begun to use `FILE` in the meantime, or has taken `FILE.partial`.
//!
//! Each member starts with space for its header, which is filled in when the member ends. A name of a SHA-512 digest needs more
//! space than others, so the length of the name is told before. One member at a time grows at the end of the file. Members that
//! are written at the same time go to anonymous files and are appended later.

use crate::digest::Hasher;
use crate::layout::folder::Folder;
use crate::layout::lock::Locked;
use crate::tar::{END, Item, head, patched, rest};
use crate::write_behind::WriteBehind;
use crate::{Digest, Error, ErrorKind, Result};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use storage::publish::ExistingFile;

/// The archive file and its state.
pub(super) struct Growing {
    folder: Folder,
    name: String,
    // Before the file: its thread holds the file, and with it the lock on it.
    behind: WriteBehind,
    file: Locked,
    /// The file that the archive replaces.
    over: Option<ExistingFile>,
    state: Mutex<State>,
}

struct State {
    /// Offset of the next member.
    end: u64,
    /// A member grows at the end of the file.
    busy: bool,
    waiting: Vec<Waiting>,
    /// Writing a member or syncing has failed. A later `close` could succeed without the lost bytes, so it is
    /// refused.
    broken: bool,
    /// All bytes are durable; only the rename is missing. `FILE.partial` then stays even if the rename fails.
    whole: bool,
    closed: bool,
}

struct Waiting {
    name: String,
    file: File,
    size: u64,
    digest: Digest,
}

/// A member that is being written. Dropping it without `finish` leaves no trace in the archive.
pub(super) struct Growth<'a> {
    archive: &'a Growing,
    /// Bytes of its header.
    head: u64,
    size: u64,
    /// Offset in the archive, or the anonymous file that buffers the member.
    at: Result<u64, File>,
    done: bool,
}

impl Growing {
    pub(super) fn create(path: &Path) -> Result<Growing> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        let folder = Folder::open(parent).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                let what = format!("the folder {} does not exist; make it first", parent.display());
                Error::new(ErrorKind::NotFound, what)
            }
            _ => e,
        })?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name =
            name.ok_or_else(|| Error::usage(format!("{} is not the name of a file", path.display())))?;
        let over = folder.existing_file(name)?;
        let file = begun(&folder, &partial(name))?;
        let behind = WriteBehind::for_file(&file)
            .map_err(|e| Error::io(format!("cannot write {}", folder.shown(&partial(name))), e))?;
        let state = Mutex::new(State {
            end: 0,
            busy: false,
            waiting: vec![],
            broken: false,
            whole: false,
            closed: false,
        });
        Ok(Growing { folder, name: name.to_owned(), behind, file, over, state })
    }

    /// Starts a member: at the end of the archive if that is free, otherwise in an anonymous file. `name` is as long as its own
    /// will be.
    pub(super) fn begin(&self, name: &str) -> Result<Growth<'_>> {
        let mut state = self.state();
        if state.whole {
            return Err(Error::failed(format!("{} is closed already", self.name)));
        }
        let at = if state.busy {
            Err(self.anonymous_file()?)
        } else {
            state.busy = true;
            Ok(state.end)
        };
        Ok(Growth { archive: self, head: head_size(name), size: 0, at, done: false })
    }

    /// Adds a small member. A name that ends in a slash is a folder.
    pub(super) fn add(&self, name: &str, bytes: &[u8]) -> Result<()> {
        if name.ends_with('/') {
            let mut state = self.state();
            let head = head(&item(name, 0, 0o755));
            self.write(&head, state.end)?;
            state.end += head.len() as u64;
            return Ok(());
        }
        let mut growth = self.begin(name)?;
        growth.write(bytes)?;
        growth.finish(name, Digest::of(bytes))
    }

    /// Appends the last members, syncs the file and renames it to its final name.
    pub(super) fn close(&self, last: &[(&str, &[u8])]) -> Result<()> {
        let mut state = self.state();
        if state.closed {
            return Ok(());
        }
        if state.busy {
            return Err(Error::failed(format!(
                "{} cannot be closed while a blob is written to it",
                self.name
            )));
        }
        if state.broken {
            return Err(Error::failed(format!(
                "{} is incomplete because a write failed; write the archive again",
                self.shown()
            )));
        }
        if !state.whole {
            self.end(&mut state, last).inspect_err(|_| state.broken = true)?;
            state.whole = true;
        }
        self.folder.publish(&self.file, &partial(&self.name), &self.name, self.over.as_ref())?;
        state.closed = true;
        Ok(())
    }

    /// Appends all that is pending and makes the file durable.
    fn end(&self, state: &mut State, last: &[(&str, &[u8])]) -> Result<()> {
        self.settle(state)?;
        for (name, bytes) in last {
            self.write(bytes, state.end + head_size(name))?;
            self.seal(state, name, bytes.len() as u64, head_size(name))?;
        }
        self.write(&END, state.end)?;
        let cannot = |e| Error::io(format!("cannot make {} durable", self.shown()), e);
        self.file.set_len(state.end + END.len() as u64).map_err(cannot)?;
        self.file.sync_all().map_err(cannot)
    }

    /// Appends buffered members, unless a member grows at the end.
    fn settle(&self, state: &mut State) -> Result<()> {
        while !state.busy
            && let Some(Waiting { name, file, size, digest }) = state.waiting.pop()
        {
            let mut hash = Hasher::like(&digest);
            let mut piece = vec![0; 1 << 20];
            let mut at = 0;
            while at < size {
                let n = usize::try_from(size - at).unwrap_or(usize::MAX).min(piece.len());
                let cannot = |e| Error::io(format!("cannot read back a part of {}", self.shown()), e);
                file.read_exact_at(&mut piece[..n], at).map_err(cannot)?;
                hash.update(&piece[..n]);
                self.write(&piece[..n], state.end + head_size(&name) + at)?;
                at += n as u64;
            }
            // A full or failing disk may report the error only at a sync, and the buffer file was not synced.
            if hash.finish() != digest {
                let what = format!("a part of {} was damaged in its temporary buffer file", self.shown());
                return Err(Error::failed(format!("{what}; the disk fails or is full")));
            }
            self.seal(state, &name, size, head_size(&name))?;
        }
        Ok(())
    }

    /// Completes the member at the end: writes its header, for which `space` was left, and padding.
    fn seal(&self, state: &mut State, name: &str, size: u64, space: u64) -> Result<()> {
        let head = patched(&item(name, size, 0o644));
        if head.len() as u64 != space {
            let what = format!("no space was left for the name {name} in {}", self.shown());
            return Err(Error::failed(what));
        }
        let data = state.end + space;
        let end = data.checked_add(size).ok_or_else(|| Error::usage("an archive cannot be that large"))?;
        self.write(&END[..rest(size)], end)?;
        self.write(&head, state.end)?;
        state.end = end + rest(size) as u64;
        Ok(())
    }

    /// A file without a name. It disappears when it is closed.
    fn anonymous_file(&self) -> Result<File> {
        for n in 0..10_000 {
            let name = format!("{}.{n}", partial(&self.name));
            if let Some(file) = self.folder.new_file(&name)? {
                self.folder.remove_own(&name, &file)?;
                return Ok(file);
            }
        }
        Err(Error::failed(format!("cannot create a temporary file beside {}", self.shown())))
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        let written = self.file.write_all_at(bytes, at);
        written.map_err(|e| Error::io(format!("cannot write {}", self.shown()), e))?;
        self.behind.count(bytes.len() as u64);
        Ok(())
    }

    fn shown(&self) -> String {
        self.folder.shown(&partial(&self.name))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        if !self.state().whole
            && let Err(e) = self.folder.remove_own(&partial(&self.name), &self.file)
        {
            tracing::warn!("{e}");
        }
    }
}

impl Growth<'_> {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &self.at {
            Ok(begin) => {
                let at = begin.checked_add(self.head).and_then(|data| data.checked_add(self.size));
                let at = at.ok_or_else(|| Error::usage("an archive cannot be that large"))?;
                self.archive.write(bytes, at)?;
            }
            Err(file) => {
                let cannot =
                    |e: io::Error| Error::io(format!("cannot write beside {}", self.archive.shown()), e);
                file.write_all_at(bytes, self.size).map_err(cannot)?;
            }
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Completes the member under its name. `digest` guards the copy of a buffered member.
    pub(super) fn finish(mut self, name: &str, digest: Digest) -> Result<()> {
        let mut state = self.archive.state();
        self.done = true;
        let ended = match std::mem::replace(&mut self.at, Ok(0)) {
            Ok(_) => {
                state.busy = false;
                self.archive.seal(&mut state, name, self.size, self.head)
            }
            Err(file) => {
                state.waiting.push(Waiting { name: name.to_owned(), file, size: self.size, digest });
                Ok(())
            }
        };
        // The sinks list a member before it is complete, so the archive must not get its name without it.
        ended.and_then(|()| self.archive.settle(&mut state)).inspect_err(|_| state.broken = true)
    }
}

impl Drop for Growth<'_> {
    fn drop(&mut self) {
        // The next member overwrites these bytes.
        if !self.done && self.at.is_ok() {
            self.archive.state().busy = false;
        }
    }
}

/// The empty `.partial` file, locked for this process.
fn begun(folder: &Folder, partial: &str) -> Result<Locked> {
    folder.fresh_file(partial)?.ok_or_else(|| {
        let partial = folder.shown(partial);
        Error::failed(format!(
            "another process is writing {partial}, or it is what is read; wait for its end, or write to another name"
        ))
    })
}

fn item(name: &str, size: u64, mode: u32) -> Item<'_> {
    Item { name, size, mode, mtime: 0, owner: (0, "root") }
}

/// Size of the header of a member. That of its data does not change it.
fn head_size(name: &str) -> u64 {
    patched(&item(name, 0, 0o644)).len() as u64
}

fn partial(name: &str) -> String {
    format!("{name}.partial")
}
