//! Measurement of the qcow2 writer on a raw disk.
//!
//! ```text
//! cargo run --release -p disk-format --example qcow2_write -- DISK.raw                    every level: MB/s a thread, ratio
//! cargo run --release -p disk-format --example qcow2_write -- DISK.raw OUT.qcow2 zlib:6   converts, on all cores
//! ```

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use disk_format::Codec;
use disk_format::qcow2::write::{Compression, FreshFile, Options, Packed, Packer, Writer};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, atomic::AtomicU64, atomic::Ordering};
use std::time::Instant;

const CLUSTER: usize = 64 << 10;
/// Bytes that a thread processes at once.
const PIECE: usize = 16 * CLUSTER;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [disk] => measure_levels(&File::open(disk).unwrap()),
        [disk, out, codec] => {
            let cores = std::thread::available_parallelism().unwrap().get();
            convert(&File::open(disk).unwrap(), out, parse(codec), cores);
        }
        [disk, out, codec, threads] => {
            convert(&File::open(disk).unwrap(), out, parse(codec), threads.parse().unwrap());
        }
        _ => println!("usage: qcow2_write DISK.raw [OUT.qcow2 zlib:LEVEL|zstd:LEVEL|plain [THREADS]]"),
    }
}

fn parse(codec: &str) -> Option<Compression> {
    let (codec, level) = codec.split_once(':').unwrap_or((codec, "6"));
    let codec = match codec {
        "zlib" => Codec::Deflate,
        "zstd" => Codec::Zstd,
        _ => return None,
    };
    Some(Compression { codec, level: level.parse().unwrap() })
}

/// Measures a sample of the disk's clusters at every level, and with zlib-rs for comparison.
fn measure_levels(disk: &File) {
    let clusters = disk.metadata().unwrap().len() / CLUSTER as u64;
    let step = (clusters / 1000).max(1) as usize;
    let sample: Vec<Vec<u8>> =
        (0..clusters).step_by(step).map(|i| read(disk, i * CLUSTER as u64, CLUSTER)).collect();
    let sample: Vec<_> = sample.into_iter().filter(|cluster| cluster.iter().any(|&byte| byte != 0)).collect();
    println!("{} clusters of 64 KiB, one thread, the best of three runs", sample.len());
    let mut yardstick = flate2::Compress::new_with_window_bits(flate2::Compression::new(6), false, 12);
    let mut out = vec![0; 2 * CLUSTER];
    report("zlib-rs 6, 4 KiB", &sample, |cluster| {
        yardstick.reset();
        yardstick.compress(cluster, &mut out, flate2::FlushCompress::Finish).unwrap();
        (yardstick.total_out() as usize).min(CLUSTER)
    });
    let zlib = (1..=9).map(|level| Compression { codec: Codec::Deflate, level });
    let zstd = [1, 2, 3, 4, 5, 6, 9, 12, 15, 19].map(|level| Compression { codec: Codec::Zstd, level });
    for compression in zlib.chain(zstd) {
        let options = Options { compress: Some(compression), ..Options::new(0) };
        let mut packer = Writer::create(Mutex::new(vec![]), options).unwrap().packer();
        let name = format!("{:?} {}", compression.codec, compression.level);
        report(&name, &sample, |cluster| match packer.pack(cluster, &mut out).unwrap() {
            Packed::Zero => 0,
            Packed::Plain => CLUSTER,
            Packed::Compressed => out.len(),
        });
    }
}

fn report(name: &str, sample: &[Vec<u8>], mut pack: impl FnMut(&[u8]) -> usize) {
    let (mut best, mut packed) = (f64::MAX, 0);
    for _ in 0..3 {
        let start = Instant::now();
        packed = sample.iter().map(|cluster| pack(cluster)).sum();
        best = best.min(start.elapsed().as_secs_f64());
    }
    let bytes = (sample.len() * CLUSTER) as f64;
    println!("{name:18} {:7.1} MB/s   ratio {:.5}", bytes / best / 1e6, packed as f64 / bytes);
}

/// A piece of the disk: its bytes, and for each cluster the result of packing and the end of its compressed
/// bytes.
#[derive(Default)]
struct Piece {
    data: Vec<u8>,
    packed: Vec<u8>,
    clusters: Vec<(Packed, usize)>,
}

fn convert(disk: &File, out: &str, compress: Option<Compression>, threads: usize) {
    let size = disk.metadata().unwrap().len();
    let start = Instant::now();
    let file = File::options().read(true).write(true).create(true).truncate(true).open(out).unwrap();
    let synced = file.try_clone().unwrap();
    let mut writer = Writer::create(FreshFile(file), Options { compress, ..Options::new(size) }).unwrap();
    let pieces = size.div_ceil(PIECE as u64);
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (done, finished) = sync_channel(2 * threads);
        for _ in 0..threads {
            let (done, next, mut packer) = (done.clone(), &next, writer.packer());
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= pieces {
                        return;
                    }
                    done.send((index, pack_piece(disk, size, index, &mut packer))).unwrap();
                }
            });
        }
        drop(done);
        let mut waiting = std::collections::BTreeMap::new();
        let mut expected = 0;
        for (index, piece) in finished {
            waiting.insert(index, piece);
            while let Some(piece) = waiting.remove(&expected) {
                append(&mut writer, expected * PIECE as u64, &piece);
                expected += 1;
            }
        }
    });
    let written = writer.finish().unwrap();
    let unsynced = start.elapsed().as_secs_f64();
    synced.sync_data().unwrap();
    println!("{unsynced:.2} s, {:.2} s with fdatasync, {written:?}", start.elapsed().as_secs_f64());
}

fn pack_piece(disk: &File, size: u64, index: u64, packer: &mut Packer) -> Piece {
    let at = index * PIECE as u64;
    let mut piece =
        Piece { data: read(disk, at, (size - at).min(PIECE as u64) as usize), ..Piece::default() };
    let mut out = Vec::new();
    for cluster in piece.data.chunks(CLUSTER) {
        let packed = packer.pack(cluster, &mut out).unwrap();
        if packed == Packed::Compressed {
            piece.packed.extend_from_slice(&out);
        }
        piece.clusters.push((packed, piece.packed.len()));
    }
    piece
}

fn append(writer: &mut Writer<FreshFile>, at: u64, piece: &Piece) {
    let mut index = 0;
    let mut from = 0;
    for run in piece.clusters.chunk_by(|a, b| a.0 == Packed::Plain && b.0 == Packed::Plain) {
        let data = index * CLUSTER..((index + run.len()) * CLUSTER).min(piece.data.len());
        let guest = at + data.start as u64;
        match run[0] {
            (Packed::Zero, _) => writer.append_zeros(guest, data.len() as u64).unwrap(),
            (Packed::Plain, _) => writer.append_plain(guest, &piece.data[data]).unwrap(),
            (Packed::Compressed, end) => writer.append_compressed(guest, &piece.packed[from..end]).unwrap(),
        }
        from = run[run.len() - 1].1;
        index += run.len();
    }
}

fn read(disk: &File, at: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    disk.read_exact_at(&mut data, at).unwrap();
    data
}
