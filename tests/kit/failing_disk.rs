//! A disk that fails writes while it is full below: ext4 on a loop device, whose file lies on a tmpfs.
//!
//! ```text
//!  file system (ext4, no journal; its tables are allocated below, its free blocks are not)
//!    └─ loop device ── file ── tmpfs ◄── balloon: while it is there, no new block can be written
//! ```
//!
//! The blocks are as large as the pages of the tmpfs, since a loop device takes a write that ended in its middle for a whole one.
//!
//! Linux reports such a write-back error once, at the next sync of each open file; the pages stay in the page cache as if
//! they had been written. Only for root, where loop devices are to be had.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: usize = 1 << 20;
const SIZE: usize = 32 * MIB;

/// Such a disk, mounted until it is dropped.
pub struct FailingDisk {
    // It lies on the other one, and goes first.
    above: Mounted,
    below: Mounted,
    _folder: tempfile::TempDir,
}

impl FailingDisk {
    /// A disk that works. `None`, with the reason printed, where this host permits none.
    pub fn new() -> Option<FailingDisk> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [below, above] = ["below", "above"].map(|name| folder.path().join(name));
        for place in [&below, &above] {
            fs::create_dir(place).expect("a new folder");
        }
        let size = format!("size={}M,mode=0700", SIZE / MIB + 4);
        let below = Mounted::new(&["-t", "tmpfs", "-o", &size, "none"], &below)?;
        let file = below.0.join("disk");
        fs::write(&file, vec![0; SIZE]).expect("room for the disk");
        let file = file.to_str().expect("a path in text");
        let options = [
            "-q",
            "-b",
            "4096",
            "-O",
            "^has_journal",
            "-N",
            "256",
            "-E",
            "nodiscard,lazy_itable_init=0",
            file,
        ];
        if !run("mkfs.ext4", &options) {
            return None;
        }
        let above = Mounted::new(&["-o", "loop", file], &above)?;
        Some(FailingDisk { above, below, _folder: folder })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.above.0
    }

    /// From now on no block can be written that holds nothing yet. What was written before is durable.
    pub fn fail(&self) {
        let path = self.path().to_str().expect("a path in text");
        assert!(run("sync", &["-f", path]) && run("fstrim", &[path]), "the disk cannot be trimmed");
        let mut balloon = fs::File::create(self.balloon()).expect("a balloon");
        // By small pieces, so that no page is left.
        while balloon.write_all(&[1; 4096]).is_ok() {}
    }

    /// Takes the file system away and mounts it again: what is read from now on comes from the disk.
    pub fn remount(&self) {
        let (path, file) = (self.path(), self.below.0.join("disk"));
        let [path, file] = [path, &file].map(|path| path.to_str().expect("a path in text"));
        assert!(run("umount", &[path]) && run("mount", &["-o", "loop", file, path]), "no second mount");
    }

    /// From now on writes succeed again.
    pub fn heal(&self) {
        fs::remove_file(self.balloon()).expect("the balloon");
    }

    fn balloon(&self) -> PathBuf {
        self.below.0.join("balloon")
    }
}

/// Removes a file from the page cache, as memory pressure or a restart does.
pub fn evict(path: &Path) {
    let from = format!("if={}", path.display());
    assert!(run("dd", &[&from, "iflag=nocache", "count=0"]), "{} stays in the page cache", path.display());
}

struct Mounted(PathBuf);

impl Mounted {
    fn new(args: &[&str], place: &Path) -> Option<Mounted> {
        let place_text = place.to_str().expect("a path in text");
        run("mount", &[args, &[place_text]].concat()).then(|| Mounted(place.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Lazily: a test that failed may have files open there still.
        let place = self.0.to_str().unwrap_or_default();
        let _ = run("umount", &[place]) || run("umount", &["-l", place]);
    }
}

/// Whether a command worked; its complaint is printed as the reason of a skip.
#[allow(clippy::print_stderr)]
fn run(program: &str, args: &[&str]) -> bool {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            eprintln!("skipped: {program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
            false
        }
        Err(e) => {
            eprintln!("skipped: {program}: {e}");
            false
        }
    }
}
