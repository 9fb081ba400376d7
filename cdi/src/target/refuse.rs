//! Checks of the file under the final name, to decide if a disk may replace it. They come before the first
//! byte is written, since a rename that fails after an hour wastes the hour.

use super::disk::{OldAttributes, Replaced};
use super::real_folder::RealFolder;
use crate::{Error, Result};
use rustix::fs::{FileType, IFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;
use storage::file_in_use;
use storage::kernel_lists::is_mount_point;
use storage::publish::ExistingFile;

/// The file that the new disk replaces, and its attributes to take over; `None` if the name is free.
pub(super) fn existing(folder: &RealFolder, name: &OsStr, path: &Path) -> Result<Option<Replaced>> {
    let shown = path.display();
    let mut standing = match ExistingFile::examine(folder.fd(), name) {
        Ok(Some(standing)) => standing,
        Ok(None) if path.starts_with("/dev") && !path.starts_with("/dev/shm") => {
            let what = format!("there is no device {shown}; a file of that name would be in memory only");
            return Err(Error::new(crate::ErrorKind::NotFound, what));
        }
        Ok(None) => return Ok(None),
        Err(Errno::NAMETOOLONG) => {
            return Err(Error::new(
                crate::ErrorKind::Usage,
                format!("the name {shown} is too long for this file system"),
            ));
        }
        Err(e) => return Err(Error::io(format!("cannot examine {shown}"), e)),
    };
    let kind = match FileType::from_raw_mode(standing.stat().st_mode) {
        FileType::RegularFile => None,
        FileType::Symlink => Some("a symbolic link; name the file it points to"),
        FileType::Directory => Some("a folder; name a file in it"),
        FileType::Fifo => Some("a named pipe; write to - and redirect it there"),
        FileType::CharacterDevice => Some("a character device, not a disk"),
        FileType::BlockDevice => Some("a block device, not a file"),
        FileType::Socket => Some("a socket, not a disk"),
        _ => Some("not a regular file"),
    };
    if let Some(kind) = kind {
        return Err(Error::refused(format!("the target {shown} is {kind}")));
    }
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder.fd(), name, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(e @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => {
            let what =
                format!("the target {shown} exists and may not be written; choose another name or remove it");
            return Err(Error::failed(what).because(std::io::Error::from(e)));
        }
        Err(Errno::TXTBSY) => {
            return Err(Error::failed(format!("the target {shown} is in use: it is being executed")));
        }
        Err(e) => return Err(Error::io(format!("cannot open {shown}"), e)),
    };
    standing.examine_again().map_err(|e| Error::io(format!("cannot examine {shown}"), e))?;
    let stat = standing.stat();
    if let Some(how) = file_in_use(&file).map_err(|e| Error::io(format!("cannot examine {shown}"), e))? {
        return Err(Error::failed(format!("the target {shown} is in use: {how}")));
    }
    if let Ok(flags) = rustix::fs::ioctl_getflags(&file)
        && flags.intersects(IFlags::IMMUTABLE | IFlags::APPEND)
    {
        let what =
            format!("the target {shown} is marked immutable or append-only (chattr) and cannot be replaced");
        return Err(Error::failed(what));
    }
    if is_mount_point(path) {
        let what = format!(
            "the target {shown} is a mount point (a file bound into place) and cannot be replaced; \
             write to another name in that folder"
        );
        return Err(Error::refused(what));
    }
    sticky(folder, stat.st_uid, path)?;
    let kept = OldAttributes { mode: stat.st_mode, uid: stat.st_uid, gid: stat.st_gid };
    let kept = Some(kept).filter(|kept| is_trusted(folder, kept, path));
    Ok(Some(Replaced { standing, kept }))
}

/// True if the disk may take over the mode and the owner of a file: it is this user's, or in a folder where
/// no other user can create files. Otherwise another user may have put it there so that the disk becomes
/// theirs.
fn is_trusted(folder: &RealFolder, file: &OldAttributes, path: &Path) -> bool {
    let me = rustix::process::geteuid().as_raw();
    let others = (Mode::WGRP | Mode::WOTH).as_raw_mode();
    let closed = rustix::fs::fstat(folder.fd())
        .is_ok_and(|folder| folder.st_mode & others == 0 && (folder.st_uid == me || folder.st_uid == 0));
    if file.uid == me || closed {
        return true;
    }
    tracing::warn!(
        "{} belongs to user {} and lies in a folder that others may write to: the new disk does not take over its \
         owner and mode",
        path.display(),
        file.uid
    );
    false
}

/// In a folder like /tmp only the owner of a file, or of the folder, may replace it.
fn sticky(folder: &RealFolder, owner: u32, path: &Path) -> Result<()> {
    let me = rustix::process::geteuid().as_raw();
    let stat =
        rustix::fs::fstat(folder.fd()).map_err(|e| Error::io("cannot examine the target's folder", e))?;
    if stat.st_mode & Mode::SVTX.as_raw_mode() == 0 || me == 0 || me == owner || me == stat.st_uid {
        return Ok(());
    }
    let what =
        format!("the target {} belongs to another user, and only they may replace it there", path.display());
    Err(Error::failed(what))
}
