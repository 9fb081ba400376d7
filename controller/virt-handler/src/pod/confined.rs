//! Access to folders of tenants without leaving them.
//!
//! ```text
//!  Folder::open("/var/lib/kubelet/pods/UID")   ours, trusted: links of the host's own are followed
//!     └─ .folder("volumes/…/sockets")          openat2(BENEATH, NO_SYMLINKS, NO_MAGICLINKS): refuses every link,
//!           └─ .held("disk.img")               every `..` that leaves, every absolute path
//!                 └─ .open(Access::Read)       only a checked regular file; by the descriptor, not the name
//!  process.root()                              a container's own root; mounts in it are followed, `open_in_root` keeps inside
//!     └─ .open_in_root(OUTER).folder("vmi-disks/v")  links of the image as far as the outermost mount, none below
//!           └─ .is_mount()                     a volume is a mount; a plain folder or a link is a tenant's
//!  process.image()                             the same without the mounts in it: the image alone
//! ```
//!
//! virt-handler is root, but the tenant who fills a pod's folder is not, and may change it between two of our
//! steps. Therefore everything is done on opened descriptors, never twice by name. Opening alone can do harm:
//! a tape device begins to wind, a watchdog to count down, a pipe lets its writer go. So a name is first held
//! (`O_PATH`, which opens nothing) and checked, and [`PathHandle::open`] is the only way to open it.
//!
//! Each call may block as long as a file system of a tenant likes, so calls are made in work of
//! `virt_handler::blocking`.
#![expect(clippy::disallowed_methods, reason = "this is the way in to files of tenants")]

use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Stat, StatxAttributes, StatxFlags,
    Uid, XattrFlags, chownat, fchown, fstat, getxattr, mkdirat, mknodat, openat, openat2, readlinkat,
    renameat, renameat_with, setxattr, statat, statx, unlinkat,
};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

pub use api::launcher::USER as LAUNCHER;

const BENEATH: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// Extended attribute with the SELinux label of a file.
const LABEL: &str = "security.selinux";

/// Access mode of an opened file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    /// Write only: some files of the kernel cannot be read.
    WriteOnly,
}

/// An open folder, and its path in errors.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    shown: PathBuf,
    /// Rules for the resolution of paths in it.
    resolve: ResolveFlags,
}

/// An entry of a folder, held but not opened.
#[derive(Debug)]
pub struct PathHandle {
    fd: OwnedFd,
    stat: Stat,
    shown: PathBuf,
}

/// Metadata of an entry of a folder.
pub struct EntryMetadata(Stat);

impl Folder {
    /// Opens a folder of the host.
    pub fn open(path: &Path) -> Result<Folder> {
        assert_off_runtime();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())
            .map_err(|e| Error::io(format!("cannot open the folder {}", path.display()), e))?;
        Ok(Folder { fd, shown: path.to_owned(), resolve: BENEATH })
    }

    /// Wraps a folder that is open already.
    pub(super) fn from_fd(fd: OwnedFd, shown: PathBuf) -> Folder {
        Folder { fd, shown, resolve: BENEATH }
    }

    /// Wraps a folder that is open already, without the mounts in it.
    pub(super) fn unmixed(fd: OwnedFd, shown: PathBuf) -> Folder {
        Folder { fd, shown, resolve: BENEATH.union(ResolveFlags::NO_XDEV) }
    }

    /// The same folder without the mounts in it.
    pub fn alone(&self) -> Result<Folder> {
        let Folder { fd, .. } = self.folder(".")?;
        Ok(Folder::unmixed(fd, self.shown.clone()))
    }

    /// Opens a folder below this one, without following links.
    pub fn folder(&self, path: &str) -> Result<Folder> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let (fd, resolve) = (self.walk(path, flags, self.resolve)?, self.resolve);
        Ok(Folder { fd, shown: self.shown.join(path), resolve })
    }

    /// Opens a folder by its absolute path in the container whose root this is. Links are followed within the
    /// root (`/var/run`) and cannot lead out of it. Use it for paths of folders that belong to root in each
    /// image: if a tenant may write to a folder on the way, it can put a link there. Deeper paths are opened
    /// from there, by `folder`.
    pub fn open_in_root(&self, path: &str) -> Result<Folder> {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let fd = self.walk(path, OFlags::PATH | OFlags::DIRECTORY, resolve)?;
        Ok(Folder { fd, shown: self.shown.join(path.trim_start_matches('/')), resolve: BENEATH })
    }

    /// Holds the entry of this name, of any type but a link.
    pub fn held(&self, path: &str) -> Result<PathHandle> {
        let fd = self.walk(path, OFlags::PATH | OFlags::NOFOLLOW, self.resolve)?;
        let shown = self.shown.join(path);
        let stat = stat(&fd, &shown)?;
        // A link can be held without being followed, but no caller wants one.
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return Err(self.cannot(path, Errno::LOOP));
        }
        Ok(PathHandle { fd, stat, shown })
    }

    /// Opens the regular file of this name for reading.
    pub fn read(&self, path: &str) -> Result<File> {
        self.held(path)?.open(Access::Read)
    }

    /// Opens the regular file of this name for reading and writing.
    pub fn write(&self, path: &str) -> Result<File> {
        self.held(path)?.open(Access::Write)
    }

    /// Creates a file, which must not exist, and gives it to the launcher.
    pub fn create(&self, path: &str) -> Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP;
        let fd = retried(|| openat2(&self.fd, path, flags, mode, self.resolve))
            .map_err(|e| self.cannot(path, e))?;
        give_to_launcher(fd.as_fd()).map_err(|e| self.cannot(path, e))?;
        Ok(fd.into())
    }

    /// Opens a folder, and creates missing ones on the way, which are given to the launcher.
    pub fn create_all(&self, path: &str) -> Result<Folder> {
        let mut here = self.folder(".")?;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            match mkdirat(&here.fd, part, Mode::RWXU | Mode::RGRP | Mode::XGRP) {
                Ok(()) => {
                    let new = here.held(part)?;
                    if new.kind() != FileType::Directory {
                        return Err(here.cannot(part, Errno::NOTDIR));
                    }
                    new.give_to_launcher()?;
                }
                Err(Errno::EXIST) => {}
                Err(e) => {
                    return Err(Error::io(format!("cannot make {}", here.shown.join(part).display()), e));
                }
            }
            here = here.folder(part)?;
        }
        Ok(here)
    }

    /// Opens a direct subfolder, or creates it for root only.
    pub fn made_for_root(&self, name: &str) -> Result<Folder> {
        single(name, self)?;
        match mkdirat(&self.fd, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => self.folder(name),
            Err(e) => Err(Error::io(format!("cannot make {}", self.shown.join(name).display()), e)),
        }
    }

    /// Holds the node of a block device directly in this folder. A missing node is created and given to the
    /// launcher.
    pub fn block_device(&self, name: &str, number: u64) -> Result<PathHandle> {
        single(name, self)?;
        let mode = Mode::RUSR | Mode::WUSR;
        match mknodat(&self.fd, name, FileType::BlockDevice, mode, number) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => {
                return Err(Error::io(
                    format!("cannot make the device {}", self.shown.join(name).display()),
                    e,
                ));
            }
        }
        let node = self.held(name)?;
        if node.kind() != FileType::BlockDevice || node.device_number() != number {
            let shown = node.shown.display();
            return Err(Error::refused(format!(
                "{shown} is not the block device of the expected number; remove it"
            )));
        }
        node.give_to_launcher()?;
        Ok(node)
    }

    /// Names in this folder without `.` and `..`; at most `most`.
    pub fn names(&self, most: usize) -> Result<Vec<String>> {
        let cannot = |e: Errno| Error::io(format!("cannot list {}", self.shown.display()), e);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(&self.fd, ".", flags, Mode::empty()).map_err(cannot)?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::new(fd).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let name = std::str::from_utf8(name).map_err(|_| {
                Error::refused(format!("{} has an entry whose name is not UTF-8", self.shown.display()))
            })?;
            if names.len() == most {
                return Err(Error::refused(format!("{} holds more than {most} files", self.shown.display())));
            }
            names.push(name.to_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Metadata of a direct entry; links are not followed.
    pub fn metadata(&self, name: &str) -> Result<EntryMetadata> {
        single(name, self)?;
        let stat = statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).map_err(|e| self.cannot(name, e))?;
        Ok(EntryMetadata(stat))
    }

    /// Target text of a link directly in this folder; it is not followed.
    pub fn link(&self, name: &str) -> Result<String> {
        single(name, self)?;
        let text = readlinkat(&self.fd, name, Vec::new()).map_err(|e| self.cannot(name, e))?;
        let shown = self.shown.join(name);
        text.into_string()
            .map_err(|_| Error::refused(format!("the target of the link {} is not UTF-8", shown.display())))
    }

    /// Removes a file directly in this folder, if it exists.
    pub fn remove(&self, name: &str) -> Result<()> {
        single(name, self)?;
        match unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(Error::io(format!("cannot remove {}", self.shown.join(name).display()), e)),
        }
    }

    /// Renames a file directly in this folder; the new name must be free.
    pub fn rename(&self, from: &str, to: &str) -> Result<()> {
        single(from, self)?;
        single(to, self)?;
        // Not every file system supports "do not replace"; then the earlier check has to be enough.
        match renameat_with(&self.fd, from, &self.fd, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL) => renameat(&self.fd, from, &self.fd, to),
            done => done,
        }
        .map_err(|e| Error::io(format!("cannot make {}", self.shown.join(to).display()), e))
    }

    /// Bytes that an unprivileged user may still write here.
    pub fn free_space(&self) -> Result<u64> {
        let found = rustix::fs::fstatvfs(&self.fd)
            .map_err(|e| Error::io(format!("cannot read the free space of {}", self.shown.display()), e))?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Size of the file system in bytes.
    pub fn capacity(&self) -> Result<u64> {
        let found = rustix::fs::fstatvfs(&self.fd)
            .map_err(|e| Error::io(format!("cannot read the size of {}", self.shown.display()), e))?;
        Ok(found.f_blocks.saturating_mul(found.f_frsize))
    }

    /// Device number of the file system.
    pub fn device(&self) -> Result<u64> {
        let found =
            fstat(&self.fd).map_err(|e| Error::io(format!("cannot look at {}", self.shown.display()), e))?;
        Ok(found.st_dev)
    }

    /// True if the folder is a mount point, of any file system. A tenant can create folders and links, but no
    /// mounts. It can exchange the names of mounts in a container that has their parent folder, but not the
    /// mounts.
    pub fn is_mount(&self) -> Result<bool> {
        let shown = self.shown.display();
        let found = statx(&self.fd, "", AtFlags::EMPTY_PATH, StatxFlags::empty())
            .map_err(|e| Error::io(format!("cannot look at {shown}"), e))?;
        match found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) {
            true => Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
            false => Err(Error::failed(format!(
                "cannot find out whether {shown} is a mount: this needs Linux 5.8 or later"
            ))),
        }
    }

    /// True if both are the same folder.
    pub fn is(&self, other: &Folder) -> Result<bool> {
        let stat = |folder: &Folder| {
            fstat(&folder.fd).map_err(|e| Error::io(format!("cannot look at {}", folder.shown.display()), e))
        };
        let (this, that) = (stat(self)?, stat(other)?);
        Ok((this.st_dev, this.st_ino) == (that.st_dev, that.st_ino))
    }

    /// Path to an entry directly in this folder, valid as long as the folder is open, and short.
    pub(super) fn by_descriptor(&self, name: &str) -> Result<String> {
        single(name, self)?;
        Ok(format!("{}/{name}", by_descriptor(&self.fd)))
    }

    /// Path of the folder for error messages.
    pub fn display_path(&self) -> &Path {
        &self.shown
    }

    fn walk(&self, path: &str, flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd> {
        assert_off_runtime();
        retried(|| openat2(&self.fd, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve))
            .map_err(|e| self.cannot(path, e))
    }

    fn cannot(&self, path: &str, e: Errno) -> Error {
        let shown = self.shown.join(path.trim_start_matches('/'));
        let shown = shown.display();
        match e {
            Errno::LOOP => {
                Error::refused(format!("{shown} is a link, or is below one; links are not followed"))
            }
            Errno::XDEV => Error::refused(format!("{shown} leads out of its folder")),
            Errno::NOTDIR => Error::refused(format!("a parent of {shown} is not a folder")),
            Errno::EXIST => Error::new(ErrorKind::Failed, format!("{shown} is there already")),
            e => Error::io(format!("cannot open {shown}"), e),
        }
    }
}

impl EntryMetadata {
    /// Type of the entry.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.0.st_mode)
    }

    pub fn size(&self) -> u64 {
        u64::try_from(self.0.st_size).unwrap_or_default()
    }

    /// Bytes that it takes on the file system: fewer than its size if it has holes.
    pub fn allocated(&self) -> u64 {
        u64::try_from(self.0.st_blocks).unwrap_or_default().saturating_mul(512)
    }

    /// True if it is the same file as this open one.
    pub fn is(&self, file: &Metadata) -> bool {
        (self.0.st_dev, self.0.st_ino) == (file.dev(), file.ino())
    }
}

impl PathHandle {
    /// Descriptor for calls that take a held entry.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Path of the entry for error messages.
    pub fn display_path(&self) -> &Path {
        &self.shown
    }

    /// True if both are the same file, even by different paths.
    pub fn is(&self, other: &PathHandle) -> bool {
        (self.stat.st_dev, self.stat.st_ino) == (other.stat.st_dev, other.stat.st_ino)
    }

    /// Type of the entry.
    pub fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Number of the device, if it is a device node.
    pub fn device_number(&self) -> u64 {
        self.stat.st_rdev
    }

    /// Gives it the SELinux label of another file, without the categories that separate the files of pods.
    pub fn label_like(&self, other: &PathHandle) -> Result<()> {
        let mut label = [0_u8; 512];
        let length = match getxattr(other.by_descriptor(), LABEL, &mut label[..]) {
            Ok(length) => length,
            // No SELinux.
            Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(()),
            Err(e) => {
                return Err(Error::io(
                    format!("cannot read the SELinux label of {}", other.shown.display()),
                    e,
                ));
            }
        };
        let text = String::from_utf8_lossy(&label[..length]);
        let parts: Vec<&str> = text.trim_end_matches('\0').splitn(4, ':').collect();
        let [user, role, kind, _] = parts[..] else { return Ok(()) };
        let wanted = format!("{user}:{role}:{kind}:s0");
        setxattr(self.by_descriptor(), LABEL, wanted.as_bytes(), XattrFlags::empty()).map_err(|e| {
            Error::io(format!("cannot give {} the SELinux label {wanted}", self.shown.display()), e)
        })
    }

    /// Makes the launcher its owner. A file with a second hard link is refused, since it may belong to
    /// another user under that name.
    pub fn give_to_launcher(&self) -> Result<()> {
        if self.kind() != FileType::Directory && self.stat.st_nlink > 1 {
            let shown = self.shown.display();
            return Err(Error::refused(format!(
                "{shown} has more than one hard link, so its owner is not changed; remove the other names"
            )));
        }
        let flags = AtFlags::EMPTY_PATH;
        let (uid, gid) = (Uid::from_raw(LAUNCHER), Gid::from_raw(LAUNCHER));
        if self.stat.st_uid == LAUNCHER && self.stat.st_gid == LAUNCHER {
            return Ok(());
        }
        chownat(&self.fd, "", Some(uid), Some(gid), flags).map_err(|e| {
            Error::io(format!("cannot make the launcher the owner of {}", self.shown.display()), e)
        })
    }

    /// Opens the regular file by its descriptor: the path is not resolved again, and other types are refused.
    pub fn open(&self, access: Access) -> Result<File> {
        assert_off_runtime();
        if self.kind() != FileType::RegularFile {
            return Err(Error::refused(format!("{} is not a regular file", self.shown.display())));
        }
        let how = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::WriteOnly => OFlags::WRONLY,
        };
        // A lease of another process may block the opening; with NONBLOCK it fails instead.
        let flags = how | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = openat(CWD, self.by_descriptor(), flags, Mode::empty())
            .map_err(|e| Error::io(format!("cannot open {}", self.shown.display()), e))?;
        Ok(fd.into())
    }

    /// Opens the block device for reading, even if its node is on a mount without devices. Call it for
    /// volumes of the pod only: opening other devices can do harm.
    pub fn open_block_device(&self) -> Result<File> {
        assert_off_runtime();
        if self.kind() != FileType::BlockDevice {
            return Err(Error::refused(format!("{} is not a block device", self.shown.display())));
        }
        let reached = super::mounts::permitting_devices(self)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = openat(CWD, by_descriptor(&reached), flags, Mode::empty())
            .map_err(|e| Error::io(format!("cannot open {}", self.shown.display()), e))?;
        Ok(fd.into())
    }

    /// Holds an open file.
    pub fn from_file(file: &File, shown: PathBuf) -> Result<PathHandle> {
        let cannot = |e| Error::io(format!("cannot hold {}", shown.display()), e);
        let fd = file.as_fd().try_clone_to_owned().map_err(cannot)?;
        let stat = stat(&fd, &shown)?;
        Ok(PathHandle { fd, stat, shown })
    }

    /// Path to the held entry in this process, valid as long as it is held.
    pub(super) fn by_descriptor(&self) -> String {
        by_descriptor(&self.fd)
    }
}

fn by_descriptor(fd: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// Checks that a name has one part.
fn single(name: &str, folder: &Folder) -> Result<()> {
    match name {
        "" | "." | ".." => {}
        name if name.contains('/') => {}
        _ => return Ok(()),
    }
    Err(Error::refused(format!("invalid file name {name:?} in {}", folder.shown.display())))
}

fn stat(fd: &OwnedFd, shown: &Path) -> Result<Stat> {
    fstat(fd).map_err(|e| Error::io(format!("cannot look at {}", shown.display()), e))
}

/// Checks that this thread is one of `virt_handler::blocking`, which the runtime does not know. Anything else
/// is a bug of this program.
fn assert_off_runtime() {
    debug_assert!(
        tokio::runtime::Handle::try_current().is_err(),
        "files are opened in work of virt_handler::blocking"
    );
}

/// Makes the launcher the owner of a file.
pub fn give_to_launcher(file: BorrowedFd<'_>) -> rustix::io::Result<()> {
    fchown(file, Some(Uid::from_raw(LAUNCHER)), Some(Gid::from_raw(LAUNCHER)))
}

/// The kernel gives up if a file was renamed meanwhile anywhere. The call is retried a limited number of
/// times.
fn retried(mut open: impl FnMut() -> rustix::io::Result<OwnedFd>) -> rustix::io::Result<OwnedFd> {
    let mut tries = 0;
    loop {
        match open() {
            Err(Errno::AGAIN) if tries < 100 => tries += 1,
            done => return done,
        }
    }
}

#[cfg(test)]
#[path = "confined_tests.rs"]
mod tests;
