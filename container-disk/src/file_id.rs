//! The identity of a file: equal for every path, name and descriptor of one file.

use rustix::fs::{AtFlags, CWD, Stat};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;

/// Device and inode number of a file that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    dev: u64,
    ino: u64,
}

impl FileId {
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
    pub(crate) fn from_stat(stat: &Stat) -> FileId {
        FileId { dev: stat.st_dev, ino: stat.st_ino }
    }
}
