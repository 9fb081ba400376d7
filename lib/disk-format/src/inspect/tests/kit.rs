//! Disks for tests: made by the usual tools, or read from a fixture of their superblocks.

use crate::ReadAt;
use crate::inspect::{BYTES, Content, DiskFacts, Filesystem, READS, inspect};
use std::cell::RefCell;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};

/// A disk that counts the bytes that are read, and records their positions.
pub(super) struct Counted<D> {
    pub(super) disk: D,
    reads: AtomicU64,
    bytes: AtomicU64,
    pub(super) pages: Mutex<Vec<u64>>,
}

impl<D: ReadAt> Counted<D> {
    pub(super) fn new(disk: D) -> Self {
        Counted { disk, reads: AtomicU64::new(0), bytes: AtomicU64::new(0), pages: Mutex::default() }
    }

    /// Examines the disk and asserts the contract of `inspect`.
    pub(super) fn look(&self) -> DiskFacts {
        let found = inspect(self);
        let (reads, bytes) = (self.reads.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        assert_eq!((found.reads, found.bytes), (reads, bytes), "the stated cost is the true one");
        assert!(reads <= READS && bytes <= BYTES, "{reads} reads of {bytes} bytes");
        found
    }
}

impl<D: ReadAt> ReadAt for Counted<D> {
    fn size(&self) -> u64 {
        self.disk.size()
    }
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(buf.len() as u64, Ordering::Relaxed);
        let mut pages = self.pages.lock().unwrap();
        pages.extend((offset / 4096)..=((offset + buf.len() as u64 - 1) / 4096));
        self.disk.read_exact_at(buf, offset)
    }
}

/// Examines bytes and asserts the contract of `inspect`.
pub(super) fn look_at_bytes(disk: Vec<u8>) -> DiskFacts {
    Counted::new(disk).look()
}

/// The disk of a fixture: `size N`, then lines of an offset and bytes, both hexadecimal. All other bytes are
/// zero.
pub(super) fn fixture(text: &str) -> Vec<u8> {
    let disk = RefCell::new(vec![]);
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        let (at, value) = line.split_once(' ').unwrap();
        if at == "size" {
            disk.borrow_mut().resize(value.parse().unwrap(), 0);
            continue;
        }
        let at = usize::from_str_radix(at, 16).unwrap();
        let byte = |i: usize| u8::from_str_radix(&value[i..i + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..value.len()).step_by(2).map(byte).collect();
        disk.borrow_mut()[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    disk.into_inner()
}

/// The filesystem, which must have been recognised.
pub(super) fn known(content: &Content) -> &Filesystem {
    match content {
        Content::Known(found) => found,
        other => panic!("nothing known, but {other:?}"),
    }
}

/// A temporary folder for a test's files.
pub(super) struct Folder(tempfile::TempDir);

impl Folder {
    pub(super) fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Creates a file and its folders.
    pub(super) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// An empty disk.
    pub(super) fn disk(&self, name: &str, size: u64) -> PathBuf {
        let path = self.path(name);
        fs::File::create(&path).unwrap().set_len(size).unwrap();
        path
    }
}

/// Runs a tool, which must succeed. Administration tools are found even if their folder is not in `PATH`.
pub(super) fn run(tool: &str, args: &[&dyn AsRef<Path>], stdin: &str) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("/usr/bin/env");
    command.env("PATH", path).arg(tool).args(args.iter().map(|a| a.as_ref()));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("env runs");
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{tool}: {}", String::from_utf8_lossy(&out.stderr));
}

/// A few files of a Linux root filesystem, for `mkfs.ext4 -d`.
pub(super) fn root_files(folder: &Folder, cloud_init: bool) -> PathBuf {
    let release = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n";
    folder.file("root/usr/lib/os-release", release);
    folder.file("root/etc/fstab", "");
    std::os::unix::fs::symlink("../usr/lib/os-release", folder.path("root/etc/os-release")).unwrap();
    // Enough files for a directory of several blocks.
    for i in 0..600 {
        folder.file(&format!("root/usr/bin/program-with-a-long-name-{i}"), "");
    }
    if cloud_init {
        folder.file("root/usr/bin/cloud-init", "");
    }
    folder.path("root")
}

/// A disk like a cloud image: GPT with a BIOS boot partition, an ESP and an ext4 root with cloud-init.
pub(super) fn cloud_disk() -> Vec<u8> {
    static DISK: LazyLock<Vec<u8>> = LazyLock::new(make_cloud_disk);
    DISK.clone()
}

fn make_cloud_disk() -> Vec<u8> {
    let folder = Folder::new();
    let disk = folder.disk("disk", 96 << 20);
    let table = "label: gpt\nlabel-id: 11111111-2222-4333-8444-555555555555\n\
        start=2048, size=2048, type=21686148-6449-6E6F-744E-656564454649, name=bios\n\
        start=4096, size=69632, type=U, name=\"EFI part\"\n\
        start=73728, type=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709, name=root\n";
    run("sfdisk", &[&"-q", &disk], table);
    let root = folder.disk("root.img", 48 << 20);
    run("mkfs.ext4", &[&"-q", &"-L", &"cloudimg", &"-d", &root_files(&folder, true), &root], "");
    let mut bytes = fs::read(disk).unwrap();
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, b"\xeb\x63\x90GRUB ");
    put(4096 * 512, &fixture(include_str!("../fixtures/esp.hex")));
    put(73728 * 512, &fs::read(root).unwrap());
    bytes
}
