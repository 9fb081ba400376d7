//! Properties of the file itself: empty and overlay disks, order, determinism, errors, failing targets.

#![allow(clippy::unwrap_used)]

mod qcow2_write_kit;

use disk_format::qcow2::write::{Backing, FileSummary, FreshFile, Options, Packed, WriteAt, Writer, empty};
use disk_format::{ErrorKind, Format};
use qcow2_write_kit::*;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

fn fresh(path: &std::path::Path) -> FreshFile {
    FreshFile(File::options().read(true).write(true).create_new(true).open(path).unwrap())
}

#[test]
fn an_empty_disk_of_a_tebibyte_is_made_at_once_and_is_tiny() {
    let dir = tempfile::tempdir().unwrap();
    for (compress, name) in [(None, "plain"), (zlib(6), "zlib"), (zstd(3), "zstd")] {
        let path = dir.path().join(name);
        let start = Instant::now();
        let written = empty(fresh(&path), Options { compress, ..Options::new(TIB) }).unwrap();
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(
            written,
            FileSummary { file_size: 256 * KIB, virtual_size: TIB, ..FileSummary::default() }
        );
        assert!(std::fs::metadata(&path).unwrap().blocks() * 512 <= 64 * KIB);
        qemu_agrees_about_empty(&path, TIB);
    }
}

#[test]
fn empty_disks_of_every_cluster_size() {
    for cluster_bits in 9..=21 {
        let size = 64 << 30;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("empty");
        empty(fresh(&path), Options { cluster_bits, ..Options::new(size) }).unwrap();
        qemu_agrees_about_empty(&path, size);
    }
}

fn qemu_agrees_about_empty(qcow2: &std::path::Path, size: u64) {
    let check = qemu_img(&["check", "-f", "qcow2", path(qcow2)]);
    assert!(check.contains("No errors were found"), "{check}");
    let map = qemu_img(&["map", "--output=json", "-f", "qcow2", path(qcow2)]);
    assert!(map.contains(&format!("\"length\": {size}")) && map.contains("\"data\": false"), "{map}");
}

#[test]
fn an_overlay_shows_its_base_where_it_holds_nothing() {
    for (cluster_bits, compress) in [(16, None), (16, zlib(6)), (12, zstd(3)), (9, zlib(1))] {
        let dir = tempfile::tempdir().unwrap();
        let size = 4 * MIB + 512;
        let cluster = 1u64 << cluster_bits;
        let base = Disk::new(size).with(0, noise(size as usize, 1));
        base.write_raw(&dir.path().join("base.raw"));
        let top = dir.path().join("top.qcow2");
        // Relative names are resolved from the folder of the overlay. A short one fits a header of 512 bytes.
        let backing = Some(Backing { name: "base.raw".into(), format: "raw".into() });
        let options = Options { cluster_bits, compress, backing, ..Options::new(size) };
        let mut writer = Writer::create(fresh(&top), options).unwrap();

        let mut expected = base.pieces[0].1.clone();
        let text = prose(cluster as usize, 2);
        let (a, b, c) = (0, 5 * cluster, size / cluster * cluster);
        let mut out = Vec::new();
        match writer.packer().pack(&text, &mut out).unwrap() {
            Packed::Compressed => writer.append_compressed(a, &out).unwrap(),
            _ => writer.append_plain(a, &text).unwrap(),
        }
        writer.append_zeros(b, 3 * cluster).unwrap();
        writer.append_plain(c, &text[..(size - c) as usize]).unwrap();
        writer.finish().unwrap();
        expected[..text.len()].copy_from_slice(&text);
        expected[b as usize..(b + 3 * cluster) as usize].fill(0);
        expected[c as usize..].copy_from_slice(&text[..(size - c) as usize]);

        let info = qemu_img(&["info", "--output=json", path(&top)]);
        assert!(info.contains("\"backing-filename\": \"base.raw\""), "{info}");
        assert!(info.contains("\"backing-filename-format\": \"raw\""), "{info}");
        assert!(qemu_img(&["check", path(&top)]).contains("No errors were found"));
        let back = dir.path().join("back.raw");
        qemu_img(&["convert", "-O", "raw", path(&top), path(&back)]);
        assert!(std::fs::read(back).unwrap() == expected, "cluster_bits {cluster_bits}");
    }
}

#[test]
fn an_empty_overlay_over_a_qcow2_base_is_its_base() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new(3 * MIB).with(MIB, mixture(MIB as usize, 3));
    let base = dir.path().join("base.qcow2");
    write(&disk, &Options { compress: zlib(6), ..Options::new(disk.size) }, &base);
    let top = dir.path().join("top.qcow2");
    let backing = Some(Backing { name: path(&base).into(), format: "qcow2".into() });
    empty(fresh(&top), Options { backing, ..Options::new(disk.size) }).unwrap();
    assert!(qemu_img(&["check", path(&top)]).contains("No errors were found"));
    qemu_img(&["compare", path(&top), path(&base)]);
}

/// A target in memory that records the order of writes.
#[derive(Default)]
struct Recorder {
    bytes: Mutex<Vec<u8>>,
    writes: Mutex<Vec<(u64, u64)>>,
    fail_at: Option<usize>,
}

impl WriteAt for Recorder {
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut writes = self.writes.lock().unwrap();
        if self.fail_at == Some(writes.len()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        writes.push((offset, offset + buf.len() as u64));
        self.bytes.write_all_at(buf, offset)
    }
}

fn record(
    disk: &[u8],
    options: &Options,
    fail_at: Option<usize>,
) -> disk_format::Result<(FileSummary, Recorder)> {
    let mut writer = Writer::create(Recorder { fail_at, ..Recorder::default() }, options.clone())?;
    let (mut packer, mut out) = (writer.packer(), Vec::new());
    let cluster = writer.cluster_size();
    for (at, data) in disk.chunks(cluster).enumerate().map(|(i, data)| ((i * cluster) as u64, data)) {
        match packer.pack(data, &mut out)? {
            Packed::Zero => {}
            Packed::Plain => writer.append_plain(at, data)?,
            Packed::Compressed => writer.append_compressed(at, &out)?,
        }
    }
    writer.finish_into()
}

#[test]
fn every_byte_is_written_once_and_the_header_last() {
    for (cluster_bits, compress) in [(9, zlib(6)), (12, zstd(3)), (16, zlib(6)), (16, None), (21, zlib(1))] {
        let disk = mixture(3 * MIB as usize + 700, 5);
        let options = Options { cluster_bits, compress, ..Options::new(disk.len() as u64) };
        let (written, recorder) = record(&disk, &options, None).unwrap();
        let mut writes = recorder.writes.into_inner().unwrap();
        assert_eq!(writes.last().unwrap().0, 0, "the header comes last");
        writes.sort_unstable();
        let mut end = 0;
        for (from, to) in writes {
            assert_eq!(from, end, "cluster_bits {cluster_bits}");
            end = to;
        }
        assert_eq!(end, written.file_size);
    }
}

#[test]
fn a_failing_target_is_an_error_at_any_write_and_leaves_no_qcow2() {
    let disk = mixture(2 * MIB as usize, 6);
    let options = Options { cluster_bits: 12, compress: zlib(6), ..Options::new(disk.len() as u64) };
    let (_, good) = record(&disk, &options, None).unwrap();
    let writes = good.writes.into_inner().unwrap().len();
    assert!(writes > 10);
    for fail_at in 0..writes {
        let Err(error) = record(&disk, &options, Some(fail_at)) else {
            panic!("write {fail_at} did not fail")
        };
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("cannot write"), "{error}");
        assert!(error.offset().is_some());
    }
    // The file before the last write is not recognised as a disk.
    let bytes = good.bytes.into_inner().unwrap();
    let mut cut = bytes.clone();
    cut[..112].fill(0);
    assert_eq!((Format::probe(&bytes), Format::probe(&cut)), (Format::Qcow2, Format::Raw));
}

#[test]
fn tables_come_before_what_they_describe() {
    for (cluster_bits, compress) in [(9, zlib(6)), (12, zlib(6)), (12, None), (16, zstd(3))] {
        let disk = mixture(5 * MIB as usize, 8);
        let options = Options { cluster_bits, compress, ..Options::new(disk.len() as u64) };
        let (_, recorder) = record(&disk, &options, None).unwrap();
        let bytes = recorder.bytes.into_inner().unwrap();
        let number = |at: u64| u64::from_be_bytes(bytes[at as usize..][..8].try_into().unwrap());
        let (l1, cluster) = (number(40), 1u64 << cluster_bits);
        let refcount_table = number(48);
        assert!(refcount_table < l1);
        let mut last_data = 0;
        for i in 0..u64::from(u32::from_be_bytes(bytes[36..40].try_into().unwrap())) {
            let l2 = number(l1 + 8 * i) & 0x00ff_ffff_ffff_fe00;
            assert!(l2 == 0 || (l1 < l2 && last_data < l2), "the L2 table {i} lies behind earlier data");
            for j in 0..cluster / 8 {
                let entry = if l2 == 0 { 0 } else { number(l2 + 8 * j) };
                let at = match entry >> 62 & 1 {
                    1 => entry & ((1 << (70 - cluster_bits)) - 1),
                    _ => entry & 0x00ff_ffff_ffff_fe00,
                };
                assert!(at == 0 || l2 < at);
                last_data = last_data.max(at);
            }
        }
        assert!(last_data > 0);
    }
}

#[test]
fn the_same_disk_gives_the_same_bytes_however_the_calls_are_cut() {
    let disk =
        Disk::new(70 * MIB).with(0, mixture(3 * MIB as usize, 9)).with(50 * MIB, noise(12 * MIB as usize, 9));
    for (cluster_bits, compress) in [(9, None), (12, None), (16, None), (12, zlib(6)), (16, zstd(3))] {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { cluster_bits, compress, ..Options::new(disk.size) };
        let one_by_one = dir.path().join("a");
        write(&disk, &options, &one_by_one);
        let in_runs = dir.path().join("b");
        write_in_runs(&disk, &options, &in_runs);
        assert!(
            std::fs::read(one_by_one).unwrap() == std::fs::read(in_runs).unwrap(),
            "cluster_bits {cluster_bits}"
        );
    }
}

/// Appends as many plain clusters per call as possible, with a new packer for each, and with explicit zeros.
fn write_in_runs(disk: &Disk, options: &Options, to: &std::path::Path) {
    let raw = to.with_extension("raw");
    disk.write_raw(&raw);
    let bytes = std::fs::read(&raw).unwrap();
    let mut writer = Writer::create(fresh(to), options.clone()).unwrap();
    let (cluster, mut out) = (writer.cluster_size(), Vec::new());
    let mut plain = 0..0;
    for (i, data) in bytes.chunks(cluster).enumerate() {
        let packed = writer.packer().pack(data, &mut out).unwrap();
        if packed == Packed::Plain {
            plain = if plain.is_empty() {
                i * cluster..i * cluster + data.len()
            } else {
                plain.start..i * cluster + data.len()
            };
            continue;
        }
        if !plain.is_empty() {
            writer.append_plain(plain.start as u64, &bytes[plain]).unwrap();
            plain = 0..0;
        }
        match packed {
            Packed::Compressed => writer.append_compressed((i * cluster) as u64, &out).unwrap(),
            _ => writer.append_zeros((i * cluster) as u64, data.len() as u64).unwrap(),
        }
    }
    if !plain.is_empty() {
        writer.append_plain(plain.start as u64, &bytes[plain]).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn no_larger_than_what_qemu_writes() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new(24 * MIB).with(0, mixture(24 * MIB as usize, 10));
    let raw = dir.path().join("disk.raw");
    disk.write_raw(&raw);
    for (compress, name) in [(zlib(6), "zlib"), (zstd(3), "zstd")] {
        let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
        let written = write(&disk, &Options { compress, ..Options::new(disk.size) }, &ours);
        let kind = format!("compression_type={name}");
        qemu_img(&["convert", "-c", "-f", "raw", "-O", "qcow2", "-o", &kind, path(&raw), path(&theirs)]);
        let qemu = std::fs::metadata(&theirs).unwrap().len();
        assert!(written.file_size <= qemu, "{name}: {} bytes, qemu-img {qemu}", written.file_size);
    }
}

#[test]
fn data_far_apart_in_ten_tebibytes_makes_a_small_file() {
    let size = 10 * TIB;
    let disk = Disk::new(size)
        .with(0, prose(100_000, 1))
        .with(5 * TIB + 3, noise(100_000, 2))
        .with(size - 10, vec![1; 10]);
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("disk.qcow2");
    write(&disk, &Options { compress: zlib(6), ..Options::new(size) }, &to);
    assert!(qemu_img(&["check", path(&to)]).contains("No errors were found"));
    imago_agrees(&disk, &to);
    assert!(std::fs::metadata(&to).unwrap().blocks() * 512 < 2 * MIB);
}

#[test]
fn options_that_qemu_could_not_open_are_refused_in_a_sentence() {
    let base = |name: &str, format: &str| Some(Backing { name: name.into(), format: format.into() });
    let plain = Options::new(MIB);
    for (options, kind, says) in [
        (Options { cluster_bits: 8, ..plain.clone() }, ErrorKind::Unsupported, "cluster_bits is 8"),
        (Options { cluster_bits: 22, ..plain.clone() }, ErrorKind::Unsupported, "choose 9 to 21"),
        (
            Options { compress: zlib(0), ..plain.clone() },
            ErrorKind::Unsupported,
            "zlib compression level is 0; choose 1 to 9",
        ),
        (Options { compress: zlib(10), ..plain.clone() }, ErrorKind::Unsupported, "level is 10"),
        (Options { compress: zstd(20), ..plain.clone() }, ErrorKind::Unsupported, "choose 1 to 19"),
        (Options::new(u64::MAX), ErrorKind::TooLarge, "choose larger clusters"),
        (Options::new(1 << 60), ErrorKind::TooLarge, "1152921504606846976 bytes"),
        (Options { cluster_bits: 9, ..Options::new(TIB) }, ErrorKind::TooLarge, "clusters of 512 bytes"),
        (Options { backing: base("", "raw"), ..plain.clone() }, ErrorKind::Unsupported, "0 bytes"),
        (
            Options { backing: base(&"n".repeat(1024), "raw"), ..plain.clone() },
            ErrorKind::Unsupported,
            "1024 bytes",
        ),
        (Options { backing: base("a\0b", "raw"), ..plain.clone() }, ErrorKind::Unsupported, "NUL"),
        (Options { backing: base("a", ""), ..plain.clone() }, ErrorKind::Unsupported, "backing format"),
        (Options { backing: base("a", "raw\n"), ..plain.clone() }, ErrorKind::Unsupported, "backing format"),
        (
            Options { cluster_bits: 9, backing: base(&"n".repeat(600), "raw"), ..plain },
            ErrorKind::Unsupported,
            "shorter name",
        ),
    ] {
        let Err(error) = Writer::create(Recorder::default(), options.clone()) else {
            panic!("{options:?} passed")
        };
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}

#[test]
fn the_largest_disks_that_are_accepted_open_in_qemu() {
    for cluster_bits in [9, 12, 16, 21] {
        let fits = |size: u64| {
            Writer::create(Recorder::default(), Options { cluster_bits, ..Options::new(size) }).is_ok()
        };
        let largest = (20..=63).rev().map(|bits| 1u64 << bits).find(|&size| fits(size)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("disk");
        empty(fresh(&to), Options { cluster_bits, ..Options::new(largest) }).unwrap();
        assert!(qemu_img(&["info", path(&to)]).contains(&largest.to_string()), "cluster_bits {cluster_bits}");
    }
}

#[test]
fn calls_out_of_order_are_refused() {
    let cluster = 64 * KIB;
    let data = vec![1; 2 * cluster as usize];
    let new = || {
        Writer::create(Recorder::default(), Options { compress: zlib(6), ..Options::new(10 * cluster + 512) })
            .unwrap()
    };
    type Call<'a> = &'a dyn Fn(&mut Writer<Recorder>) -> disk_format::Result<()>;
    let calls: [(&str, Call<'_>); 10] = [
        ("before the last", &|w| w.append_plain(0, &data)),
        ("the same again", &|w| w.append_plain(2 * cluster, &data)),
        ("unaligned", &|w| w.append_plain(5 * cluster + 512, &data)),
        ("half a cluster inside the disk", &|w| w.append_plain(5 * cluster, &data[..1000])),
        ("past the end", &|w| w.append_plain(10 * cluster, &data)),
        ("far past the end", &|w| w.append_plain(u64::MAX / cluster * cluster, &data)),
        ("compressed past the end", &|w| w.append_compressed(11 * cluster, &data[..100])),
        ("compressed to nothing", &|w| w.append_compressed(5 * cluster, &[])),
        ("compressed to a whole cluster", &|w| w.append_compressed(5 * cluster, &data[..cluster as usize])),
        ("zeros past the end", &|w| w.append_zeros(9 * cluster, 3 * cluster)),
    ];
    for (name, call) in calls {
        let mut writer = new();
        writer.append_plain(2 * cluster, &data).unwrap();
        assert!(call(&mut writer).is_err(), "{name}");
    }
    let mut plain = Writer::create(Recorder::default(), Options::new(cluster)).unwrap();
    assert!(plain.append_compressed(0, &[1, 2, 3]).is_err(), "compressed into a plain disk");
}

#[test]
fn a_file_that_held_other_bytes_is_overwritten_whole() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::new(4 * MIB).with(0, mixture(2 * MIB as usize, 12));
    let to = dir.path().join("disk.qcow2");
    let file = File::options().read(true).write(true).create_new(true).open(&to).unwrap();
    WriteAt::write_all_at(&file, &vec![0xff; 8 * MIB as usize], 0).unwrap();
    let mut writer = Writer::create(&file, Options::new(disk.size)).unwrap();
    writer.append_plain(0, &disk.pieces[0].1).unwrap();
    let written = writer.finish().unwrap();
    file.set_len(written.file_size).unwrap();
    qemu_agrees(&disk, written, &to);
}
