//! A disk whose writes fail while its backing storage is full: ext4 on a loop device, whose file lies on a
//! tmpfs.
//!
//! ```text
//!  file system (ext4, no journal; its tables are allocated below, its free blocks are not)
//!    └─ loop device ── file ── tmpfs ◄── balloon: while it exists, no new block can be written
//! ```
//!
//! A loop device of Linux 6.18 takes a write that its file system ended in the middle for a whole one: it loses bytes, and no sync
//! says so. No program can notice that. Here each block and each request is as large as a page of the tmpfs ([`request_pages`]),
//! which is written or is not.
//!
//! Linux reports such a write-back error once, at the next sync of each open file; the pages stay in the page cache as if
//! they had been written. It needs root and loop devices.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const MIB: usize = 1 << 20;
const SIZE: usize = 32 * MIB;

/// A failing disk, mounted until it is dropped.
pub struct FailingDisk {
    // Mounted on the other one, so it must be dropped first.
    above: Mounted,
    below: Mounted,
    _folder: tempfile::TempDir,
}

impl FailingDisk {
    /// A disk that works so far. `None`, with the reason printed, if this host does not permit one.
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
        let above = mount_device(file, &above)?;
        Some(FailingDisk { above, below, _folder: folder })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.above.0
    }

    /// Makes writes of new blocks fail from now on. Everything written before is durable.
    pub fn fail(&self) {
        let path = self.path().to_str().expect("a path in text");
        assert!(run("sync", &["-f", path]) && run("fstrim", &[path]), "the disk cannot be trimmed");
        let mut balloon = fs::File::create(self.balloon()).expect("a balloon");
        // Written in small pieces, so that no page stays free.
        while balloon.write_all(&[1; 4096]).is_ok() {}
    }

    /// Unmounts and mounts the file system again, so that all later reads come from the disk.
    pub fn remount(&self) {
        let (path, file) = (self.path(), self.below.0.join("disk"));
        let [path, file] = [path, &file].map(|path| path.to_str().expect("a path in text"));
        assert!(run("umount", &[path]), "the disk is in use");
        std::mem::forget(mount_device(file, self.path()).expect("a second mount"));
    }

    /// Makes the file system read-only, as ext4 does after an error of its device (`errors=remount-ro`, the
    /// default of several distributions). What was not written back by then is lost.
    pub fn give_up(&self) {
        let path = self.path().to_str().expect("a path in text");
        assert!(run("mount", &["-o", "remount,errors=remount-ro", path]), "ext4 has this option");
        // The third word of a mount is the number of its device, the fifth its place.
        let mounts = fs::read_to_string("/proc/self/mountinfo").expect("the list of mounts");
        let words = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let number = words
            .filter(|words| words.get(4) == Some(&path))
            .find_map(|words| Some(words.get(2)?.to_string()));
        let device = Path::new("/sys/dev/block").join(number.expect("the mount"));
        let device = fs::canonicalize(device).expect("a loop device");
        let trigger =
            Path::new("/sys/fs/ext4").join(device.file_name().expect("its name")).join("trigger_fs_error");
        fs::write(&trigger, "a test").unwrap_or_else(|e| panic!("{}: {e}", trigger.display()));
    }

    /// Makes writes succeed again.
    pub fn heal(&self) {
        fs::remove_file(self.balloon()).expect("the balloon");
    }

    fn balloon(&self) -> PathBuf {
        self.below.0.join("balloon")
    }
}

/// Removes a file from the page cache, like memory pressure or a restart.
pub fn evict(path: &Path) {
    let from = format!("if={}", path.display());
    assert!(run("dd", &[&from, "iflag=nocache", "count=0"]), "{} stays in the page cache", path.display());
}

/// Mounts the file system in a file by a loop device, which goes with the mount.
fn mount_device(file: &str, place: &Path) -> Option<Mounted> {
    let made = Command::new("losetup").args(["--find", "--show", file]).output().ok();
    let device = made.filter(|made| made.status.success()).map(|made| String::from_utf8(made.stdout));
    let device = device?.expect("a path in text");
    let device = device.trim();
    request_pages(device);
    let mounted = Mounted::new(&[device], place);
    // Once nothing uses it any more.
    run("losetup", &["--detach", device]);
    mounted
}

/// From now on, each request to this loop device is one page.
pub fn request_pages(device: &str) {
    let name = device.trim_start_matches("/dev/");
    let limit = format!("/sys/block/{name}/queue/max_sectors_kb");
    fs::write(&limit, "4").unwrap_or_else(|e| panic!("{limit}: {e}"));
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
        // A lazy unmount, since a failed test may still have files open there.
        let place = self.0.to_str().unwrap_or_default();
        let _ = run("umount", &[place]) || run("umount", &["-l", place]);
    }
}

/// True if a command succeeded. Its error output is printed as the reason of a skip.
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
