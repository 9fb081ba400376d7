//! Every kind of disk, written by us and read by other programs.

mod qcow2_write_kit;

use disk_format::qcow2::write::Options;
use qcow2_write_kit::*;

const MIB: u64 = 1 << 20;

fn options(size: u64) -> Options {
    Options::new(size)
}

#[test]
fn tiny_and_unaligned_disks() {
    for size in [0, 1, 511, 512, 513, 65_535, 65_536, 65_537, 1_000_001] {
        for compress in [None, zlib(6), zstd(3)] {
            let disk = Disk::new(size).with(0, prose(size as usize, size));
            round_trip(&disk, &Options { compress, ..options(size) });
        }
    }
}

#[test]
fn every_cluster_size() {
    for cluster_bits in 9..=21 {
        for compress in [None, zlib(6), zstd(3)] {
            let size = 5 * MIB + 512 * 3;
            let disk = Disk::new(size).with(1000, mixture(4 * MIB as usize, u64::from(cluster_bits)));
            round_trip(&disk, &Options { cluster_bits, compress, ..options(size) });
        }
    }
}

#[test]
fn every_level() {
    let disk = Disk::new(3 * MIB).with(0, mixture(3 * MIB as usize, 7));
    for compress in (1..=9).map(zlib).chain((1..=19).map(zstd)) {
        round_trip(&disk, &Options { compress, ..options(disk.size) });
    }
}

#[test]
fn a_sparse_disk_over_several_l2_tables() {
    let size = 3000 * MIB + 12_345;
    let disk = Disk::new(size)
        .with(0, prose(100_000, 1))
        .with(512 * MIB - 70_000, mixture(200_000, 2))
        .with(1536 * MIB, noise(300_000, 3))
        .with(size - 99_999, prose(99_999, 4));
    for compress in [None, zlib(6), zstd(3)] {
        round_trip(&disk, &Options { compress, ..options(size) });
    }
}

/// Pieces of any kind at any position, with every cluster size and every compressor.
#[test]
fn disks_of_all_sorts() {
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let size = numbers.below(40 * MIB) + 1;
        let mut disk = Disk::new(size);
        let mut at = 0;
        while let Some(room) = size.checked_sub(at).filter(|&room| room > 0) {
            let len = (numbers.below(3 * MIB) + 1).min(room) as usize;
            let bytes = match numbers.below(3) {
                0 => noise(len, numbers.next()),
                1 => prose(len, numbers.next()),
                _ => mixture(len, numbers.next()),
            };
            disk = disk.with(at, bytes);
            at += len as u64 + numbers.below(4 * MIB);
        }
        let compress = match numbers.below(3) {
            0 => None,
            1 => zlib(numbers.below(9) as u8 + 1),
            _ => zstd(numbers.below(6) as u8 + 1),
        };
        let cluster_bits = 9 + numbers.below(13) as u32;
        println!("seed {seed}: {size} bytes, cluster_bits {cluster_bits}, {compress:?}");
        round_trip(&disk, &Options { cluster_bits, compress, ..options(size) });
    }
}
