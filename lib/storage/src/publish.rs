//! Renaming a complete file to its final name without replacing a file of another program.
//!
//! A run examines the final name at its beginning, which may be hours before its end. If the name was free
//! then, a file that has it at the end belongs to another program, which may be using it, and is not
//! replaced. If a file had the name, only that same file is replaced, only while it is not in use, and only as it
//! was: the writes of a VM that ran from it meanwhile, and has ended, show in its times.
//!
//! The name of the unfinished file may lead elsewhere by the end, too: a user removes the file, and the next
//! run creates another one under the same name. That one is incomplete, so the name is compared with the open
//! file directly before the rename.
//!
//! ```text
//!  ExistingFile::examine
//!    ├─ None ─► publish: stat; renameat2(RENAME_NOREPLACE); if the file system lacks it, link and unlink;
//!    │                   if it lacks links too (FAT, some FUSE ones), stat and rename
//!    └─ Some ─► publish: size and times of that file; its locks; stat of both names, to compare; rename
//! ```
//!
//! A name that another program changes between stat and rename can still be the wrong one: no system call
//! renames, or replaces, one particular file.

use crate::{FileId, file_in_use, own_file};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The file that had the final name at the beginning. An `O_PATH` descriptor holds it without opening it: no
/// other file can get its inode number meanwhile, a network or FUSE file system does not change the number,
/// and no file server sees it in use.
pub struct ExistingFile {
    stat: Stat,
    held: OwnedFd,
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
        Ok(ExistingFile { stat: rustix::fs::fstat(&held)?, held })
    }

    /// The kind of the file, in words, if it is not a regular file. No other file may be replaced: a rename
    /// over `/dev/null` takes the device from all programs.
    pub fn odd_kind(&self) -> Option<&'static str> {
        match FileType::from_raw_mode(self.stat.st_mode) {
            FileType::RegularFile => None,
            FileType::Symlink => Some("a symbolic link"),
            FileType::Directory => Some("a folder"),
            FileType::Fifo => Some("a named pipe"),
            FileType::Socket => Some("a socket"),
            FileType::CharacterDevice => Some("a character device"),
            FileType::BlockDevice => Some("a block device"),
            FileType::Unknown => Some("of an unknown type"),
        }
    }

    /// Examines the file again, after an open for writing: overlayfs copies a file for that, which changes its times.
    pub fn examine_again(&mut self) -> rustix::io::Result<()> {
        self.stat = rustix::fs::fstat(&self.held)?;
        Ok(())
    }

    /// True if the file has this name, and has been neither written nor changed since it was examined.
    fn is_unchanged(&self, folder: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<bool> {
        let state = |stat: &Stat| {
            (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
        };
        match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(now) => Ok(is_same(&now, &self.stat) && state(&now) == state(&self.stat)),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Attributes of the file at the time it was examined.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// The users of the file, which still has this name, as the end of a sentence. `None` if it has none, or
    /// if it is not a regular file. A VM that runs from it would go on to write into a file without a name.
    pub fn user(&self, folder: impl AsFd, name: &OsStr) -> io::Result<Option<String>> {
        if FileType::from_raw_mode(self.stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let folder = folder.as_fd();
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(folder, name, flags, Mode::empty()) {
            Err(Errno::TXTBSY) => return Ok(Some("it is being executed".to_owned())),
            // Its locks can be asked for without the right to write to it.
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
                rustix::fs::openat(folder, name, flags - OFlags::RDWR, Mode::empty())
            }
            opened => opened,
        };
        match opened {
            Ok(fd) => file_in_use(&File::from(fd)),
            // The rename reports what is there instead.
            Err(_) => Ok(None),
        }
    }
}

/// Renames `file` from `from` to `to` in the same folder. The name `to` must be free, or belong to the file
/// `over`, which is replaced. After an error all files stay as they are:
///
/// | error | reason |
/// |---|---|
/// | `NotFound` | `from` is not a name of `file` any more |
/// | `AlreadyExists` | another file than `over` has the name `to`, or `over` was changed since it was examined |
/// | `ResourceBusy` | another process uses `over` |
pub fn publish(
    folder: impl AsFd,
    file: impl AsFd,
    from: &OsStr,
    to: &OsStr,
    over: Option<&ExistingFile>,
) -> io::Result<()> {
    let folder = folder.as_fd();
    let is_free = match over {
        None => true,
        Some(over) => {
            // Before the open of `user`, which may change times. A VM that starts after this is found by `user`.
            let is_unchanged = over.is_unchanged(folder, to)?;
            if let Some(how) = over.user(folder, to)? {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, how));
            }
            match FileId::of_name(folder, to)? {
                None => true,
                Some(now) if is_unchanged && now == FileId::from_stat(&over.stat) => false,
                Some(_) => return Err(Errno::EXIST.into()),
            }
        }
    };
    if !own_file::leads_to(folder, from, file)? {
        let what = "it was removed or replaced by another run";
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    if is_free {
        return Ok(take_free(folder, from, to)?);
    }
    Ok(rustix::fs::renameat(folder, from, folder, to)?)
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
    FileId::from_stat(one) == FileId::from_stat(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
            self.publish_file(&self.open_new(), over)
        }

        fn open_new(&self) -> File {
            File::open(self.at.path().join("new")).unwrap()
        }

        fn publish_file(&self, file: &File, over: Option<&ExistingFile>) -> io::Result<()> {
            publish(&self.folder, file, OsStr::new("new"), OsStr::new("disk"), over)
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

    /// The next run creates the file that a user removed, and has not finished it.
    #[test]
    fn a_file_that_another_run_made_under_the_name_is_not_published() {
        for has_old in [false, true] {
            for is_replaced in [false, true] {
                let room = Room::new();
                if has_old {
                    room.write("old");
                }
                let (old, ours) = (room.look(), room.open_new());
                fs::remove_file(room.at.path().join("new")).unwrap();
                if is_replaced {
                    fs::write(room.at.path().join("new"), "unfinished").unwrap();
                }
                let e = room.publish_file(&ours, old.as_ref()).unwrap_err();
                assert_eq!(e.kind(), io::ErrorKind::NotFound, "{e}");
                assert!(e.to_string().contains("removed or replaced by another run"), "{e}");
                let content = |name: &str| fs::read_to_string(room.at.path().join(name)).ok();
                assert_eq!(content("new").as_deref(), is_replaced.then_some("unfinished"));
                assert_eq!(content("disk").as_deref(), has_old.then_some("old"));
            }
        }
    }

    #[test]
    fn a_file_that_is_in_use_is_not_replaced() {
        let room = Room::new();
        room.write("old");
        let old = room.look();
        let user = File::open(room.at.path().join("disk")).unwrap();
        user.lock_shared().unwrap();
        let e = room.publish(old.as_ref()).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::ResourceBusy, "{e}");
        room.holds(Some("new"), "old");
        drop(user);
        room.publish(old.as_ref()).unwrap();
        room.holds(None, "new");
    }

    /// A VM that ran from the file and has ended leaves nothing but its writes.
    #[test]
    fn a_file_that_was_written_or_changed_meanwhile_is_not_replaced() {
        use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
        use std::time::{Duration, SystemTime};
        let write = |file: &File| file.write_all_at(b"vm!", 0).unwrap();
        let grow = |file: &File| file.set_len(9).unwrap();
        let restore = |file: &File| {
            let modified = file.metadata().unwrap().modified().unwrap();
            file.write_all_at(b"vm!", 0).unwrap();
            file.set_modified(modified).unwrap();
        };
        let protect = |file: &File| file.set_permissions(fs::Permissions::from_mode(0o600)).unwrap();
        type Way<'a> = (&'a str, &'a dyn Fn(&File));
        let ways: [Way<'_>; 4] =
            [("write", &write), ("size", &grow), ("times put back", &restore), ("mode", &protect)];
        for (how, change) in ways {
            let room = Room::new();
            room.write("old");
            let path = room.at.path().join("disk");
            let file = File::options().write(true).open(&path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
            // The clock of a file system ticks every few milliseconds.
            std::thread::sleep(Duration::from_millis(20));
            let old = room.look();
            change(&file);
            drop(file);
            let e = room.publish(old.as_ref()).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::AlreadyExists, "{how}: {e}");
            assert!(room.at.path().join("new").exists(), "{how}");
            room.publish(room.look().as_ref()).unwrap();
            room.holds(None, "new");
        }
    }

    /// Reads, locks and the open of its users leave a file as it was.
    #[test]
    fn a_file_that_was_read_locked_and_opened_for_writing_is_replaced() {
        let room = Room::new();
        room.write("old");
        let old = room.look();
        let path = room.at.path().join("disk");
        std::thread::sleep(std::time::Duration::from_millis(20));
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.lock().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        drop(file);
        assert_eq!(old.as_ref().unwrap().user(&room.folder, OsStr::new("disk")).unwrap(), None);
        room.publish(old.as_ref()).unwrap();
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
