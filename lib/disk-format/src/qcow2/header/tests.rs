//! Every field at its extremes. Each error names the field and its offset.

use super::*;
use proptest::prelude::*;

/// A valid version 3 header of a 1 GiB disk with 64 KiB clusters and extensions.
fn sound() -> Vec<u8> {
    let mut head = vec![0; 65536];
    put32(&mut head, 0, MAGIC);
    put32(&mut head, 4, 3);
    put32(&mut head, 20, 16);
    put64(&mut head, 24, 1 << 30);
    put32(&mut head, 36, 2);
    put64(&mut head, 40, 0x30000);
    put64(&mut head, 48, 0x10000);
    put32(&mut head, 56, 1);
    put32(&mut head, 96, 4);
    put32(&mut head, 100, 112);
    // A feature name table with one entry: incompatible bit 63.
    put32(&mut head, 112, 0x6803_f857);
    put32(&mut head, 116, 48);
    head[121] = 63;
    head[122..127].copy_from_slice(b"warp\n");
    head
}

fn put32(head: &mut [u8], at: usize, value: u32) {
    head[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn put64(head: &mut [u8], at: usize, value: u64) {
    head[at..at + 8].copy_from_slice(&value.to_be_bytes());
}

fn parse(head: &[u8]) -> Result<Header> {
    match Header::parse(head, false, Limits::default())? {
        Parsed::Done(header) => Ok(*header),
        Parsed::Need(n) => panic!("{n} bytes are needed of {}", head.len()),
    }
}

/// Parses the valid header with one change.
fn with(change: impl FnOnce(&mut Vec<u8>)) -> Result<Header> {
    let mut head = sound();
    change(&mut head);
    parse(&head)
}

fn refused(kind: ErrorKind, offset: u64, words: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let error = with(change).expect_err(words);
    assert_eq!((error.kind(), error.offset()), (kind, Some(offset)), "{error}");
    assert!(error.to_string().contains(words), "{error:?} should say {words:?}");
}

#[test]
fn a_sound_header_says_what_it_says() {
    let header = with(|_| ()).unwrap();
    assert_eq!((header.version, header.cluster_size(), header.size), (3, 65536, 1 << 30));
    assert_eq!((header.l1.range(), header.refcounts.range()), (0x30000..0x30010, 0x10000..0x20000));
    assert_eq!((header.codec, header.extended_l2, header.refcount_bits), (Codec::Deflate, false, 16));
    assert_eq!(header.table_bits(), 29);
    assert!(header.facts().contains(&("cluster size", "65536".to_owned())));
}

#[test]
fn every_field_at_its_extremes() {
    use ErrorKind::{Malformed, Outside, TooLarge, Unsupported};
    let max32 = u32::MAX;
    refused(Malformed, 0, "magic", |h| put32(h, 0, 0));
    for version in [0, 1, 4, max32] {
        refused(Unsupported, 4, "version", |h| put32(h, 4, version));
    }
    for bits in [0, 8, 22, 32, 63, 64, max32] {
        refused(Malformed, 20, "cluster_bits", |h| put32(h, 20, bits));
    }
    refused(TooLarge, 24, "virtual size", |h| put64(h, 24, u64::MAX));
    refused(TooLarge, 24, "virtual size", |h| put64(h, 24, (64 << 40) + 512));
    refused(Malformed, 24, "virtual size", |h| put64(h, 24, (1 << 30) - 1));
    for (method, words) in [(1, "AES"), (2, "LUKS"), (3, "unknown"), (max32, "unknown")] {
        refused(Unsupported, 32, words, |h| put32(h, 32, method));
    }
    for entries in [0, 1] {
        refused(Malformed, 36, "l1_size", |h| put32(h, 36, entries));
    }
    for entries in [(4 << 20) + 1, max32] {
        refused(TooLarge, 36, "l1_size", |h| put32(h, 36, entries));
    }
    for (field, at) in [("l1_table_offset", 40), ("refcount_table_offset", 48)] {
        for offset in [0, 1, 511, 0x30001, 0xffff, 1 << 56, 1 << 63, u64::MAX, u64::MAX << 16] {
            refused(Malformed, at as u64, field, |h| put64(h, at, offset));
        }
    }
    refused(Malformed, 56, "refcount_table_clusters", |h| put32(h, 56, 0));
    for clusters in [129, max32] {
        refused(TooLarge, 56, "refcount_table_clusters", |h| put32(h, 56, clusters));
    }
    for count in [65_537, max32] {
        refused(TooLarge, 60, "nb_snapshots", |h| put32(h, 60, count));
    }
    for offset in [0, 1, 1 << 56, u64::MAX] {
        refused(Malformed, 64, "snapshots_offset", |h| {
            put32(h, 60, 1);
            put64(h, 64, offset);
        });
    }
    refused(Malformed, 64, "snapshots_offset", |h| put64(h, 64, 8));
    for order in [7, max32] {
        refused(Malformed, 96, "refcount_order", |h| put32(h, 96, order));
    }
    for length in [0, 72, 103, 105, 65537, max32] {
        refused(Malformed, 100, "header_length", |h| put32(h, 100, length));
    }
    refused(Malformed, 116, "header extension", |h| put32(h, 116, max32));
    refused(Outside, 8, "\"base .img\"", |h| {
        put64(h, 8, 0x200);
        put32(h, 16, 9);
        h[0x200..0x209].copy_from_slice(b"base\x07.img");
    });
    refused(Outside, 8, "backing file", |h| {
        put64(h, 8, 1);
        put32(h, 16, max32);
    });
    refused(Malformed, 8, "backing_file_offset", |h| put64(h, 8, u64::MAX));
}

#[test]
fn features_are_refused_by_name() {
    use ErrorKind::{Malformed, Outside, Unsupported};
    refused(Malformed, 72, "corrupt", |h| put64(h, 72, 1 << 1));
    refused(Outside, 72, "another file", |h| put64(h, 72, 1 << 2));
    refused(Outside, 72, "(\"data.raw\")", |h| {
        put64(h, 72, 1 << 2);
        put32(h, 168, 0x4441_5441);
        put32(h, 172, 8);
        h[176..184].copy_from_slice(b"data.raw");
    });
    for bit in 5..63 {
        refused(Unsupported, 72, &format!("unknown bit {bit} set"), |h| put64(h, 72, 1 << bit));
    }
    refused(Unsupported, 72, "unknown bit 63 (warp ) set", |h| put64(h, 72, 1 << 63));
    refused(Malformed, 88, "no data file", |h| put64(h, 88, 2));
    refused(Malformed, 104, "bit 3", |h| put64(h, 72, 1 << 3));
    refused(Malformed, 104, "bit 3", |h| h[104] = 1);
    refused(Unsupported, 104, "compression_type is 2", |h| {
        put64(h, 72, 1 << 3);
        h[104] = 2;
    });
    refused(Malformed, 20, "extended L2", |h| {
        put64(h, 72, 1 << 4);
        put32(h, 20, 13);
    });
    let header = with(|h| {
        put64(h, 72, 1 | 1 << 3 | 1 << 4);
        put64(h, 80, u64::MAX);
        put64(h, 88, !2);
        put32(h, 36, 4);
        h[104] = 1;
    })
    .unwrap();
    assert!(header.dirty && header.lazy_refcounts && header.bitmaps && header.extended_l2);
    assert_eq!(header.codec, Codec::Zstd);
}

#[test]
fn tables_of_the_header_lie_apart() {
    refused(ErrorKind::Malformed, 48, "overlaps", |h| put64(h, 48, 0x30000));
    refused(ErrorKind::Malformed, 64, "the snapshot table at 0x30000 overlaps the L1 table", |h| {
        put32(h, 60, 1);
        put64(h, 64, 0x30000);
    });
    // A table without entries has no position.
    let empty = with(|h| {
        put64(h, 24, 0);
        put32(h, 36, 0);
        put64(h, 40, 0x10000);
    });
    assert_eq!(empty.unwrap().size, 0);
}

#[test]
fn version_2_ends_before_the_features() {
    let header = with(|h| {
        put32(h, 4, 2);
        put64(h, 72, 0);
        put64(h, 80, u64::MAX);
        put32(h, 96, u32::MAX);
    })
    .unwrap();
    assert_eq!((header.refcount_bits, header.lazy_refcounts, header.codec), (16, false, Codec::Deflate));
}

#[test]
fn a_short_piece_asks_for_more_and_a_short_file_is_truncated() {
    let head = sound();
    let mut have = 0;
    let header = loop {
        match Header::parse(&head[..have], false, Limits::default()).unwrap() {
            Parsed::Need(need) => {
                assert!(need > have && need <= head.len());
                have = need;
            }
            Parsed::Done(header) => break header,
        }
    };
    assert_eq!(*header, parse(&head).unwrap());
    assert_eq!(have, 176, "the end marker is the last that is needed");
    for end in 0..have {
        let error = Header::parse(&head[..end], true, Limits::default()).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (ErrorKind::Truncated, Some(end as u64)), "{error}");
    }
}

proptest! {
    /// A header that is accepted has the properties on which the rest of the reader relies, whatever its
    /// fields are.
    #[test]
    fn accepted_headers_are_sane(changes in prop::collection::vec((0..200_usize, any::<u8>()), 1..6), whole: bool) {
        let mut head = sound();
        changes.iter().for_each(|&(at, byte)| head[at] = byte);
        if let Ok(Parsed::Done(header)) = Header::parse(&head, whole, Limits::default()) {
            prop_assert!((9..=21).contains(&header.cluster_bits));
            prop_assert!(header.size <= 64 << 40 && header.size % 512 == 0);
            prop_assert!(u64::from(header.l1.entries) << header.table_bits() >= header.size);
            for (range, _) in header.fixed() {
                prop_assert!(range.end < 1 << 58 && range.start % header.cluster_size() == 0);
            }
        }
    }
}
