//! Giving a whole file its final name, and taking that name from nobody.
//!
//! A run looks at the final name when it begins, which may be hours before its end. Where nothing stood there, whatever
//! stands there at the end is another program's, which may be using it, and is not replaced. Where a file stood there,
//! that file is replaced and no other.
//!
//! ```text
//!  Standing::look ─┬─ None ─► publish: renameat2(RENAME_NOREPLACE); where the file system lacks it, link and unlink;
//!                  │                   where it lacks links too (FAT, some FUSE ones), a look and a rename
//!                  └─ Some ─► publish: a look, whether the name still leads to that file, and a rename
//! ```
//!
//! Between a look and the rename behind it another program's file can still be lost: no call replaces one certain file.

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The file that stood under a final name. It is held by its path, not opened: no other file can get its inode number
/// meanwhile, a network or FUSE file system does not give it another one, and no server sees it in use.
pub struct Standing {
    stat: Stat,
    _held: OwnedFd,
}

impl Standing {
    /// What stands under that name; a link is not followed.
    pub fn look(folder: impl AsFd, name: &OsStr) -> rustix::io::Result<Option<Standing>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Ok(held) => Standing::of(held).map(Some),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// This file.
    pub fn of(held: OwnedFd) -> rustix::io::Result<Standing> {
        Ok(Standing { stat: rustix::fs::fstat(&held)?, _held: held })
    }

    /// What it was when it was looked at.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }
}

/// Gives the file `from` the name `to` in the same folder: in place of `over`, or where nothing has that name. Where
/// another file has it by now, that is an error of the kind `AlreadyExists`, and both files stay as they are.
pub fn publish(folder: impl AsFd, from: &OsStr, to: &OsStr, over: Option<&Standing>) -> io::Result<()> {
    let folder = folder.as_fd();
    let Some(over) = over else { return Ok(take_free(folder, from, to)?) };
    match rustix::fs::statat(folder, to, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(now) if is_same(&now, &over.stat) => Ok(rustix::fs::renameat(folder, from, folder, to)?),
        Ok(_) => Err(Errno::EXIST.into()),
        Err(Errno::NOENT) => Ok(take_free(folder, from, to)?),
        Err(e) => Err(e.into()),
    }
}

/// Makes the names in a folder durable. Some FUSE and network file systems have nothing to sync in a folder, and say so.
pub fn sync_folder(folder: impl AsFd) -> rustix::io::Result<()> {
    match rustix::fs::fsync(folder) {
        Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        done => done,
    }
}

/// Takes a name that nobody has.
fn take_free(folder: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> rustix::io::Result<()> {
    for way in [rename, link] {
        match way(folder, from, to) {
            // What kernels and file systems say that do not know a flag or a link.
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
        // An NFS server may have done it, and been asked once more since its answer was lost.
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

    /// A folder of /proc answers EINVAL.
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
            // Not in place: another program's file.
            let _ = fs::remove_file(&path);
            fs::write(path, text).unwrap();
        }

        fn look(&self) -> Option<Standing> {
            Standing::look(&self.folder, OsStr::new("disk")).unwrap()
        }

        fn publish(&self, over: Option<&Standing>) -> io::Result<()> {
            publish(&self.folder, OsStr::new("new"), OsStr::new("disk"), over)
        }

        /// What stands under both names.
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
