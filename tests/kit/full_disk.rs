//! A disk that is full: a tmpfs with a limit of bytes or of files. It needs root.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Size of a disk after it has grown, in bytes.
const ENOUGH: u64 = 256 << 20;
/// Size of a page: the minimum of a tmpfs, and of each file in it.
pub const PAGE: u64 = 4096;

/// A full disk, mounted until it is dropped.
#[derive(Debug)]
pub struct FullDisk(tempfile::TempDir);

impl FullDisk {
    /// A disk with this number of bytes. `None`, with the reason printed, if this host does not permit one.
    pub fn of_bytes(bytes: u64) -> Option<FullDisk> {
        FullDisk::mounted(&format!("size={}", bytes.max(PAGE)), bytes == 0)
    }

    /// A disk with this number of files and folders of any size, besides its root.
    pub fn of_files(files: u64) -> Option<FullDisk> {
        FullDisk::mounted(&format!("size={ENOUGH},nr_inodes={}", files + 1), false)
    }

    fn mounted(limit: &str, is_filled: bool) -> Option<FullDisk> {
        let folder = tempfile::Builder::new().prefix("full").tempdir_in("/tmp").expect("a temporary folder");
        let disk = FullDisk(folder);
        if !disk.mount(&["-t", "tmpfs", "-o", &format!("{limit},mode=0700"), "none"]) {
            return None;
        }
        if is_filled {
            std::fs::write(disk.ballast(), [1; PAGE as usize]).expect("room for one page");
        }
        Some(disk)
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills the disk, except for this number of bytes.
    pub fn fill_but(&self, bytes: u64) {
        let file = std::fs::File::options().create(true).append(true).open(self.ballast());
        let mut ballast = file.expect("a file can be made");
        while ballast.write_all(&[1; PAGE as usize]).is_ok() {}
        let length = ballast.metadata().expect("its length").len() / PAGE * PAGE;
        ballast.set_len(length.saturating_sub(bytes)).expect("a file can be made shorter");
    }

    /// Removes the filling.
    pub fn empty(&self) {
        let _ = std::fs::remove_file(self.ballast());
    }

    /// Enlarges the disk.
    pub fn grow(&self) {
        let more = format!("remount,size={ENOUGH},nr_inodes=0");
        assert!(self.mount(&["-o", &more]), "{} does not grow", self.path().display());
        self.empty();
    }

    fn ballast(&self) -> PathBuf {
        self.path().join(".ballast")
    }

    #[allow(clippy::print_stderr)]
    fn mount(&self, args: &[&str]) -> bool {
        let ran = Command::new("mount").args(args).arg(self.path()).output();
        let is_done = ran.as_ref().is_ok_and(|ran| ran.status.success());
        if !is_done {
            eprintln!("left out: a tmpfs needs root: {ran:?}");
        }
        is_done
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        // A lazy unmount, since a program may still have files open there.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
