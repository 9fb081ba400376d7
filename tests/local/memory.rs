//! Peak memory of the program: small, whatever the size of the disk.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::process::{Command, Stdio};
use std::time::Duration;
use tests::disk::qemu_convert;
use tests::measure::measure;
use tests::nginx::{Nginx, Serve};
use tests::registry::Registry;

const PROGRAM: &str = env!("CARGO_BIN_EXE_coracle");
/// Limit of memory for every run.
const MOST: u64 = 64 << 20;

struct Place(tests::place::Place);

impl std::ops::Deref for Place {
    type Target = tests::place::Place;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Place {
    fn new() -> Self {
        Place(tests::place::Place::empty(PROGRAM))
    }

    /// Converts within the limit; `pipe` is a shell command whose output is the source.
    #[track_caller]
    fn convert(&self, args: &[&str], pipe: Option<&str>) {
        self.convert_within(MOST, args, pipe);
    }

    #[track_caller]
    fn convert_within(&self, most: u64, args: &[&str], pipe: Option<&str>) {
        self.run_within(most, &[&["convert", "-q"], args].concat(), pipe);
    }

    #[track_caller]
    fn run_within(&self, most: u64, args: &[&str], pipe: Option<&str>) {
        let mut command = self.command(args);
        let feeder = pipe.map(|line| {
            let mut bash = Command::new("bash");
            let bash = bash.args(["-c", line]).current_dir(self.folder());
            let mut child = bash.stdout(Stdio::piped()).spawn().unwrap();
            command.stdin(child.stdout.take().unwrap());
            child
        });
        let measured = measure(&mut command, Duration::from_secs(240));
        drop(command);
        if let Some(mut feeder) = feeder {
            feeder.wait().unwrap();
        }
        println!(
            "{:5.1} MiB, {:5.1} s: {args:?} {}",
            measured.peak as f64 / (1 << 20) as f64,
            measured.time.as_secs_f64(),
            pipe.unwrap_or("")
        );
        measured.ran.ok();
        assert!(measured.peak > 1 << 20, "the peak was not seen");
        assert!(measured.peak <= most, "{args:?} took {} KiB", measured.peak >> 10);
    }

    /// A disk with much data that does not compress.
    fn disk(&self, mib: u64) {
        self.shell(&format!(
            "head -c {half}M /dev/urandom > disk.raw; head -c 64M /dev/zero >> disk.raw; head -c {half}M < <(yes boat) >> disk.raw",
            half = mib / 2
        ));
    }
}

#[test]
fn ten_tebibytes_with_data_all_over() {
    let place = Place::new();
    let mut commands = String::new();
    for i in 0..1400u64 {
        let at = (i * (7 << 30) + (i * 7919 % 100_000) * 65536) / 65536 * 65536;
        commands += &format!("write -q -P {} {at} 64k\n", i % 255 + 1);
    }
    std::fs::write(place.path("commands"), commands).unwrap();
    place.shell("qemu-img create -q -f qcow2 huge.qcow2 10T; qemu-io -f qcow2 huge.qcow2 < commands");
    place.convert(&["huge.qcow2", "huge.img"], None);
    place.shell("test $(stat -c %s huge.img) = $((10 << 40))");
    place.convert(&["-c", "zstd", "huge.qcow2", "again.qcow2"], None);
    place.shell("qemu-img check -q again.qcow2");
    place.convert(&["huge.img", "from-raw.qcow2"], None);
    place.convert(&["-", "streamed.img"], Some("cat huge.qcow2"));
    for i in [0u64, 3, 777, 1399] {
        let at = (i * (7 << 30) + (i * 7919 % 100_000) * 65536) / 65536 * 65536;
        for (name, format) in [
            ("huge.img", "raw"),
            ("streamed.img", "raw"),
            ("again.qcow2", "qcow2"),
            ("from-raw.qcow2", "qcow2"),
        ] {
            let said =
                place.shell(&format!("qemu-io -r -f {format} -c 'read -P {} {at} 64k' {name}", i % 255 + 1));
            assert!(!String::from_utf8_lossy(&said).contains("verification failed"), "{name} at {at}");
        }
    }
}

#[test]
fn tables_that_are_full() {
    // 16 MiB of L2 tables; and clusters of 512 bytes, each table of which covers 32 KiB.
    let place = Place::new();
    place.shell("qemu-img create -q -f qcow2 full.qcow2 256G; qemu-io -f qcow2 -c 'write -q -z -n 0 64G' -c 'write -q -z -n 64G 64G' full.qcow2");
    place.shell("qemu-img create -q -f qcow2 -o cluster_size=512 small.qcow2 512M; for i in $(seq 0 16 511); do echo write -q -P 5 ${i}M 512k; done | qemu-io -f qcow2 small.qcow2");
    for image in ["full.qcow2", "small.qcow2"] {
        place.convert(&[image, "full.img"], None);
        place.convert(&["-", "full.img"], Some(&format!("cat {image}")));
        place.convert(&["-c", "zlib", image, "out.qcow2"], None);
    }
}

#[test]
fn long_streams() {
    let place = Place::new();
    let piece = "(head -c 128M /dev/zero; head -c 32M < <(yes 'a boat on a river'))";
    place.shell(&format!(
        "{piece} > piece; gzip -1 -k piece; zstd -q -1 piece; xz -0 -T2 --block-size=4MiB -k piece"
    ));
    place.convert(&["-", "out.img"], Some("for i in $(seq 28); do cat piece; done"));
    place.shell("for i in $(seq 28); do cat piece; done | cmp - out.img");
    // Blocks of xz are decoded in parallel and ahead; the plan states the memory for that.
    for (end, most) in [("gz", MOST), ("zst", MOST), ("xz", MOST + (100 << 20))] {
        let pipe = format!("for i in $(seq 28); do cat piece.{end}; done");
        place.convert_within(most, &["-", "out.img"], Some(&pipe));
        place.shell("test $(stat -c %s out.img) = $((28 * 160 << 20))");
    }
}

#[test]
fn ordinary_work() {
    let place = Place::new();
    place.disk(256);
    let nginx = Nginx::start(&Serve::default());
    for (name, words) in
        [("plain.qcow2", ""), ("zlib.qcow2", "-c"), ("zstd.qcow2", "-c -o compression_type=zstd")]
    {
        qemu_convert(&format!("-f raw -O qcow2 {words}"), &place.path("disk.raw"), &place.path(name));
        let url = nginx.link(name, &place.path(name));
        place.convert(&[name, "out.img"], None);
        place.shell("cmp disk.raw out.img");
        place.convert(&["--verify", &url, "out.img"], None);
        place.convert(&["-c", "zstd", name, "out.qcow2"], None);
        place.convert(&[&url, "out.qcow2"], None);
        place.shell("qemu-img compare -q -f raw -F qcow2 disk.raw out.qcow2; rm out.*");
    }
    let url = nginx.link("disk.raw", &place.path("disk.raw"));
    place.convert(&[&url, "out.img"], None);
    place.convert(&["-c", "zlib", "disk.raw", "out.qcow2"], None);
    place.shell("gzip -1 -k disk.raw");
    let url = nginx.link("disk.raw.gz", &place.path("disk.raw.gz"));
    place.convert(&[&url, "out.img"], None);
    place.convert(&["-c", "zstd", &url, "out.qcow2"], None);
    place.shell("qemu-img compare -q -f raw -F qcow2 disk.raw out.qcow2");
}

#[test]
fn images() {
    let place = Place::new();
    // Noise, text, and a hole up to the end.
    place.disk(256);
    place.shell("truncate -s 2G disk.raw; qemu-img convert -f raw -O qcow2 disk.raw disk.qcow2");
    let (one, two) = (Registry::start(), Registry::start());
    let at = |registry: &Registry, name: &str| format!("docker://{}/{name}", registry.address());
    let within = |args: &[&str]| place.run_within(MOST, args, None);
    let is_the_disk = || place.shell("cmp disk.raw out.img; rm out.img");
    for layer in ["zstd", "gzip", "none"] {
        let (remote, other) = (at(&one, &format!("os:{layer}")), at(&two, &format!("os:{layer}")));
        // Each packing thread has pieces of its own, as many as --memory allows.
        for threads in [&["--threads", "2"][..], &["--threads", "16", "--memory", "64M"]] {
            for name in ["os", &remote] {
                let args = ["build", "-q", "-t", name, "--layer", layer, "disk.qcow2"];
                within(&[&args, threads].concat());
            }
        }
        within(&["push", "-q", "os", &at(&two, &format!("pushed:{layer}"))]);
        within(&["copy", "-q", &remote, &other]);
        place.run(&["rmi", "os"]).ok();
        place.run(&["prune"]).ok();
        within(&["pull", "-q", &remote, "os"]);
        within(&["verify", "-q", "os"]);
        within(&["convert", "-q", "os", "out.img"]);
        is_the_disk();
        within(&["verify", "-q", &remote]);
        within(&["convert", "-q", &remote, "out.img"]);
        is_the_disk();
    }
    // A raw disk waits in a spool for its tables, and as a raw disk it is as large in the layer.
    within(&["build", "-q", "-t", "os", "disk.raw"]);
    within(&["build", "-q", "-t", &at(&one, "raw:1"), "--layer", "none", "--format", "raw", "disk.qcow2"]);
    within(&["convert", "-q", &at(&one, "raw:1"), "out.img"]);
    is_the_disk();
    within(&["build", "-q", "-t", "again", &at(&one, "raw:1")]);
}
