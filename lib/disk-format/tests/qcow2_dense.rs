//! A disk without its holes as a computed qcow2 file. QEMU reads the disk from it, and our stream reader
//! needs no spool.

// The lint does not recognise helpers of tests as tests.
#![allow(clippy::unwrap_used)]

mod qcow2_write_kit;

use disk_format::qcow2::write::Dense;
use disk_format::rebuild::{from_image, from_stream};
use disk_format::{Format, Limits, ReadAt, open, stream};
use proptest::prelude::*;
use qcow2_write_kit::rule::Rule;
use qcow2_write_kit::*;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

const CLUSTER: u64 = 64 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

fn dense(rule: &Rule) -> Dense<Rule> {
    Dense::new(rule.clone(), usize::MAX).unwrap().unwrap()
}

/// The content of the whole file.
fn file(rule: &Rule) -> Vec<u8> {
    let dense = dense(rule);
    let mut file = vec![0; dense.size() as usize];
    dense.read_exact_at(&mut file, 0).unwrap();
    file
}

/// The content of the disk, up to a whole sector.
fn disk(rule: &Rule) -> Vec<u8> {
    let mut disk: Vec<u8> = (0..rule.size).map(|at| rule.byte(at)).collect();
    disk.resize(rule.size.next_multiple_of(512) as usize, 0);
    disk
}

/// Asserts that our readers find the disk: in the file, and in a stream without a spool.
fn ours_agrees(rule: &Rule) {
    let (file, disk) = (file(rule), disk(rule));
    let most = disk.len() as u64;
    let bytes: Arc<dyn ReadAt> = Arc::new(dense(rule));
    let image = open(Format::Qcow2, Arc::clone(&bytes), Limits::default()).unwrap();
    assert!(from_image(&*image, &*bytes, most).unwrap() == disk);
    let mut reader = stream(Format::Qcow2, Limits::default()).unwrap();
    let piece = reader.lookback() + 100_000;
    assert!(from_stream(&mut *reader, &file, || piece, most).unwrap() == disk);
    let mut reader = stream(Format::Qcow2, Limits::default()).unwrap();
    let (mut from, mut to) = (0, 0);
    while to < file.len() {
        to = (to + piece).min(file.len());
        let pushed = reader.push(from as u64, &file[from..to], to == file.len()).unwrap();
        assert!(pushed.spool.is_empty(), "{:?} is to be kept", pushed.spool);
        from = pushed.keep_from as usize;
    }
}

fn qemu_agrees_too(rule: &Rule) {
    let folder = tempfile::tempdir().unwrap();
    let (qcow2, raw) = (folder.path().join("disk.qcow2"), folder.path().join("disk.raw"));
    fs::write(&qcow2, file(rule)).unwrap();
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
fn a_disk_over_several_tables_is_as_long_as_its_data() {
    // Data at the edges of some L2 tables, in the middle of others, and none in the rest.
    let size = 5 * GIB + 3 * CLUSTER + 1000;
    let edges = [0, 512 * MIB, GIB, 4 * GIB - 2 * MIB];
    let mut data: Vec<_> = edges.iter().map(|&at| at + 70_000..at + 200_000).collect();
    data.extend([4 * GIB - 1..4 * GIB + 1, size - 10..size]);
    let rule = Rule::new(size, data);
    qemu_agrees_too(&rule);
    let dense = dense(&rule);
    let clusters: u64 = rule.data.iter().map(|data| data.end.div_ceil(CLUSTER) - data.start / CLUSTER).sum();
    assert!(dense.size() <= (clusters + 12) * CLUSTER, "{} bytes", dense.size());
    // The position on the disk for an offset of the file.
    assert_eq!((dense.disk_before(0), dense.disk_before(dense.size())), (0, size));
    let offsets = (0..=dense.size()).step_by(4096).map(|at| dense.disk_before(at));
    assert!(offsets.is_sorted());
}

#[test]
fn sixteen_tebibytes_of_holes_are_a_few_tables_and_too_many_runs_are_not_kept() {
    let islands: Vec<_> = (1..16).map(|nth| nth * TIB - 5000..nth * TIB + 5000).collect();
    let rule = Rule::new(16 * TIB, islands);
    // L1 and refcount table have 8 bytes for 512 MiB and for 2 GiB. Each island touches two L2 tables and two
    // clusters.
    assert!(dense(&rule).size() < MIB + 15 * 4 * CLUSTER);
    assert!(Dense::new(rule.clone(), 14).unwrap().is_none());
    assert!(Dense::new(rule, 15).unwrap().is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_map_of_holes_is_read_back(
        size in 0_u64..4_000_000,
        map in prop::collection::vec((0_u64..400_000, 0_u64..200_000), 0..12),
    ) {
        ours_agrees(&Rule::of(size, &map));
    }
}
