//! Images of `qemu-img convert`, read in order: correct for any pieces, with almost nothing spooled.

mod common;

use common::{Bench, MOST, Rng, by_stream, same};
use disk_format::{Data, Extent, Format, Limits, StreamImage, rebuild, stream};
use proptest::prelude::*;

/// 40 MiB with typical content of disks: text, noise, runs of one byte, zeros.
fn disk() -> Vec<u8> {
    let mut rng = Rng(11);
    let mut disk = Vec::new();
    while disk.len() < 40 << 20 {
        let len = 4096 * (1 + rng.below(64)) as usize;
        match rng.below(5) {
            0 => disk.resize(disk.len() + len, 0),
            1 => disk.resize(disk.len() + len, rng.next() as u8),
            2 => disk.extend((0..len / 8).flat_map(|_| rng.next().to_le_bytes())),
            _ => {
                disk.extend((0..len / 8).flat_map(|_| *rng.pick(&[*b"the coro", *b"a small ", *b"one pers"])))
            }
        }
    }
    disk.truncate((40 << 20) - 512);
    disk
}

/// Number of bytes that were spooled, and number that were returned at the end.
fn spooled(file: &[u8]) -> (u64, u64) {
    let mut reader = stream(Format::Qcow2, Limits::default()).expect("a sound image");
    let (mut base, mut kept, mut left) = (0, 0, 0);
    while base < file.len() {
        let end = file.len().min(base + (6 << 20));
        let pushed = reader.push(base as u64, &file[base..end], end == file.len()).expect("a sound image");
        kept += pushed.spool.iter().map(|r| r.end - r.start).sum::<u64>();
        base = usize::try_from(pushed.keep_from).expect("a sound image");
    }
    while let Some(extents) = reader.leftover(&file.to_vec()).expect("a sound image") {
        left += extents.iter().filter(|e| e.data != Data::Zero).map(|e| e.len).sum::<u64>();
    }
    (kept, left)
}

#[test]
fn conversions_pass_without_a_spool_worth_the_name() {
    let bench = Bench::new();
    let disk = disk();
    bench.write("disk.raw", &disk);
    // Options, and the maximum part of the file that is spooled, in percent.
    let cases = [
        ("", 1),
        ("-o compat=0.10", 1),
        ("-o extended_l2=on", 1),
        ("-o preallocation=metadata", 1),
        ("-W", 1),
        ("-o cluster_size=2M", 1),
        ("-o cluster_size=4k", 1),
        ("-o cluster_size=512", 1),
        ("-c", 1),
        ("-c -W", 1),
        ("-c -o compression_type=zstd", 1),
        ("-c -o cluster_size=2M", 1),
        ("-c -o cluster_size=16k", 5),
        ("-c -W -o cluster_size=16k", 25),
        ("-c -o cluster_size=4k,compression_type=zstd", 3),
    ];
    for (options, percent) in cases {
        bench.run(&format!("qemu-img convert -f raw -O qcow2 {options} disk.raw a.qcow2"));
        let file = bench.read("a.qcow2");
        let mut rng = Rng(3);
        let ours = by_stream(&file, Limits::default(), || rng.below(3 << 20) as usize)
            .unwrap_or_else(|e| panic!("{options}: {e}"));
        same(&ours, &disk).unwrap_or_else(|e| panic!("{options}: {e}"));
        let (kept, left) = spooled(&file);
        println!("{options:40} {kept:9} of {:9} spooled, {left:9} left", file.len());
        let most = file.len() as u64 * percent / 100;
        assert!(kept <= most, "{options}: {kept} of {} bytes spooled, {most} are allowed", file.len());
    }
}

#[test]
fn a_moved_l1_table_comes_out_right_from_the_spool() {
    let bench = Bench::new();
    let mut disk = disk();
    bench.write("disk.raw", &disk);
    bench.run("qemu-img convert -f raw -O qcow2 -c -o cluster_size=4k disk.raw a.qcow2");
    // The L1 table outgrows its cluster and moves to the end of the file.
    bench.run("qemu-img resize -q a.qcow2 4G");
    bench.run("qemu-img resize -q --shrink a.qcow2 64M");
    disk.resize(64 << 20, 0);
    let file = bench.read("a.qcow2");
    let ours = by_stream(&file, Limits::default(), || 1 << 20).unwrap();
    same(&ours, &disk).unwrap();
    let (kept, left) = spooled(&file);
    assert!(
        kept > file.len() as u64 * 9 / 10 && left > 30 << 20,
        "{kept} bytes kept, {left} left: it did not move"
    );
}

#[test]
fn what_a_snapshot_left_behind_is_found() {
    let bench = Bench::new();
    bench.run("qemu-img create -q -f qcow2 -o cluster_size=4k a.qcow2 8M");
    let all: Vec<String> = (0..64).map(|i| format!("write -c -P {} {}k 4k", i + 1, i * 100)).collect();
    bench.io("a.qcow2", &all);
    bench.run("qemu-img snapshot -c one a.qcow2");
    bench.io("a.qcow2", &["write -P 99 1M 5k".to_owned(), "write -P 98 5M 5k".to_owned()]);
    let theirs = bench.qemu_raw("a.qcow2").unwrap();
    let file = bench.read("a.qcow2");
    same(&by_stream(&file, Limits::default(), || 9000).unwrap(), &theirs).unwrap();
    assert!(spooled(&file).1 > 64 << 10, "the tables were copied, so their data comes before them");
}

/// Copies the extents of a piece to their positions.
fn draw(disk: &mut [u8], file: &[u8], extents: &[Extent]) {
    let index = |at: u64| usize::try_from(at).expect("a small disk");
    for extent in extents {
        let bytes = &mut disk[index(extent.guest)..index(extent.end())];
        match extent.data {
            Data::Zero => bytes.fill(0),
            Data::Raw { at } => bytes.copy_from_slice(&file[index(at)..index(at + extent.len)]),
            Data::Packed { .. } => panic!("{extent:?} is compressed"),
        }
    }
}

/// Pushes a file from `base` on, and calls `check` with the reader after each piece.
fn push(
    reader: &mut dyn StreamImage,
    file: &[u8],
    mut base: usize,
    disk: &mut [u8],
    mut check: impl FnMut(&dyn StreamImage, &[u8]),
) {
    loop {
        let end = file.len().min(base + (1 << 20));
        let pushed = reader.push(base as u64, &file[base..end], end == file.len()).expect("a sound image");
        assert!(pushed.spool.is_empty() && pushed.keep_from <= end as u64, "{pushed:?} of {base}..{end}");
        draw(disk, file, &pushed.extents);
        check(reader, disk);
        base = usize::try_from(pushed.keep_from).expect("a small file");
        if end == file.len() {
            return;
        }
    }
}

#[test]
fn another_reader_goes_on_where_one_stood() {
    let bench = Bench::new();
    let disk = disk();
    bench.write("disk.raw", &disk);
    for options in ["", "-o compat=0.10", "-o cluster_size=16k"] {
        bench.run(&format!("qemu-img convert -f raw -O qcow2 {options} disk.raw a.qcow2"));
        let file = bench.read("a.qcow2");
        let fresh = || stream(Format::Qcow2, Limits::default()).unwrap();
        let mut gone_on = 0;
        push(&mut *fresh(), &file, 0, &mut vec![0xaa; disk.len()], |reader, drawn| {
            let Some(position) = reader.position() else { return };
            let mut other = fresh();
            let front = usize::try_from(position.front).unwrap();
            assert!(other.front().is_none() && reader.front() == Some(position.front));
            other.push(0, &file[..front], false).unwrap();
            other.resume_from(&position).unwrap();
            let mut drawn = drawn.to_vec();
            // The stream is entered before that position: by a little, or by the size of a layer's unit.
            let distance = [300_001, 3 << 20, 16 << 20][gone_on % 3];
            let before = usize::try_from(position.at).unwrap().saturating_sub(distance);
            push(&mut *other, &file, before, &mut drawn, |_, _| ());
            assert!(other.leftover(&file).unwrap().is_none(), "{options}");
            assert!(drawn == disk, "{options}: from {:#x}", position.at);
            gone_on += 1;
        });
        assert!(gone_on >= 10, "{options}: {gone_on} places");
    }
}

#[test]
fn nobody_goes_on_from_a_place_that_makes_no_sense() {
    let bench = Bench::new();
    bench.write("disk.raw", &disk());
    bench.run("qemu-img convert -f raw -O qcow2 disk.raw a.qcow2");
    let file = bench.read("a.qcow2");
    let mut reader = stream(Format::Qcow2, Limits::default()).unwrap();
    reader.push(0, &file[..4 << 20], false).unwrap();
    let position = reader.position().unwrap();
    let at = position.at;
    assert!(
        stream(Format::Qcow2, Limits::default()).unwrap().resume_from(&position).is_err(),
        "no header yet"
    );
    for pending in [
        vec![(0, 0, at)],
        vec![(0, 512, at - 1)],
        vec![(1 << 40, 512, at)],
        vec![(u64::MAX, 512, at)],
        vec![(0, 512, u64::MAX)],
        vec![(0, 512, at); 2049],
    ] {
        let mut other = stream(Format::Qcow2, Limits::default()).unwrap();
        other.push(0, &file[..usize::try_from(position.front).unwrap()], false).unwrap();
        let odd = disk_format::StreamPosition { pending, ..position.clone() };
        assert!(other.resume_from(&odd).is_err(), "{:?}", odd.pending.first());
    }
}

#[test]
fn one_byte_at_a_time_is_enough() {
    let bench = Bench::new();
    bench.run("qemu-img create -q -f qcow2 -o cluster_size=512 a.qcow2 80k");
    let commands =
        ["write -P 5 1k 9k", "write -c -P 6 20k 512", "write -c -s noise 30k 512", "write -z 8k 1k"];
    bench.io("a.qcow2", &commands.map(str::to_owned));
    let theirs = bench.qemu_raw("a.qcow2").unwrap();
    same(&by_stream(&bench.read("a.qcow2"), Limits::default(), || 1).unwrap(), &theirs).unwrap();
}

#[test]
fn a_broken_protocol_is_an_error() {
    let bench = Bench::new();
    bench.run("qemu-img create -q -f qcow2 a.qcow2 1M");
    let file = bench.read("a.qcow2");
    let fresh = || stream(Format::Qcow2, Limits::default()).unwrap();
    assert!(fresh().push(512, &file[512..], true).is_err(), "not from the start");
    assert!(fresh().leftover(&file).is_err(), "nothing was pushed");
    let mut reader = fresh();
    reader.push(0, &file[..70_000], false).unwrap();
    assert!(reader.leftover(&file).is_err(), "not the end yet");
    assert!(reader.push(80_000, &file[80_000..], true).is_err(), "a gap");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    /// The division into pieces does not matter.
    #[test]
    fn any_pieces_tell_the_same(seed in 0..6_u64, cuts in prop::collection::vec(1..200_000_usize, 1..12)) {
        let (file, disk) = &samples()[seed as usize % samples().len()];
        let mut next = cuts.iter().cycle().copied();
        let mut reader = stream(Format::Qcow2, Limits::default()).unwrap();
        let ours = rebuild::from_stream(&mut *reader, file, || next.next().unwrap_or(1), MOST);
        let ours = ours.map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert!(same(&ours, disk).is_ok());
    }
}

/// A few files and their disks, made once.
fn samples() -> &'static [(Vec<u8>, Vec<u8>)] {
    static SAMPLES: std::sync::OnceLock<Vec<(Vec<u8>, Vec<u8>)>> = std::sync::OnceLock::new();
    SAMPLES.get_or_init(|| {
        let bench = Bench::new();
        let disk = disk()[..6 << 20].to_vec();
        bench.write("disk.raw", &disk);
        let options =
            ["-c", "-W", "-c -W -o cluster_size=16k", "-o extended_l2=on", "-c -o compression_type=zstd"];
        options
            .iter()
            .map(|options| {
                bench.run(&format!("qemu-img convert -f raw -O qcow2 {options} disk.raw a.qcow2"));
                (bench.read("a.qcow2"), disk.clone())
            })
            .collect()
    })
}
