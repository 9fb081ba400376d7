//! Whole files, by every tool and in every shape, decode to what was packed.

use crate::kit::{AMPLE, Dice, decode, decodes_to, layer_of, refused, same, sample, tool};
use cdi::filter::{Budget, Layer};

#[test]
fn gzip_by_every_tool() {
    let plain = sample(3_000_000);
    for command in [
        &["gzip", "-1c"][..],
        &["gzip", "-9c"],
        &["pigz", "-c"],
        &["pigz", "-p2", "-b", "128", "-c"],
        &["pigz", "-i", "-c"],
        &["pigz", "-11", "-c", "-I", "1"],
    ] {
        decodes_to(&tool(command, &plain), &plain);
    }
    for len in [0, 1, 511, 65_536] {
        decodes_to(&tool(&["gzip", "-c"], &plain[..len]), &plain[..len]);
    }
}

#[test]
fn gzip_members_and_what_may_stand_behind_them() {
    let plain = sample(500_000);
    let parts: Vec<_> = plain.chunks(70_000).map(|part| tool(&["gzip", "-c"], part)).collect();
    let mut packed = parts.concat();
    decodes_to(&packed, &plain);
    packed.extend([0; 1000]);
    decodes_to(&packed, &plain);
    packed.push(1);
    refused(&packed, Layer::Gzip, AMPLE, "0x01, which begins no other member");
    refused(&[&parts.concat()[..], b"\x1fgarbage"].concat(), Layer::Gzip, AMPLE, "not a gzip member");
}

#[test]
fn gzip_header_fields() {
    let plain = sample(10_000);
    let packed = tool(&["gzip", "-nc"], &plain);
    let header = |flags: u8, fields: &[u8]| {
        let mut head = packed[..10].to_vec();
        head[3] = flags;
        head.extend(fields);
        head
    };
    let whole = |head: Vec<u8>| [&head[..], &packed[10..]].concat();
    decodes_to(&whole(header(4, b"\x05\x00extra")), &plain);
    decodes_to(&whole(header(8 | 16, b"name\0comment\0")), &plain);
    let mut with_crc = header(2, b"");
    let crc = crc32fast::hash(&with_crc) as u16;
    with_crc.extend(crc.to_le_bytes());
    decodes_to(&whole(with_crc.clone()), &plain);
    with_crc[10] ^= 1;
    refused(&whole(with_crc), Layer::Gzip, AMPLE, "header CRC");
    refused(&whole(header(0x20, b"")), Layer::Gzip, AMPLE, "reserved");
    refused(&whole(header(8, &[b'x'; 70_000])), Layer::Gzip, AMPLE, "name is longer");
    let mut method = packed.clone();
    method[2] = 7;
    refused(&method, Layer::Gzip, AMPLE, "compression method is 7");
}

#[test]
fn xz_by_every_shape() {
    let plain = sample(5_000_000);
    for args in [
        &["-T1", "-1"][..],
        &["-T2", "-0", "--block-size=300000"],
        &["-T1", "-0", "--block-size=333333"],
        &["-T2", "-0", "--block-list=100000,1,50000,2000000,0"],
        &["-0", "--check=none"],
        &["-0", "--check=crc32"],
        &["-0", "--check=crc64"],
        &["-0", "--check=sha256"],
        &["--x86", "--lzma2=preset=0"],
        &["--delta=dist=4", "--lzma2=preset=0,dict=4KiB"],
        &["-T2", "--block-size=500000", "--arm64", "--delta=dist=1", "--lzma2=preset=0,lc=0,lp=4"],
    ] {
        let packed = tool(&[&["xz", "-c", "-q", "-q"], args].concat(), &plain);
        decodes_to(&packed, &plain);
    }
    for len in [0, 1, 511, 65_536] {
        decodes_to(&tool(&["xz", "-0c"], &plain[..len]), &plain[..len]);
    }
}

#[test]
fn xz_streams_and_padding() {
    let plain = sample(2_000_000);
    let stream =
        |range: std::ops::Range<usize>, args: &[&str]| tool(&[&["xz", "-0c"], args].concat(), &plain[range]);
    let a = stream(0..700_000, &["-T2", "--block-size=100000", "--check=sha256"]);
    let b = stream(700_000..700_000, &[]);
    let c = stream(700_000..2_000_000, &["--check=crc32"]);
    decodes_to(&[&a[..], &b, &c].concat(), &plain);
    decodes_to(&[&a[..], &[0; 8], &b, &c, &[0; 400]].concat(), &plain);
    refused(&[&a[..], &[0; 6], &c].concat(), Layer::Xz, AMPLE, "not a multiple of 4");
    refused(&[&a[..], &c, &[0; 3]].concat(), Layer::Xz, AMPLE, "not a multiple of 4");
    refused(&[&a[..], b"GARBAGE-GARBAGE"].concat(), Layer::Xz, AMPLE, "neither an xz stream nor padding");
}

#[test]
fn zstd_by_every_shape() {
    let plain = sample(5_000_000);
    for command in [
        &["zstd", "-1c"][..],
        &["zstd", "-19c"],
        &["zstd", "-c", "--fast=5"],
        &["zstd", "-c", "--no-check"],
        &["zstd", "-c", "--long=24"],
        &["zstd", "-c", "-T2", "--rsyncable"],
        &["zstd", "-c", "--stream-size=5000000"],
        &["zstd", "-c", "--target-compressed-block-size=2000"],
    ] {
        decodes_to(&tool(&[command, &["-q"]].concat(), &plain), &plain);
    }
    for len in [0, 1, 255, 256, 65_535, 65_536, 70_000] {
        let stated = format!("--stream-size={len}");
        decodes_to(&tool(&["zstd", "-qc"], &plain[..len]), &plain[..len]);
        if len > 0 {
            decodes_to(&tool(&["zstd", "-qc", &stated], &plain[..len]), &plain[..len]);
        }
    }
}

#[test]
fn zstd_frames_and_skippable_ones() {
    let plain = sample(3_000_000);
    let mut packed = b"\x50\x2a\x4d\x18\x05\0\0\0hello".to_vec();
    for (i, part) in plain.chunks(200_000).enumerate() {
        packed.extend(tool(&["zstd", "-qc", if i % 2 == 0 { "--check" } else { "--no-check" }], part));
        packed.extend([0x50 + (i % 16) as u8, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);
    }
    decodes_to(&packed, &plain);
    refused(&[&packed[..], &[0; 4]].concat(), Layer::Zstd, AMPLE, "00 00 00 00) is not a frame");
    refused(&[&packed[..], &[0x50]].concat(), Layer::Zstd, AMPLE, "truncated");
    // pzstd writes many frames, each behind a skippable one; parallel decoding must keep their order.
    decodes_to(&tool(&["pzstd", "-qc", "-p", "4"], &plain), &plain);
}

#[test]
fn zstd_with_a_dictionary_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut dice = Dice(5);
    let samples: Vec<String> = (0..200)
        .map(|i| {
            let path = folder.path().join(format!("s{i}"));
            std::fs::write(&path, &sample(20_000)[dice.roll(9000)..][..2000]).unwrap();
            path.to_str().unwrap().to_owned()
        })
        .collect();
    let dictionary = folder.path().join("dictionary");
    let dictionary = dictionary.to_str().unwrap();
    let train = ["zstd", "-q", "--train", "--maxdict=4096", "--dictID=77", "-o", dictionary];
    tool(&train.iter().copied().chain(samples.iter().map(String::as_str)).collect::<Vec<_>>(), b"");
    let packed = tool(&["zstd", "-qc", "-D", dictionary], &sample(5000));
    refused(&packed, Layer::Zstd, AMPLE, "dictionary 77");
}

#[test]
fn threads_change_nothing() {
    let plain = sample(4_000_000);
    for command in [
        &["xz", "-0c", "-T2", "--block-size=150000"][..],
        &["zstd", "-qc"],
        &["pzstd", "-qc", "-p", "3"],
        &["gzip", "-1c"],
    ] {
        let packed = tool(command, &plain);
        for threads in [0, 1, 2, 3, 8] {
            let budget = Budget { threads, ..AMPLE };
            let (out, result) = decode(layer_of(&packed), &packed, budget);
            result.unwrap();
            same(&out, &plain);
        }
    }
}
