//! The folder that takes an archive, and the two of its own in which the archive is before it has its names.

use crate::{Error, Result};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Deeper than any folder that an archive makes.
const DEEPEST: usize = super::members::DEEPEST + 8;
/// How often a folder is listed anew that does not get empty: a list may leave out what others changed meanwhile.
const ROUNDS: usize = 16;
/// Characters of an owner's name.
const LONGEST: usize = 64;

/// What is to be known of an error that comes while the names are given.
const HALF: &str =
    "some of the archive's names are on the volume by now: to begin anew, delete the DataVolume or the PVC";

/// The folder, held by its descriptor.
pub(super) struct Folder {
    at: OwnedFd,
    path: PathBuf,
    /// Holds what has been unpacked until now.
    partial: CString,
    /// Holds all of the archive, durable.
    whole: CString,
}

impl Folder {
    pub(super) fn open(path: &Path, owner: &str) -> Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let at = rustix::fs::openat(CWD, path, flags, Mode::empty());
        let at = at.map_err(|e| Error::io(format!("cannot open the folder {}", path.display()), e))?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let owner: String = owner.chars().filter(|&c| is_plain(c)).take(LONGEST).collect();
        let name = |word| {
            let name = CString::new(format!(".cdi-{owner}.{word}"));
            name.map_err(|e| Error::failed("a name for what is unpacked holds a zero").because(e))
        };
        Ok(Folder { at, path: path.to_owned(), partial: name("partial")?, whole: name("whole")? })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that may still be written there, as far as the file system tells.
    pub(super) fn room(&self) -> Result<u64> {
        let told = rustix::fs::fstatvfs(&self.at);
        let told = told.map_err(|e| self.failed("cannot measure the room in", e))?;
        Ok(told.f_bavail.saturating_mul(told.f_frsize))
    }

    /// Refuses a name that something has already.
    pub(super) fn is_free(&self, name: &str) -> Result<()> {
        match rustix::fs::statat(&self.at, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(()),
            Ok(_) => Err(self.taken(name)),
            Err(e) => Err(self.failed("cannot look into", e)),
        }
    }

    /// Whether an earlier run of the same owner left an archive that only lacks its names.
    pub(super) fn is_whole(&self) -> Result<bool> {
        match open(self.at.as_fd(), self.whole.as_c_str()) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(self.failed("cannot look into", e)),
        }
    }

    /// An empty folder for what is unpacked.
    pub(super) fn begin(&self) -> Result<OwnedFd> {
        let made = rustix::fs::mkdirat(&self.at, self.partial.as_c_str(), Mode::RWXU);
        let opened = made.and_then(|()| open(self.at.as_fd(), self.partial.as_c_str()));
        opened.map_err(|e| self.failed("cannot make a folder in", e))
    }

    /// Removes what has been unpacked until now.
    pub(super) fn clear(&self) -> Result<()> {
        self.remove(&self.partial)
    }

    /// Removes what an earlier run left whole and without its names.
    pub(super) fn forget_whole(&self) -> Result<()> {
        self.remove(&self.whole)
    }

    fn remove(&self, name: &CStr) -> Result<()> {
        let done = remove(self.at.as_fd(), name, DEEPEST);
        done.map_err(|e| self.failed("cannot remove what an earlier run left in", e))
    }

    /// What has been unpacked is all there is, and survives a power cut from now on.
    pub(super) fn seal(&self) -> Result<()> {
        let sealed = rustix::fs::syncfs(&self.at).and_then(|()| {
            rustix::fs::renameat(&self.at, self.partial.as_c_str(), &self.at, self.whole.as_c_str())?;
            rustix::fs::fsync(&self.at)
        });
        sealed.map_err(|e| self.failed("cannot make the files durable in", e))
    }

    /// Gives all that was sealed its names.
    pub(super) fn publish(&self) -> Result<()> {
        let whole = match open(self.at.as_fd(), self.whole.as_c_str()) {
            Err(Errno::NOENT) => return Ok(()),
            whole => whole.map_err(|e| self.failed("cannot look into", e))?,
        };
        let mut is_begun = false;
        for _ in 0..ROUNDS {
            self.give_names(&whole, &mut is_begun).map_err(|e| if is_begun { e.and(HALF) } else { e })?;
            match rustix::fs::unlinkat(&self.at, self.whole.as_c_str(), AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => {}
                done => {
                    let synced = done.and_then(|()| rustix::fs::fsync(&self.at));
                    return synced.map_err(|e| self.failed("cannot finish the names in", e));
                }
            }
        }
        Err(self.failed("there are always new files in a folder of", Errno::NOTEMPTY))
    }

    /// `is_begun` is set once a name was given.
    fn give_names(&self, whole: &OwnedFd, is_begun: &mut bool) -> Result<()> {
        let listed = Dir::read_from(whole).map_err(|e| self.failed("cannot list a folder of", e))?;
        for entry in listed {
            let entry = entry.map_err(|e| self.failed("cannot list a folder of", e))?;
            let name = entry.file_name();
            if is_dots(name) {
                continue;
            }
            move_free(whole.as_fd(), self.at.as_fd(), name).map_err(|e| match e {
                Errno::EXIST | Errno::NOTEMPTY => self.taken(&name.to_string_lossy()),
                e => self.failed("cannot give a file its name in", e),
            })?;
            *is_begun = true;
        }
        Ok(())
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

/// Moves a name to another folder, where nothing has it.
fn move_free(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    match rustix::fs::renameat_with(from, name, to, name, RenameFlags::NOREPLACE) {
        // What kernels and file systems say that do not know the flag: a look then, and a rename.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) => {}
        done => return done,
    }
    match rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => rustix::fs::renameat(from, name, to, name),
        Ok(_) => Err(Errno::EXIST),
        Err(e) => Err(e),
    }
}

/// Removes a file, or a folder with all that is in it. Links are removed and not followed.
fn remove(at: BorrowedFd<'_>, name: &CStr, depth: usize) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(at, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // The second is what POSIX says of folders.
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
