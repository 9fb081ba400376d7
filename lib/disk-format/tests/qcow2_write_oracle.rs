//! Disks of our writer, read by the crate qcow2-rs, which is neither ours nor QEMU's.
//!
//! | disk | qcow2-rs |
//! |---|---|
//! | clusters of 512 bytes to 2 MiB, plain | reads it, and its check finds no leak |
//! | clusters of any size, compressed with zlib | reads it; its check reports leaks that `qemu-img check` and
//! the tables refute |
//! | compressed with Zstandard | refuses it |
//! | over a backing file | opens the file of that name in the current folder: not tested |
//!
//! It crashes on bad images, so only ours may be given to it.

// The lint does not recognise helpers of tests as tests.
#![allow(clippy::unwrap_used)]

mod qcow2_write_kit;

use disk_format::qcow2::write::Options;
use qcow2_rs::dev::{Qcow2Dev, Qcow2DevParams};
use qcow2_rs::helpers::Qcow2IoBuf;
use qcow2_rs::sync_io::Qcow2IoSync;
use qcow2_rs::utils::qcow2_setup_dev_sync;
use qcow2_write_kit::*;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const MIB: u64 = 1 << 20;
const PIECE: usize = 1 << 20;

/// Its files are read in order, so no call blocks.
fn at_once<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("qcow2-rs waits for something"),
    }
}

fn open(qcow2: &Path, cluster_bits: u32) -> qcow2_rs::error::Qcow2Result<Qcow2Dev<Qcow2IoSync>> {
    // Its tables are cached in slices of 4 KiB, which no smaller cluster holds.
    let bits = u8::try_from(cluster_bits).unwrap();
    let slices = (bits < 12).then_some((bits, 64 << bits));
    qcow2_setup_dev_sync(qcow2, &Qcow2DevParams::new(9, slices, slices, true, false))
}

/// Asserts that every byte of the disk is the same, and that the check finds nothing.
fn agrees(disk: &Disk, options: &Options) {
    let dir = tempfile::tempdir().unwrap();
    let (qcow2, raw) = (dir.path().join("disk.qcow2"), dir.path().join("disk.raw"));
    write(disk, options, &qcow2);
    disk.write_raw(&raw);
    let raw = File::open(raw).unwrap();
    let oracle = open(&qcow2, options.cluster_bits).unwrap();
    assert_eq!(oracle.info.virtual_size(), disk.size.next_multiple_of(512), "{options:?}");
    assert_eq!(oracle.info.cluster_bits(), options.cluster_bits as usize);
    at_once(oracle.qcow2_prep_io()).unwrap();
    // Its check ignores clusters that it meets twice, which compressed clusters share.
    if options.compress.is_none() {
        at_once(oracle.check()).unwrap();
    }
    let mut got = Qcow2IoBuf::<u8>::new(PIECE);
    for at in (0..disk.size).step_by(PIECE) {
        let here = usize::try_from(disk.size - at).unwrap_or(PIECE).min(PIECE);
        let mut expected = vec![0; here.next_multiple_of(512)];
        raw.read_exact_at(&mut expected[..here], at).unwrap();
        let read = at_once(oracle.read_at(&mut got[..expected.len()], at)).unwrap();
        assert!(read == expected.len() && got[..read] == expected, "{options:?}: other bytes from {at} on");
    }
}

#[test]
fn clusters_of_every_size_plain_and_packed() {
    for cluster_bits in 9..=21 {
        for compress in [None, zlib(1), zlib(6), zlib(9)] {
            let size = 5 * MIB + 512 * 3;
            let disk = Disk::new(size).with(1000, mixture(4 * MIB as usize, u64::from(cluster_bits)));
            agrees(&disk, &Options { cluster_bits, compress, ..Options::new(size) });
        }
    }
}

#[test]
fn small_and_unaligned_disks() {
    for size in [512, 513, 65_535, 65_536, 65_537, 1_000_001] {
        for compress in [None, zlib(6)] {
            let disk = Disk::new(size).with(0, prose(size as usize, size));
            agrees(&disk, &Options { compress, ..Options::new(size) });
        }
    }
}

#[test]
fn a_sparse_disk_over_several_l2_tables() {
    let size = 1100 * MIB + 12_345;
    let disk = Disk::new(size)
        .with(0, prose(100_000, 1))
        .with(512 * MIB - 70_000, mixture(200_000, 2))
        .with(size - 99_999, noise(99_999, 4));
    for compress in [None, zlib(6)] {
        agrees(&disk, &Options { compress, ..Options::new(size) });
    }
}

/// If it reads them one day, these disks belong into the tests above.
#[test]
fn zstandard_is_beyond_it() {
    let dir = tempfile::tempdir().unwrap();
    let qcow2 = dir.path().join("disk.qcow2");
    write(
        &Disk::new(MIB).with(0, prose(MIB as usize, 1)),
        &Options { compress: zstd(3), ..Options::new(MIB) },
        &qcow2,
    );
    assert!(open(&qcow2, 16).is_err());
}
