//! Helpers of the qcow2 writer's tests: disks to write, and comparison by `qemu-img` and `imago`.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod rule;

use disk_format::Codec;
use disk_format::qcow2::write::{Compression, FileSummary, FreshFile, Options, Packed, Writer};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A sparse disk. Bytes outside of its pieces are zero.
#[derive(Clone, Debug)]
pub struct Disk {
    pub size: u64,
    pub pieces: Vec<(u64, Vec<u8>)>,
}

impl Disk {
    pub fn new(size: u64) -> Self {
        Disk { size, pieces: vec![] }
    }

    /// Adds a piece. Pieces must come in rising order.
    pub fn with(mut self, at: u64, bytes: Vec<u8>) -> Self {
        assert!(
            self.pieces.last().is_none_or(|(a, b)| a + b.len() as u64 <= at)
                && at + bytes.len() as u64 <= self.size
        );
        if !bytes.is_empty() {
            self.pieces.push((at, bytes));
        }
        self
    }

    /// A cluster's bytes, truncated at the end of the disk. `None` if no piece touches it.
    fn cluster(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        let end = (at + len).min(self.size);
        let mut out = None;
        for (from, bytes) in &self.pieces {
            let to = from + bytes.len() as u64;
            let (a, b) = ((*from).max(at), to.min(end));
            if a < b {
                let out = out.get_or_insert_with(|| vec![0; (end - at) as usize]);
                out[(a - at) as usize..(b - at) as usize]
                    .copy_from_slice(&bytes[(a - from) as usize..(b - from) as usize]);
            }
        }
        out
    }

    pub fn write_raw(&self, path: &Path) {
        let file = File::create(path).unwrap();
        file.set_len(self.size).unwrap();
        for (at, bytes) in &self.pieces {
            file.write_all_at(bytes, *at).unwrap();
        }
    }

    /// Offsets of all clusters that a piece touches, in rising order.
    fn clusters(&self, cluster: u64) -> Vec<u64> {
        let mut all: Vec<u64> = self
            .pieces
            .iter()
            .flat_map(|(at, bytes)| {
                (at / cluster..(at + bytes.len() as u64).div_ceil(cluster)).map(move |index| index * cluster)
            })
            .collect();
        all.dedup();
        all
    }
}

/// Writes the disk cluster by cluster.
pub fn write(disk: &Disk, options: &Options, path: &Path) -> FileSummary {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    let mut writer = Writer::create(FreshFile(file), options.clone()).unwrap();
    let mut packer = writer.packer();
    let cluster = writer.cluster_size() as u64;
    let mut out = Vec::new();
    for at in disk.clusters(cluster) {
        let Some(data) = disk.cluster(at, cluster) else { continue };
        match packer.pack(&data, &mut out).unwrap() {
            Packed::Zero => writer.append_zeros(at, data.len() as u64).unwrap(),
            Packed::Plain => writer.append_plain(at, &data).unwrap(),
            Packed::Compressed => writer.append_compressed(at, &out).unwrap(),
        }
    }
    writer.finish().unwrap()
}

pub fn qemu_img(args: &[&str]) -> String {
    let out = Command::new("qemu-img").args(args).output().expect("qemu-img is installed (make setup)");
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "qemu-img {args:?}: {text}");
    text
}

/// Asserts that `qemu-img check` finds nothing, not even a leak, and that `compare` and `convert` return the
/// disk.
pub fn qemu_agrees(disk: &Disk, written: FileSummary, qcow2: &Path) {
    let check = qemu_img(&["check", "-f", "qcow2", path(qcow2)]);
    assert!(check.contains("No errors were found"), "{check}");
    assert!(!check.to_lowercase().contains("leak"), "{check}");
    assert_eq!(std::fs::metadata(qcow2).unwrap().len(), written.file_size);
    assert!(check.contains(&format!("Image end offset: {}", written.file_size)), "{check} {written:?}");
    assert_eq!(written.virtual_size, disk.size.next_multiple_of(512));

    let raw = qcow2.with_extension("expected");
    disk.write_raw(&raw);
    qemu_img(&["compare", "-f", "qcow2", "-F", "raw", path(qcow2), path(&raw)]);
    let back = qcow2.with_extension("back");
    qemu_img(&["convert", "-f", "qcow2", "-O", "raw", path(qcow2), path(&back)]);
    same_pieces(disk, &back);
}

/// Asserts that the pieces are at their positions in a raw file of the right size. `compare` has checked the
/// zeros.
fn same_pieces(disk: &Disk, raw: &Path) {
    let file = File::open(raw).unwrap();
    assert_eq!(file.metadata().unwrap().len(), disk.size.next_multiple_of(512));
    for (at, bytes) in &disk.pieces {
        let mut back = vec![0; bytes.len()];
        file.read_exact_at(&mut back, *at).unwrap();
        assert!(back == *bytes, "the piece at {at} differs");
    }
}

/// Asserts that the imago crate reads every piece, and zeros around it.
pub fn imago_agrees(disk: &Disk, qcow2: &Path) {
    use imago::{DenyImplicitOpenGate, FormatAccess, FormatDriverBuilder, Storage, StorageOpenOptions};
    let file = imago::file::File::open(StorageOpenOptions::new().filename(qcow2)).unwrap();
    let image = imago::qcow2::Qcow2::<imago::file::File>::builder(file)
        .open(DenyImplicitOpenGate::default())
        .unwrap();
    let image = FormatAccess::new(image);
    assert_eq!(image.size(), disk.size.next_multiple_of(512));
    for (at, bytes) in &disk.pieces {
        let from = at.saturating_sub(64 << 10) / 512 * 512;
        let to = (at + bytes.len() as u64 + (64 << 10)).min(disk.size);
        let expected = disk.cluster(from, to - from).unwrap();
        let mut back = vec![0; expected.len().next_multiple_of(512)];
        image.read(&mut back[..], from).unwrap();
        back.truncate(expected.len());
        assert!(back == expected, "imago reads another piece at {at}");
    }
}

/// Writes and checks a disk. Returns the file.
pub fn round_trip(disk: &Disk, options: &Options) -> (tempfile::TempDir, PathBuf, FileSummary) {
    let dir = tempfile::tempdir().unwrap();
    let qcow2 = dir.path().join("disk.qcow2");
    let written = write(disk, options, &qcow2);
    qemu_agrees(disk, written, &qcow2);
    if !matches!(options.compress, Some(Compression { codec: Codec::Zstd, .. })) {
        imago_agrees(disk, &qcow2); // It does not know zstd.
    }
    (dir, qcow2, written)
}

pub fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

pub fn zlib(level: u8) -> Option<Compression> {
    Some(Compression { codec: Codec::Deflate, level })
}

pub fn zstd(level: u8) -> Option<Compression> {
    Some(Compression { codec: Codec::Zstd, level })
}

/// A small generator of numbers with a fixed seed.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Bytes that cannot be compressed.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    (0..len).map(|_| numbers.next() as u8).collect()
}

/// Text-like bytes: repeated words with numbers in between.
pub fn prose(len: usize, seed: u64) -> Vec<u8> {
    const WORDS: &[&str] =
        &["disk", "image", "cluster", "refcount", "the ", "table ", "offset=", "\n", "0x", "of a ", "zero"];
    let mut numbers = Numbers(seed);
    let mut out = Vec::with_capacity(len + 16);
    while out.len() < len {
        match numbers.below(12) {
            0 => out.extend(numbers.next().to_string().bytes()),
            n => out.extend(WORDS[n as usize % WORDS.len()].bytes()),
        }
    }
    out.truncate(len);
    out
}

/// Prose, noise, zeros and repeated bytes in runs of uneven length.
pub fn mixture(len: usize, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers(seed);
    let mut out = Vec::with_capacity(len);
    while out.len() < len {
        let n = (numbers.below(200_000) as usize + 1).min(len - out.len());
        match numbers.below(4) {
            0 => out.extend(noise(n, numbers.next())),
            1 => out.resize(out.len() + n, 0),
            2 => out.resize(out.len() + n, numbers.next() as u8),
            _ => out.extend(prose(n, numbers.next())),
        }
    }
    out
}
