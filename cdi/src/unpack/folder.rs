//! The target folder of an archive, and the hidden folders in it that hold the archive until its names are
//! published.
//!
//! ```text
//!  .cdi-OWNER.partial ──seal──► .whole ──all names are free──► .naming ── each name ──► the folder itself
//!      begun anew                 │ one is taken: removed          │ only forward from here; empty at its end
//!                                                                  └──────────────────► .done, the mark
//! ```
//!
//! Each arrow is one rename, durable before the next. Wherever a run breaks off, the next one finds one of
//! these names and continues from there.

use crate::{Error, Result, done_marker, sys};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use storage::publish::sync_folder;

/// Deeper than any folder that an archive makes.
const DEEPEST: usize = super::members::DEEPEST + 8;
/// The most listings of a folder that does not get empty: a list may miss files that were changed meanwhile.
const ROUNDS: usize = 16;

/// Addition to an error that occurs while the names are published.
const HALF: &str = "the archive is whole on the volume, and the next run gives the names that are left; to begin with another \
     archive, delete the DataVolume or the PVC";

/// The folder, held by its descriptor.
pub(super) struct Folder {
    at: OwnedFd,
    path: PathBuf,
    /// Name of the folder with the files unpacked until now.
    partial: CString,
    /// Name of the folder with the complete archive, durable.
    whole: CString,
    /// Name of the folder with the files whose names are not published yet.
    naming: CString,
    /// Name of the mark for a published archive. `None` without an owner: there is no next run then.
    done: Option<CString>,
    #[cfg(test)]
    disk: super::disk::Disk,
}

impl Folder {
    pub(super) fn open(path: &Path, owner: &str) -> Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let at = rustix::fs::openat(CWD, path, flags, Mode::empty());
        let at = at.map_err(|e| Error::io(format!("cannot open the folder {}", path.display()), e))?;
        let name = |word| {
            let name = CString::new(done_marker::name(owner, word));
            name.map_err(|e| Error::failed("a name for what is unpacked holds a zero").because(e))
        };
        let (partial, whole, naming) = (name("partial")?, name("whole")?, name("naming")?);
        let done = if owner.is_empty() { None } else { Some(name("done")?) };
        Ok(Folder {
            at,
            path: path.to_owned(),
            partial,
            whole,
            naming,
            done,
            #[cfg(test)]
            disk: super::disk::Disk::of_this_thread(),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that may still be written there, by the file system.
    pub(super) fn room(&self) -> Result<u64> {
        let told = rustix::fs::fstatvfs(&self.at);
        let told = told.map_err(|e| self.failed("cannot measure the room in", e))?;
        Ok(told.f_bavail.saturating_mul(told.f_frsize))
    }

    /// Refuses a name that already exists.
    pub(super) fn check_free(&self, name: &str) -> Result<()> {
        let mut own = [&self.partial, &self.whole, &self.naming].into_iter().chain(&self.done);
        if own.any(|own| own.as_bytes() == name.as_bytes()) {
            return Err(self.taken(name));
        }
        match rustix::fs::statat(&self.at, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Ok(_) => Err(self.taken(name)),
            Err(e) => Err(self.failed("cannot look into", e)),
        }
    }

    /// True if an earlier run of the same owner left a complete archive with unpublished names.
    pub(super) fn is_whole(&self) -> Result<bool> {
        Ok(self.is_there(&self.whole)? || self.is_there(&self.naming)?)
    }

    /// True if an earlier run of the same owner came to its end.
    pub(super) fn is_done(&self) -> Result<bool> {
        self.done.as_ref().map_or(Ok(false), |done| self.is_there(done))
    }

    fn is_there(&self, name: &CStr) -> Result<bool> {
        match open(self.at.as_fd(), name) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(self.failed("cannot look into", e)),
        }
    }

    /// Creates an empty folder for the unpacked files.
    pub(super) fn begin(&self) -> Result<OwnedFd> {
        let made = step().and_then(|()| rustix::fs::mkdirat(&self.at, self.partial.as_c_str(), Mode::RWXU));
        let opened = made.and_then(|()| open(self.at.as_fd(), self.partial.as_c_str()));
        opened.map_err(|e| self.failed("cannot make a folder in", e))
    }

    /// Removes the files unpacked until now.
    pub(super) fn clear(&self) -> Result<()> {
        self.remove(&self.partial)
    }

    fn remove(&self, name: &CStr) -> Result<()> {
        let done = remove(self.at.as_fd(), name, DEEPEST);
        done.map_err(|e| self.failed("cannot remove what an earlier run left in", e))
    }

    /// Makes a file durable.
    pub(super) fn sync(&self, file: impl AsFd) -> io::Result<()> {
        #[cfg(test)]
        self.disk.syncs(&file)?;
        Ok(rustix::fs::fsync(file)?)
    }

    /// Closes a file that is durable.
    pub(super) fn close(&self, file: OwnedFd) -> io::Result<()> {
        #[cfg(test)]
        self.disk.closes()?;
        sys::close(file)
    }

    /// Makes a folder and those in it durable; the files in them are durable already.
    fn sync_folders(&self, at: BorrowedFd<'_>, depth: usize) -> io::Result<()> {
        let below = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
        for entry in Dir::read_from(at)? {
            let entry = entry?;
            let may_be_folder = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
            if is_dots(entry.file_name()) || !may_be_folder {
                continue;
            }
            match open(at, entry.file_name()) {
                Ok(folder) => self.sync_folders(folder.as_fd(), below)?,
                Err(Errno::NOTDIR | Errno::LOOP) if entry.file_type() == FileType::Unknown => {}
                Err(e) => return Err(e.into()),
            }
        }
        #[cfg(test)]
        self.disk.syncs(at)?;
        Ok(sync_folder(at)?)
    }

    /// Seals the archive: from now on it is complete and survives a power cut. The files are durable before;
    /// then each folder is synced, then the whole file system.
    pub(super) fn seal(&self) -> Result<()> {
        let partial = step().and_then(|()| open(self.at.as_fd(), &self.partial));
        let folders = partial.map_err(io::Error::from).and_then(|at| self.sync_folders(at.as_fd(), DEEPEST));
        folders.map_err(|e| {
            Error::io(format!("cannot make the folders durable in {}", self.path.display()), e)
        })?;
        let sealed = step().and_then(|()| rustix::fs::syncfs(&self.at));
        let sealed = sealed
            .and_then(|()| self.becomes(&self.partial, &self.whole).inspect_err(|_| self.take_back_seal()));
        sealed.map_err(|e| self.failed("cannot make the files durable in", e))
    }

    /// Takes back a seal whose name could not be made durable. The next run would trust it, though the name
    /// may be lost with the power.
    fn take_back_seal(&self) {
        let renamed =
            step().and_then(|()| rustix::fs::renameat(&self.at, &self.whole, &self.at, &self.partial));
        match renamed {
            // The rename itself failed.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => tracing::warn!("what was unpacked stays sealed in {}: {e}", self.path.display()),
        }
    }

    /// Publishes the names of the sealed archive, and leaves the mark. If one of the names exists already,
    /// none is published, and the sealed archive is removed.
    pub(super) fn publish(&self) -> Result<()> {
        if self.is_there(&self.whole)? {
            self.check_all_free().inspect_err(|_| {
                if let Err(e) = self.remove(&self.whole) {
                    tracing::warn!("what was unpacked stays in {}: {e}", self.path.display());
                }
            })?;
            let begun = self.becomes(&self.whole, &self.naming);
            begun.map_err(|e| self.failed("cannot begin with the names in", e))?;
        }
        let naming = match open(self.at.as_fd(), self.naming.as_c_str()) {
            Err(Errno::NOENT) => return Ok(()),
            naming => naming.map_err(|e| self.failed("cannot look into", e))?,
        };
        self.finish(&naming).map_err(|e| e.and(HALF))
    }

    /// Checks that no name to be published exists already. No other program works in the folder of a PVC that
    /// is being filled.
    fn check_all_free(&self) -> Result<()> {
        let whole = open(self.at.as_fd(), self.whole.as_c_str());
        let whole = whole.map_err(|e| self.failed("cannot look into", e))?;
        for entry in Dir::read_from(&whole).map_err(|e| self.failed("cannot list a folder of", e))? {
            let entry = entry.map_err(|e| self.failed("cannot list a folder of", e))?;
            let name = entry.file_name();
            match rustix::fs::statat(&self.at, name, AtFlags::SYMLINK_NOFOLLOW) {
                _ if is_dots(name) => {}
                Err(Errno::NOENT) => {}
                Ok(_) => return Err(self.taken(&name.to_string_lossy())),
                Err(e) => return Err(self.failed("cannot look into", e)),
            }
        }
        Ok(())
    }

    fn finish(&self, naming: &OwnedFd) -> Result<()> {
        for _ in 0..ROUNDS {
            if self.give_names(naming)? == 0 {
                let synced = step().and_then(|()| sync_folder(&self.at));
                let done = synced.and_then(|()| match &self.done {
                    Some(done) => self.becomes(&self.naming, done),
                    None => rustix::fs::unlinkat(&self.at, &self.naming, AtFlags::REMOVEDIR),
                });
                return done.map_err(|e| self.failed("cannot finish the names in", e));
            }
        }
        Err(self.failed("there are always new files in a folder of", Errno::NOTEMPTY))
    }

    /// Publishes the names in a listing, and returns their number. A listing may miss files that were changed
    /// meanwhile.
    fn give_names(&self, naming: &OwnedFd) -> Result<u64> {
        let mut given = 0;
        let listed = Dir::read_from(naming).map_err(|e| self.failed("cannot list a folder of", e))?;
        for entry in listed {
            let entry = entry.map_err(|e| self.failed("cannot list a folder of", e))?;
            let name = entry.file_name();
            if is_dots(name) {
                continue;
            }
            let moved = step().and_then(|()| move_free(naming.as_fd(), self.at.as_fd(), name));
            moved.map_err(|e| match e {
                Errno::EXIST | Errno::NOTEMPTY => self.taken(&name.to_string_lossy()),
                e => self.failed("cannot give a file its name in", e),
            })?;
            given += 1;
        }
        Ok(given)
    }

    /// Renames one of the hidden folders to its next name, durably.
    fn becomes(&self, from: &CStr, to: &CStr) -> rustix::io::Result<()> {
        step()?;
        rustix::fs::renameat(&self.at, from, &self.at, to)?;
        step()?;
        sync_folder(&self.at)
    }

    fn taken(&self, name: &str) -> Error {
        let name = container_disk::tar::quoted(name);
        Error::of_bytes(format!(
            "tar: {name} is in the archive, and on the volume already; nothing there is replaced"
        ))
    }

    fn failed(&self, what: &str, e: Errno) -> Error {
        Error::io(format!("{what} {}", self.path.display()), e)
    }
}

fn open(at: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

fn is_dots(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Moves a name to another folder, if it is free there.
fn move_free(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(from, name, to, name, RenameFlags::NOREPLACE) {
        // The errors of kernels and file systems without the flag: then a check and a plain rename.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {}
        done => return done,
    }
    match rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => rustix::fs::renameat(from, name, to, name),
        Ok(_) => Err(Errno::EXIST),
        Err(e) => Err(e),
    }
}

/// Removes a file, or a folder with its content. Links are removed and not followed.
fn remove(at: BorrowedFd<'_>, name: &CStr, depth: usize) -> rustix::io::Result<()> {
    step()?;
    match rustix::fs::unlinkat(at, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // The second is the error of POSIX for folders.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(e) => return Err(e),
    }
    let below = depth.checked_sub(1).ok_or(Errno::NAMETOOLONG)?;
    for _ in 0..ROUNDS {
        let folder = open(at, name)?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            if !is_dots(entry.file_name()) {
                remove(folder.as_fd(), entry.file_name(), below)?;
            }
        }
        match rustix::fs::unlinkat(at, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            done => return done,
        }
    }
    Err(Errno::NOTEMPTY)
}

/// Called before each change of the folder: a test can make the run end there.
#[cfg(not(test))]
#[inline]
fn step() -> rustix::io::Result<()> {
    Ok(())
}

#[cfg(test)]
use kill::step;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// A folder of /proc answers EINVAL, as those of some FUSE file systems do.
    #[test]
    fn a_folder_that_has_nothing_to_sync_is_durable() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::open(temporary.path(), "").unwrap();
        let empty = File::open("/proc/self/fdinfo").unwrap();
        folder.sync_folders(empty.as_fd(), DEEPEST).unwrap();
        let (pipe, _other) = io::pipe().unwrap();
        folder.sync(&pipe).expect_err("a file must be durable");
    }
}

/// Ends of a run, at the step that a test chooses.
#[cfg(test)]
pub(super) mod kill {
    use rustix::io::{self, Errno};
    use std::cell::Cell;

    thread_local! {
        static LEFT: Cell<Option<(u32, bool)>> = const { Cell::new(None) };
    }

    /// After so many steps one fails; with `dies`, as all behind it.
    pub(in super::super) fn after(steps: u32, dies: bool) {
        LEFT.set(Some((steps, dies)));
    }

    /// All steps work again. Whether one has failed.
    pub(in super::super) fn never() -> bool {
        LEFT.replace(None).is_none_or(|(left, _)| left == 0)
    }

    pub(in super::super) fn step() -> io::Result<()> {
        match LEFT.get() {
            None => Ok(()),
            Some((0, true)) => Err(Errno::IO),
            Some((0, false)) => {
                LEFT.set(None);
                Err(Errno::NOSPC)
            }
            Some((left, dies)) => {
                LEFT.set(Some((left - 1, dies)));
                Ok(())
            }
        }
    }
}
