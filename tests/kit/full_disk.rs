//! A disk that is full: a tmpfs of so many bytes, or of so many files. Only for root.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes of a disk that has grown.
const ENOUGH: u64 = 256 << 20;
/// A page: the least that a tmpfs can have, and what each file takes at least.
pub const PAGE: u64 = 4096;

/// Such a disk, mounted until it is dropped.
#[derive(Debug)]
pub struct FullDisk(tempfile::TempDir);

impl FullDisk {
    /// A disk for so many bytes. `None`, with the reason printed, where this host permits none.
    pub fn of_bytes(bytes: u64) -> Option<FullDisk> {
        FullDisk::mounted(&format!("size={}", bytes.max(PAGE)), bytes == 0)
    }

    /// A disk for so many files and folders of any size, beside its own root.
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

    /// The folder that it is mounted at.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes what room is left, but for so many bytes.
    pub fn fill_but(&self, bytes: u64) {
        let file = std::fs::File::options().create(true).append(true).open(self.ballast());
        let mut ballast = file.expect("a file can be made");
        while ballast.write_all(&[1; PAGE as usize]).is_ok() {}
        let length = ballast.metadata().expect("its length").len() / PAGE * PAGE;
        ballast.set_len(length.saturating_sub(bytes)).expect("a file can be made shorter");
    }

    /// Takes no room any more.
    pub fn empty(&self) {
        let _ = std::fs::remove_file(self.ballast());
    }

    /// From now on there is room.
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
        // Lazily: a program may have files open there still.
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
