//! Images made by `qemu-img` and `qemu-io` from a seed, and our two readers for them.
#![allow(dead_code, reason = "each test binary uses its part")]

use disk_format::{Format, Limits, Result, rebuild};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// Limit for disks that the tests rebuild in memory.
pub(crate) const MOST: u64 = 256 << 20;

/// The generator SplitMix64, which gives the same numbers everywhere.
#[derive(Clone)]
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

/// A folder for one test's images.
pub(crate) struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let mut rng = Rng(7);
        let noise: Vec<u8> = (0..64 << 10).map(|_| rng.next() as u8).collect();
        std::fs::write(dir.path().join("noise"), noise).expect("room for temporary files");
        Bench { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs a command in the folder. Arguments are separated by single spaces. A failure panics.
    pub(crate) fn run(&self, line: &str) {
        let (ok, text) = self.try_run(line);
        assert!(ok, "{line}: {text}");
    }

    pub(crate) fn try_run(&self, line: &str) -> (bool, String) {
        let words: Vec<&str> = line.split(' ').filter(|w| !w.is_empty()).collect();
        run(Command::new(words[0]).args(&words[1..]).current_dir(self.dir.path()))
    }

    /// Runs all commands in one `qemu-io` process. Some may fail (a compressed write over a written cluster).
    pub(crate) fn io(&self, image: &str, commands: &[String]) {
        let mut command = Command::new("qemu-io");
        command.current_dir(self.dir.path());
        command.args(commands.iter().flat_map(|c| ["-c", c]));
        run(command.args(["-f", "qcow2", image]));
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).expect(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect(name);
    }

    /// QEMU's content of an image, or the first line of its error if it refuses the image.
    pub(crate) fn qemu_raw(&self, image: &str) -> Result<Vec<u8>, String> {
        let out = format!("{image}.raw");
        let (ok, text) = self.try_run(&format!("qemu-img convert -f qcow2 -O raw {image} {out}"));
        let disk = ok.then(|| self.read(&out));
        let _ = std::fs::remove_file(self.path(&out));
        disk.ok_or(text)
    }
}

fn run(command: &mut Command) -> (bool, String) {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e} (make setup installs it)"));
    let text = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned())
}

/// Rebuilds the disk by its tables.
pub(crate) fn by_image(file: &[u8], limits: Limits) -> Result<Vec<u8>> {
    let image = disk_format::open(Format::Qcow2, Arc::new(file.to_vec()), limits)?;
    never_wrong(rebuild::from_image(&*image, &file.to_vec(), MOST))
}

/// Rebuilds the disk from a stream of pieces.
pub(crate) fn by_stream(file: &[u8], limits: Limits, piece: impl FnMut() -> usize) -> Result<Vec<u8>> {
    let mut stream = disk_format::stream(Format::Qcow2, limits)?;
    never_wrong(rebuild::from_stream(&mut *stream, file, piece, MOST))
}

/// The result of a reader. An image may be refused, but a violation of the reader's contract fails the test.
fn never_wrong(result: Result<Vec<u8>>) -> Result<Vec<u8>> {
    if let Err(e) = &result {
        assert!(!e.to_string().contains(rebuild::WRONG), "{e}");
    }
    result
}

/// The first difference of two disks, in short form.
pub(crate) fn same(ours: &[u8], theirs: &[u8]) -> Result<(), String> {
    if ours.len() != theirs.len() {
        return Err(format!("{} bytes, QEMU has {}", ours.len(), theirs.len()));
    }
    match ours.iter().zip(theirs).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(at) => Err(format!("at {at:#x}: {:#x}, QEMU has {:#x}", ours[at], theirs[at])),
    }
}

/// Number of cases: a few by default; `QCOW2_CASES=20` runs twenty times as many.
pub(crate) fn cases(few: u64) -> u64 {
    let times = std::env::var("QCOW2_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    few * times
}

/// Runs `case` for each seed on as many threads as there are processors, each with its own folder.
pub(crate) fn each_seed(seeds: std::ops::Range<u64>, case: impl Fn(&Bench, u64) + Sync) {
    let next = std::sync::atomic::AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(2, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let bench = Bench::new();
                loop {
                    let seed = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    case(&bench, seed);
                }
            });
        }
    });
}

/// Makes a random image in `name`: created, written, with snapshots, resized or converted, as the seed
/// determines. Returns the commands, for the message of a failure.
pub(crate) fn make_image(bench: &Bench, seed: u64, name: &str) -> String {
    let mut rng = Rng(seed);
    let mut story = vec![];
    let _ = std::fs::remove_file(bench.path(name));
    let v2 = rng.one_in(6);
    let cluster: u64 = *rng.pick(&[512, 1024, 4096, 4096, 16384, 65536, 65536, 65536, 2 << 20]);
    let extended = !v2 && cluster >= 16384 && rng.one_in(3);
    let mut options =
        vec![format!("cluster_size={cluster}"), format!("compat={}", if v2 { "0.10" } else { "1.1" })];
    if extended {
        options.push("extended_l2=on".to_owned());
    }
    if !v2 && rng.one_in(3) {
        options.push("compression_type=zstd".to_owned());
    }
    if !v2 && rng.one_in(4) {
        options.push(format!("refcount_bits={}", rng.pick(&[1, 2, 4, 8, 32, 64])));
    }
    if !v2 && rng.one_in(5) && !options.iter().any(|o| o.starts_with("refcount_bits")) {
        options.push("lazy_refcounts=on".to_owned());
    }
    let one_bit = options.iter().any(|o| o == "refcount_bits=1");
    // Several L2 tables, if that is cheap.
    let table = cluster * cluster / if extended { 16 } else { 8 };
    let size = 512 * (1 + rng.below((table * 4).min(24 << 20) / 512));
    let prealloc = !extended && rng.one_in(8);
    let mut do_line = |line: String| {
        bench.run(&line);
        story.push(line);
    };
    let prealloc = if prealloc { ",preallocation=metadata" } else { "" };
    do_line(format!("qemu-img create -q -f qcow2 -o {}{prealloc} {name} {size}", options.join(",")));
    let mut size = size;
    for round in 0..1 + rng.below(3) {
        let count = 1 + rng.below(24);
        let commands: Vec<String> =
            (0..count).map(|_| io_command(&mut rng, size, cluster, extended)).collect();
        bench.io(name, &commands);
        story.push(format!("qemu-io {name} {commands:?}"));
        // QEMU refuses some commands: more snapshots than the refcounts allow, resizing v2 with snapshots.
        let line = if rng.one_in(4) && !one_bit && prealloc.is_empty() {
            format!("qemu-img snapshot -c s{round} {name}")
        } else if rng.one_in(5) {
            size += 512 * rng.below((table * 3).min(16 << 20) / 512);
            format!("qemu-img resize -q {name} {size}")
        } else {
            continue;
        };
        if !bench.try_run(&line).0 {
            break;
        }
        story.push(line);
    }
    if rng.one_in(3) {
        let flags: String = [("-c", 2), ("-W", 2), ("-S 0", 6), ("-m 3", 3)]
            .iter()
            .filter(|(_, odds)| rng.one_in(*odds))
            .map(|(flag, _)| format!("{flag} "))
            .collect();
        let line =
            format!("qemu-img convert -f qcow2 -O qcow2 {flags}-o {} {name} {name}.2", options.join(","));
        bench.run(&line);
        story.push(line);
        std::fs::rename(bench.path(&format!("{name}.2")), bench.path(name)).expect(name);
    }
    story.join("\n")
}

fn io_command(rng: &mut Rng, size: u64, cluster: u64, extended: bool) -> String {
    let sectors = size / 512;
    let start = rng.below(sectors);
    let longest = (sectors - start).min(if rng.one_in(4) { 4096 } else { 3 * cluster / 512 + 8 });
    let (at, len) = (start * 512, (1 + rng.below(longest)) * 512);
    let pattern = rng.below(255) + 1;
    let whole = at / cluster * cluster;
    match rng.below(12) {
        0..=2 => format!("write -P {pattern} {at} {len}"),
        3 | 4 => format!("write -s noise {at} {len}"),
        5 => format!("write -z {at} {len}"),
        6 => format!("write -z -u {at} {len}"),
        7 => format!("discard {at} {len}"),
        8 if extended => format!("write -P {pattern} {at} 512"),
        // A compressed write has whole clusters, or reaches the end of the disk.
        8..=10 => format!("write -c -P {pattern} {whole} {}", cluster.min(size - whole)),
        _ => format!("write -c -s noise {whole} {}", cluster.min(size - whole)),
    }
}
