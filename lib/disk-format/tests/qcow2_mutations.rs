//! Thousands of damaged images. Our result equals QEMU's and imago's, or is an error. It is never a panic,
//! and never slow.

mod common;

use common::{Bench, Rng, by_image, by_stream, cases, each_seed, same};
use disk_format::{Error, ErrorKind, Limits};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Size of the disk. It is small, so that a mutation often has an effect.
const RECIPES: [(&str, &[&str]); 6] = [
    (
        "-o cluster_size=512 a.qcow2 96k",
        &[
            "write -P 1 0 20k",
            "write -c -P 2 30k 512",
            "write -z 40k 4k",
            "write -c -s noise 50k 1k",
            "write -P 3 90k 6k",
        ],
    ),
    (
        "-o cluster_size=4096,compat=0.10 a.qcow2 5m",
        &[
            "write -P 4 8k 20k",
            "write -c -P 5 64k 4k",
            "write -c -P 6 68k 4k",
            "write -P 7 4m 9000",
            "discard 8k 4k",
        ],
    ),
    (
        "-o cluster_size=4096,compression_type=zstd a.qcow2 4200960",
        &[
            "write -c -P 8 4k 4k",
            "write -c -s noise 8k 4k",
            "write -P 9 1m 12k",
            "write -z 2m 1m",
            "write -P 1 4198400 2560",
        ],
    ),
    (
        "-o cluster_size=16k,extended_l2=on a.qcow2 20m",
        &[
            "write -P 10 512 1024",
            "write -P 11 64k 40k",
            "write -z 70k 2k",
            "write -P 12 17m 5k",
            "write -c -P 13 18m 16k",
        ],
    ),
    (
        "-o cluster_size=64k a.qcow2 3m",
        &[
            "write -P 14 0 64k",
            "write -c -P 15 1m 64k",
            "write -c -P 16 1088k 64k",
            "write -z 2m 64k",
            "discard 0 64k",
        ],
    ),
    ("-o cluster_size=1k a.qcow2 200k", &["write -P 17 0 50k", "write -c -P 18 150k 1k"]),
];

struct Base {
    name: usize,
    file: Vec<u8>,
    /// Offsets of mutations: header, tables, and a few anywhere.
    targets: Vec<std::ops::Range<usize>>,
}

fn base(bench: &Bench, name: usize) -> Base {
    let (options, writes) = RECIPES[name];
    bench.run(&format!("qemu-img create -q -f qcow2 {options}"));
    bench.io("a.qcow2", &writes.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
    if name == 5 {
        bench.run("qemu-img snapshot -c one a.qcow2");
        bench.io("a.qcow2", &["write -P 20 10k 3k".to_owned(), "write -P 21 60k 2k".to_owned()]);
    }
    let file = bench.read("a.qcow2");
    let u64 = |at: usize| {
        usize::try_from(u64::from_be_bytes(file[at..at + 8].try_into().expect("8 bytes"))).expect("small")
    };
    let u32 = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().expect("4 bytes")) as usize;
    let cluster = 1 << u32(20);
    let l1 = u64(40)..u64(40) + u32(36) * 8;
    let l2 = l1.clone().step_by(8).map(|at| u64(at) & 0xff_ffff_ffff_fe00).filter(|&at| at > 0);
    let mut targets = vec![0..112, 0..112, 112..500, l1.clone(), l1.clone(), u64(48)..u64(48) + 32];
    if u32(60) > 0 {
        targets.push(u64(64)..u64(64) + 100);
    }
    // Entries in use are preferred.
    for table in l2 {
        let used = (table..table + cluster).step_by(8).filter(|&at| u64(at) != 0);
        targets.extend(used.map(|at| at..at + 8));
        targets.push(table..table + cluster);
    }
    targets.push(0..file.len());
    Base { name, file, targets }
}

fn mutate(base: &Base, rng: &mut Rng) -> Vec<u8> {
    let mut file = base.file.clone();
    for _ in 0..1 + rng.below(2) {
        let range = rng.pick(&base.targets).clone();
        let at = (range.start + rng.below(range.len() as u64) as usize) % file.len();
        let word = at / 8 * 8;
        match rng.below(8) {
            0..=2 => file[at] ^= 1 << rng.below(8),
            3 => file[at] = rng.next() as u8,
            4 => file.truncate(1 + rng.below(file.len() as u64) as usize),
            kind => {
                let Some(old) = file.get(word..word + 8) else { continue };
                let old = u64::from_be_bytes(old.try_into().expect("8 bytes"));
                let other = rng.below(base.file.len() as u64);
                let new = match kind {
                    5 => *rng.pick(&[0, 1, u64::MAX, 1 << 62, 1 << 63, old << 1, old >> 1]),
                    6 => old & (3 << 62) | other & !511,
                    _ => old.wrapping_add(
                        rng.pick(&[512_u64, 4096, 1, 1 << 56, 1 << 54]).wrapping_mul(1 + rng.below(3)),
                    ),
                };
                file[word..word + 8].copy_from_slice(&new.to_be_bytes());
            }
        }
        if file.len() < 8 {
            break;
        }
    }
    file
}

fn limits() -> Limits {
    Limits { max_size: 64 << 20, table_memory: 64 << 10 }
}

/// imago in its own process. `None` if it refuses the image, or fails by itself.
fn by_imago(bench: &Bench) -> Option<Vec<u8>> {
    use imago::{DenyImplicitOpenGate, FormatAccess, FormatDriverBuilder, file::File, qcow2::Qcow2};
    std::panic::catch_unwind(|| {
        let storage = std::fs::File::open(bench.path("m.qcow2")).ok()?;
        let image =
            Qcow2::<File>::builder(storage.try_into().ok()?).open(DenyImplicitOpenGate::default()).ok()?;
        let image = FormatAccess::new(image);
        let size = usize::try_from(image.size()).ok().filter(|&size| size <= 64 << 20)?;
        let mut disk = vec![0; size];
        image.read(&mut disk, 0).ok()?;
        Some(disk)
    })
    .ok()?
}

fn timed<T>(what: &str, context: &str, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    assert!(start.elapsed() < Duration::from_secs(10), "{context}: {what} took {:?}", start.elapsed());
    result
}

/// A stream cannot read the tables of snapshots, and refuses data with two entries.
fn may_differ(image: &Result<Vec<u8>, Error>, stream: &Result<Vec<u8>, Error>) -> bool {
    match (image, stream) {
        (Ok(_), Err(e)) => {
            e.kind() == ErrorKind::Malformed && e.to_string().contains("already read from the stream")
        }
        (Err(e), Ok(_)) => e.to_string().contains("snapshot"),
        _ => true,
    }
}

#[test]
fn damaged_images_are_refused_or_read_as_in_qemu() {
    let (accepted, refused, faults) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::new(vec![]));
    each_seed(0..RECIPES.len() as u64, |bench: &Bench, name| {
        let base = base(bench, name as usize);
        for seed in 0..cases(400) {
            let mut rng = Rng(seed << 8 | base.name as u64);
            let file = mutate(&base, &mut rng);
            let context = format!("image {}, seed {seed}", base.name);
            let fault = |what: String| faults.lock().expect("no panic").push(format!("{context}, {what}"));
            let image = timed("open", &context, || by_image(&file, limits()));
            let piece = 1 + file.len() / 40;
            let stream = timed("stream", &context, || {
                by_stream(&file, limits(), || rng.below(2 * piece as u64) as usize)
            });
            if !may_differ(&image, &stream) {
                fault(format!("image and stream: {:?} {:?}", image.as_ref().err(), stream.as_ref().err()));
            }
            if let (Ok(image), Ok(stream)) = (&image, &stream) {
                same(stream, image).unwrap_or_else(|e| fault(format!("stream and image: {e}")));
            }
            let Ok(ours) = image else {
                refused.fetch_add(1, Relaxed);
                continue;
            };
            let nth = accepted.fetch_add(1, Relaxed);
            bench.write("m.qcow2", &file);
            if let Some(theirs) = by_imago(bench) {
                same(&ours, &theirs).unwrap_or_else(|e| fault(format!("imago: {e}")));
            }
            // Each image needs a process, so only some of them run by default.
            if nth.is_multiple_of(20) || std::env::var_os("QCOW2_CASES").is_some() {
                match bench.qemu_raw("m.qcow2") {
                    Ok(theirs) => same(&ours, &theirs).unwrap_or_else(&fault),
                    Err(e) => fault(format!("QEMU refuses what we read: {e}")),
                }
            }
        }
    });
    let faults = faults.into_inner().expect("no panic");
    assert!(
        faults.is_empty(),
        "{} faults, the first are:\n{}",
        faults.len(),
        faults[..faults.len().min(20)].join("\n")
    );
    let (accepted, refused) = (accepted.into_inner(), refused.into_inner());
    println!("{accepted} read, {refused} refused");
    assert!(accepted > refused / 20 && refused > accepted / 20, "the mutations tell nothing");
}

#[test]
fn a_file_cut_short_anywhere_is_refused_or_whole() {
    each_seed(0..RECIPES.len() as u64, |bench: &Bench, name| {
        let base = base(bench, name as usize);
        let whole = by_image(&base.file, limits()).expect("a sound image");
        let step = (base.file.len() / 300).max(1);
        let ends = (0..200.min(base.file.len())).chain((0..base.file.len()).step_by(step));
        for end in ends {
            let file = &base.file[..end];
            let image = by_image(file, limits());
            let stream = by_stream(file, limits(), || 40_000);
            for (way, result) in [("image", image), ("stream", stream)] {
                match result {
                    Ok(disk) => same(&disk, &whole)
                        .unwrap_or_else(|e| panic!("image {name} cut at {end}, {way}: {e}")),
                    Err(e) => {
                        let kind = e.kind();
                        // Compressed data may be truncated. Only decompression reveals that.
                        let cut =
                            kind == ErrorKind::Truncated || e.to_string().contains("the data cannot be read");
                        assert!(cut, "image {name} cut at {end}, {way}: {e}");
                    }
                }
            }
        }
    });
}
