//! A disk as a computed qcow2 file. Our reader and QEMU's read the disk from it, and holes are not read.

// The lint does not recognise helpers of tests as tests.
#![allow(clippy::unwrap_used)]

mod qcow2_write_kit;

use disk_format::qcow2::write::{Sparse, View};
use disk_format::{Data, Format, Limits, ReadAt, open};
use proptest::prelude::*;
use qcow2_write_kit::rule::Rule;
use qcow2_write_kit::*;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const CLUSTER: u64 = 64 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Number of clusters that a qcow2 file of the disk must hold.
fn clusters(rule: &Rule) -> u64 {
    let mut next = 0;
    let mut count = 0;
    for range in &rule.data {
        let (first, end) = ((range.start / CLUSTER).max(next), range.end.div_ceil(CLUSTER));
        count += end.saturating_sub(first);
        next = next.max(end);
    }
    count
}

/// A file that counts the bytes that are read.
struct Counted<T> {
    file: T,
    read: AtomicU64,
}

impl<T: ReadAt> ReadAt for Counted<T> {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read.fetch_add(buf.len() as u64, Relaxed);
        self.file.read_exact_at(buf, offset)
    }
}

/// Asserts that our reader finds the disk, and reads only its clusters and their tables.
fn ours_agrees(rule: &Rule) {
    let view = View::new(rule.clone()).unwrap();
    let tables = view.tables();
    let file = Arc::new(Counted { file: view, read: AtomicU64::new(0) });
    let image = open(Format::Qcow2, file.clone(), Limits::default()).unwrap();
    assert_eq!(image.virtual_size(), rule.size.next_multiple_of(512));
    let (mut from, mut mapped) = (Some(0).filter(|_| rule.size > 0), 0);
    while let Some(guest) = from {
        let window = image.window(guest).unwrap();
        for extent in &window.extents {
            match extent.data {
                Data::Raw { at } => {
                    assert_eq!(at, tables + extent.guest, "each cluster lies at its own offset");
                    mapped += extent.len.div_ceil(CLUSTER);
                    let mut bytes = vec![0; extent.len as usize];
                    file.file.read_exact_at(&mut bytes, at).unwrap();
                    for (byte, at) in bytes.iter().zip(extent.guest..) {
                        assert_eq!(*byte, rule.byte(at), "at {at}");
                    }
                }
                Data::Zero => {
                    let next = rule.data_from(extent.guest);
                    assert!(next.is_none_or(|data| data.start >= extent.end()), "{extent:?} has data");
                }
                Data::Packed { .. } => panic!("nothing is compressed"),
            }
        }
        from = window.next;
    }
    assert_eq!(mapped, clusters(rule));
}

/// The content of the whole file, holes included.
fn written(rule: &Rule, path: &std::path::Path) {
    let view = View::new(rule.clone()).unwrap();
    let file = File::create(path).unwrap();
    file.set_len(view.size()).unwrap();
    let mut piece = vec![0; 3 * CLUSTER as usize / 2];
    for at in (0..view.size()).step_by(piece.len()) {
        let here = (view.size() - at).min(piece.len() as u64) as usize;
        view.read_exact_at(&mut piece[..here], at).unwrap();
        if piece[..here].iter().any(|&byte| byte != 0) {
            file.write_all_at(&piece[..here], at).unwrap();
        }
    }
}

/// Asserts that QEMU finds the disk, and no errors.
fn qemu_agrees_too(rule: &Rule) {
    let folder = tempfile::tempdir().unwrap();
    let (qcow2, raw) = (folder.path().join("disk.qcow2"), folder.path().join("disk.raw"));
    written(rule, &qcow2);
    let file = File::create(&raw).unwrap();
    file.set_len(rule.size).unwrap();
    for range in &rule.data {
        let bytes: Vec<u8> = range.clone().map(|at| rule.byte(at)).collect();
        file.write_all_at(&bytes, range.start).unwrap();
    }
    let check = qemu_img(&["check", "-f", "qcow2", path(&qcow2)]);
    assert!(check.contains("No errors were found") && !check.to_lowercase().contains("leak"), "{check}");
    qemu_img(&["compare", "-f", "qcow2", "-F", "raw", path(&qcow2), path(&raw)]);
}

#[test]
fn disks_of_any_size_with_all_data_and_with_none() {
    for size in [0, 1, 511, 512, 513, 65_535, 65_536, 65_537, 3 * MIB + 777] {
        for data in [vec![], std::iter::once(0..size).filter(|range| !range.is_empty()).collect()] {
            let rule = Rule::new(size, data);
            ours_agrees(&rule);
            qemu_agrees_too(&rule);
        }
    }
}

#[test]
fn a_disk_over_several_tables_of_each_kind() {
    // More than two L2 tables and more than one refcount block, with data at their edges.
    let size = 2 * GIB + 3 * CLUSTER + 1000;
    let edges = [0, 512 * MIB, GIB, 2 * GIB - 2 * MIB];
    let mut data: Vec<_> = edges.iter().map(|&at| at + 70_000..at + 200_000).collect();
    data.extend([2 * GIB - 1..2 * GIB + 1, size - 10..size]);
    let rule = Rule::new(size, data);
    ours_agrees(&rule);
    qemu_agrees_too(&rule);
}

#[test]
fn sixteen_tebibytes_of_holes_cost_a_few_tables() {
    let islands: Vec<_> = (1..16).map(|nth| nth * TIB - 5000..nth * TIB + 5000).collect();
    for data in [vec![], islands] {
        let count = data.len() as u64;
        let rule = Rule::new(16 * TIB, data);
        let view = Arc::new(Counted { file: View::new(rule.clone()).unwrap(), read: AtomicU64::new(0) });
        assert!(view.size() < 16 * TIB + 16 * TIB / 4000);
        let image = open(Format::Qcow2, view.clone(), Limits::default()).unwrap();
        let mut from = Some(0);
        while let Some(guest) = from {
            from = image.window(guest).unwrap().next;
        }
        // L1 and refcount table have 8 bytes for 512 MiB and for 2 GiB. Each island touches two L2 tables.
        let most = MIB + 2 * count * CLUSTER;
        assert!(view.read.load(Relaxed) <= most, "{} bytes of tables", view.read.load(Relaxed));
        assert!(rule.asked.load(Relaxed) < 2000, "{} questions", rule.asked.load(Relaxed));
    }
    ours_agrees(&Rule::new(16 * TIB, vec![TIB - 5000..TIB + 5000, 16 * TIB - 1..16 * TIB]));
}

#[test]
fn what_is_read_in_pieces_of_any_length_is_the_same_file() {
    let rule = Rule::of(2 * MIB + 100, &[(1000, 70_000), (300_000, 1), (65_536, 900_000)]);
    let view = View::new(rule).unwrap();
    let mut whole = vec![0; view.size() as usize];
    view.read_exact_at(&mut whole, 0).unwrap();
    for piece in [1, 511, 8191, 65_536, 100_003] {
        let mut found = vec![];
        // Reading every byte of the tables separately takes long.
        for at in (0..whole.len()).step_by(piece.max(7919)) {
            let mut bytes = vec![0; piece.min(whole.len() - at)];
            view.read_exact_at(&mut bytes, at as u64).unwrap();
            assert!(bytes == whole[at..at + bytes.len()], "{piece} bytes at {at}");
            found.extend(bytes);
        }
    }
    let end = view.size();
    for (len, at) in [(1, end), (2, end - 1), (1, u64::MAX)] {
        let error = view.read_exact_at(&mut vec![0; len], at).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn a_disk_that_no_qcow2_holds_is_refused() {
    let error = View::new(Rule::new(300 * TIB, vec![])).unwrap_err();
    assert!(error.to_string().contains("2^32 clusters"), "{error}");
    assert!(View::new(Rule::new(u64::MAX, vec![])).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_map_of_holes_is_read_back(
        size in 0_u64..4_000_000,
        map in prop::collection::vec((0_u64..400_000, 0_u64..200_000), 0..12),
    ) {
        ours_agrees(&Rule::of(size, &map));
    }

    #[test]
    fn any_map_of_a_large_disk_is_read_back(
        size in 0_u64..(3 << 30),
        map in prop::collection::vec((0_u64..(1 << 30), 0_u64..100_000), 0..8),
    ) {
        ours_agrees(&Rule::of(size, &map));
    }
}
