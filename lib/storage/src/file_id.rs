//! The identity of a file: equal for every path, name and descriptor of one file.

use rustix::fs::{AtFlags, CWD, Stat, StatxFlags};
use rustix::io::{Errno, Result};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fmt;
use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Device and inode number of a file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    dev: u64,
    ino: u64,
}

impl FileId {
    /// The identity of the file with these numbers.
    pub(crate) fn new(dev: u64, ino: u64) -> FileId {
        FileId { dev, ino }
    }

    /// The identity of an open file.
    pub fn of(file: impl AsFd) -> Result<FileId> {
        Ok(FileId::from_stat(&rustix::fs::fstat(file)?))
    }

    /// The identity of the file at a path. Symbolic links are followed.
    pub fn of_path(path: &Path) -> Result<FileId> {
        Ok(FileId::from_stat(&rustix::fs::statat(CWD, path, AtFlags::empty())?))
    }

    /// The identity of the file of this name in a folder. `None` if the name is free. A symbolic link is not
    /// followed.
    pub fn of_name(folder: impl AsFd, name: &OsStr) -> Result<Option<FileId>> {
        match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(FileId::from_stat(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The identity of the file with these attributes.
    pub(crate) fn of_metadata(meta: &Metadata) -> FileId {
        FileId { dev: meta.dev(), ino: meta.ino() }
    }

    /// Number of the file system, as `stat` reports it.
    pub(crate) fn dev(self) -> u64 {
        self.dev
    }

    /// Inode number.
    pub(crate) fn ino(self) -> u64 {
        self.ino
    }

    /// The identity of the file with these attributes.
    pub fn from_stat(stat: &Stat) -> FileId {
        FileId { dev: stat.st_dev, ino: stat.st_ino }
    }
}

/// Where bytes are: in a block device, whichever node it has, or in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Location {
    Device(u64),
    File(FileId),
}

impl Location {
    /// The location of the file or device with these attributes.
    pub(crate) fn of(meta: &Metadata) -> Location {
        match meta.file_type().is_block_device() {
            true => Location::Device(meta.rdev()),
            false => Location::File(FileId::of_metadata(meta)),
        }
    }
}

/// The identity of a file on disk, to be kept in a record: inode number, and time of birth where the file system has
/// one. A write changes neither. The number of the device is not part of it: some file systems get another one
/// with each mount.
///
/// Overlayfs gives a file another time of birth when it is first opened for writing, and keeps its number. A file system in user
/// space may number its files anew with each mount, and has no times of birth then ([`LastingFileId::may_have_moved`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastingFileId {
    ino: u64,
    /// Seconds and nanoseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<(i64, u32)>,
}

impl LastingFileId {
    /// The identity of an open file.
    pub fn of(file: impl AsFd) -> Result<LastingFileId> {
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        match rustix::fs::statx(file.as_fd(), "", AtFlags::EMPTY_PATH, wanted) {
            Ok(found) => {
                let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
                let born = has_birth.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec));
                Ok(LastingFileId { ino: found.stx_ino, born })
            }
            // Old container runtimes forbid the call.
            Err(_) => Ok(LastingFileId { ino: rustix::fs::fstat(file)?.st_ino, born: None }),
        }
    }

    /// True if both are the same file beyond doubt: both have a time of birth, and it is the same.
    pub fn is_surely(&self, other: &LastingFileId) -> bool {
        self.born.is_some() && self == other
    }

    /// True if two identities that differ may be of one file, at one path at two times.
    pub fn may_have_moved(&self, other: &LastingFileId) -> bool {
        self.ino == other.ino || self.born.is_none() || other.born.is_none()
    }

    /// True if both may be the same file. A time of birth that one of them lacks is not compared.
    pub fn may_be(&self, other: &LastingFileId) -> bool {
        let is_born_with = match (self.born, other.born) {
            (Some(own), Some(other)) => own == other,
            _ => true,
        };
        self.ino == other.ino && is_born_with
    }
}

/// "inode:12 born:1700000000.000000009", or "inode:12 born:unknown".
impl fmt::Display for LastingFileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.born {
            Some((seconds, nanoseconds)) => write!(f, "inode:{} born:{seconds}.{nanoseconds:09}", self.ino),
            None => write!(f, "inode:{} born:unknown", self.ino),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn a_written_file_keeps_its_lasting_identity_and_its_successor_has_another() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let id = || LastingFileId::of(File::open(&path).unwrap()).unwrap();
        fs::write(&path, "one").unwrap();
        let first = id();
        fs::write(&path, "another, over it").unwrap();
        assert!(first.may_be(&id()));
        fs::rename(&path, folder.path().join("b")).unwrap();
        fs::write(&path, "one").unwrap();
        assert!(!first.may_be(&id()));
        let read: LastingFileId = serde_json::from_str(&serde_json::to_string(&first).unwrap()).unwrap();
        assert_eq!(read, first);
    }

    #[test]
    fn a_file_system_without_times_of_birth_tells_files_by_their_numbers() {
        let id = |ino, born| LastingFileId { ino, born };
        assert!(id(1, None).may_be(&id(1, Some((2, 3)))));
        assert!(!id(1, None).may_be(&id(2, None)));
        assert!(!id(1, Some((2, 3))).may_be(&id(1, Some((2, 4)))), "a number that is used again");
        assert!(id(1, Some((2, 3))).is_surely(&id(1, Some((2, 3)))));
        assert!(
            id(1, None).may_have_moved(&id(2, None))
                && id(1, Some((2, 3))).may_have_moved(&id(1, Some((9, 3))))
        );
        assert!(!id(1, Some((2, 3))).may_have_moved(&id(2, Some((9, 3)))));
        assert!(!id(1, None).is_surely(&id(1, None)) && !id(1, None).is_surely(&id(1, Some((2, 3)))));
    }

    /// Journals hold this text.
    #[test]
    fn a_lasting_identity_is_shown_with_all_digits_of_its_nanoseconds() {
        let shown = |ino, born| LastingFileId { ino, born }.to_string();
        assert_eq!(shown(12, Some((1_700_000_000, 9))), "inode:12 born:1700000000.000000009");
        assert_eq!(shown(12, Some((1_700_000_000, 123_456_789))), "inode:12 born:1700000000.123456789");
        assert_eq!(shown(u64::MAX, None), "inode:18446744073709551615 born:unknown");
    }
}
