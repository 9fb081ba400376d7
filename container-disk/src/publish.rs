//! Renaming a complete file to its final name without replacing a file of another program.
//!
//! A run examines the final name at its beginning, which may be hours before its end. If the name was free
//! then, a file that has it at the end belongs to another program, which may be using it, and is not
//! replaced. If a file had the name, only that same file is replaced.
//!
//! ```text
//!  ExistingFile::examine
//!    ├─ None ─► publish: renameat2(RENAME_NOREPLACE); if the file system lacks it, link and unlink;
//!    │                   if it lacks links too (FAT, some FUSE ones), stat and rename
//!    └─ Some ─► publish: stat, to compare with that file, and rename
//! ```
//!
//! A file that another program creates between stat and rename can still be lost: no system call replaces one
//! particular file.

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The file that had the final name at the beginning. An `O_PATH` descriptor holds it without opening it: no
/// other file can get its inode number meanwhile, a network or FUSE file system does not change the number,
/// and no file server sees it in use.
pub struct ExistingFile {
    stat: Stat,
    _held: OwnedFd,
}

impl ExistingFile {
    /// Examines the file of that name. `None` if it does not exist. A symbolic link is not followed.
    pub fn examine(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<Option<ExistingFile>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(held) => ExistingFile::from_fd(held).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Examines an open file.
    pub fn from_fd(held: OwnedFd) -> rustix::io::Result<ExistingFile> {
        Ok(ExistingFile { stat: rustix::fs::fstat(&held)?, _held: held })
    }

    /// Attributes of the file at the time it was examined.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }
}

/// Renames `from` to `to` in the same folder. The name must be free, or belong to the file `over`, which is
/// replaced. If another file has the name by now, the error is `AlreadyExists`, and both files stay as they
/// are.
pub fn publish(folder: impl AsFd, from: &OsStr, to: &OsStr, over: Option<&ExistingFile>) -> io::Result<()> {
    let folder = folder.as_fd();
    let Some(over) = over else { return Ok(take_free(folder, from, to)?) };
    match rustix::fs::statat(folder, to, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(now) if is_same(&now, &over.stat) => Ok(rustix::fs::renameat(folder, from, folder, to)?),
        Ok(_) => Err(Errno::EXIST.into()),
        Err(Errno::NOENT) => Ok(take_free(folder, from, to)?),
        Err(e) => Err(e.into()),
    }
}

/// Syncs a folder, which makes its names durable. Some FUSE and network file systems have nothing to sync in
/// a folder and return an error, which is ignored.
pub fn sync_folder(folder: impl AsFd) -> rustix::io::Result<()> {
    match rustix::fs::fsync(folder) {
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        done => done,
    }
}

/// Renames to a name that is free.
fn take_free(folder: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    for way in [rename, link] {
        match way(folder, from, to) {
            // Errors of kernels and file systems that lack the flag or hard links.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::MLINK) => {}
            done => return done,
        }
    }
    look_and_rename(folder, from, to)
}

fn rename(folder: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE)
}

fn link(folder: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    let stat = |name| rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    match rustix::fs::linkat(folder, from, folder, to, AtFlags::empty()) {
        // The server may have created the link, lost its answer, and received the request again.
        Err(Errno::EXIST) if is_same(&stat(from)?, &stat(to)?) => {}
        done => done?,
    }
    rustix::fs::unlinkat(folder, from, AtFlags::empty())
}

fn look_and_rename(folder: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    match rustix::fs::statat(folder, to, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Err(Errno::EXIST),
        Err(Errno::NOENT) => rustix::fs::renameat(folder, from, folder, to),
        Err(e) => Err(e),
    }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    /// `fsync` of a folder in /proc returns EINVAL.
    #[test]
    fn a_folder_that_has_nothing_to_sync_is_durable() {
        let folder = File::open("/proc/self/fd").unwrap();
        assert_eq!(rustix::fs::fsync(&folder), Err(Errno::INVAL));
        assert_eq!(sync_folder(&folder), Ok(()));
    }

    struct Room {
        at: tempfile::TempDir,
        folder: File,
    }

    impl Room {
        fn new() -> Room {
            let at = tempfile::tempdir().unwrap();
            fs::write(at.path().join("new"), "new").unwrap();
            let folder = File::open(at.path()).unwrap();
            Room { at, folder }
        }

        fn write(&self, text: &str) {
            let path = self.at.path().join("disk");
            // Another program's file is not replaced.
            let _ = fs::remove_file(&path);
            fs::write(path, text).unwrap();
        }

        fn look(&self) -> Option<ExistingFile> {
            ExistingFile::examine(&self.folder, OsStr::new("disk")).unwrap()
        }

        fn publish(&self, over: Option<&ExistingFile>) -> io::Result<()> {
            publish(&self.folder, OsStr::new("new"), OsStr::new("disk"), over)
        }

        /// The content under both names.
        fn holds(&self, new: Option<&str>, disk: &str) {
            assert_eq!(fs::read_to_string(self.at.path().join("new")).ok().as_deref(), new);
            assert_eq!(fs::read_to_string(self.at.path().join("disk")).unwrap(), disk);
        }
    }

    #[test]
    fn a_free_name_is_taken_and_one_that_was_taken_meanwhile_is_not() {
        for way in [take_free, rename, link, look_and_rename] {
            let room = Room::new();
            let take = || way(room.folder.as_fd(), OsStr::new("new"), OsStr::new("disk"));
            take().unwrap();
            room.holds(None, "new");
            fs::write(room.at.path().join("new"), "newer").unwrap();
            assert_eq!(take().unwrap_err(), Errno::EXIST);
            room.holds(Some("newer"), "new");
        }
    }

    #[test]
    fn the_file_that_stood_there_is_replaced_and_no_other() {
        let room = Room::new();
        assert!(room.look().is_none());
        room.write("old");
        let old = room.look();
        assert!(old.is_some());
        room.write("another");
        let e = room.publish(old.as_ref()).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::AlreadyExists);
        room.holds(Some("new"), "another");
        room.publish(room.look().as_ref()).unwrap();
        room.holds(None, "new");
    }

    #[test]
    fn a_file_that_has_gone_leaves_a_free_name() {
        let room = Room::new();
        room.write("old");
        let old = room.look();
        fs::remove_file(room.at.path().join("disk")).unwrap();
        room.publish(old.as_ref()).unwrap();
        room.holds(None, "new");
    }

    #[test]
    fn a_link_that_was_put_there_is_not_replaced() {
        let room = Room::new();
        std::os::unix::fs::symlink("nowhere", room.at.path().join("disk")).unwrap();
        assert_eq!(room.publish(None).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(room.at.path().join("disk").is_symlink());
    }
}
