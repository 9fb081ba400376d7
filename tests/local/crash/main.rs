//! kill -9, Ctrl-C and reruns: the final name never holds a partial disk, and the same command resumes where
//! the killed run had come.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod compressed;
mod evictions;
mod figures;

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tests::coracle::Ran;
use tests::disk::Noise;
use tests::http::{Behaviour, Fail, Server, Spoil};

const PROGRAM: &str = env!("CARGO_BIN_EXE_coracle");
/// Size of the disk: not a multiple of a cluster, nor of the pieces that are copied.
const SIZE: u64 = (22 << 20) + 512 * 9;
/// Bytes per second of the slow server on each connection.
const RATE: u64 = 12 << 20;
/// Number of killed runs in all cases together.
const KILLS: usize = 210;

/// A folder with `disk.raw` and all inputs of the cases.
struct Place(tests::place::Place);

impl std::ops::Deref for Place {
    type Target = tests::place::Place;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Place {
    fn new(seed: u64) -> Self {
        Place(tests::place::Place::with_disk(PROGRAM, SIZE, seed))
    }

    /// The disk as bytes of a qcow2.
    fn image(&self, name: &str, words: &str) -> Vec<u8> {
        self.qcow2(name, words);
        self.bytes(name)
    }

    /// The disk compressed in many members, blocks or frames, so that decoding can resume inside the stream.
    fn packed(&self, end: &str) -> Vec<u8> {
        self.packed_file("disk.raw", end)
    }

    fn packed_file(&self, name: &str, end: &str) -> Vec<u8> {
        self.shell(&match end {
            "gz" => format!("split -b 2M --filter='gzip -1' {name} > {name}.gz"),
            "zst" => format!("split -b 2M --filter='zstd -q -1' {name} > {name}.zst"),
            _ => format!("xz -0 -T2 --block-size=2MiB -k {name}"),
        });
        self.bytes(&format!("{name}.{end}"))
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The final name holds nothing, or the whole disk.
    #[track_caller]
    fn nothing_or_all(&self, case: &str, target: &str) -> bool {
        let there = self.path(target).exists();
        assert!(!there || self.same(target), "{case}: a part of a disk");
        there
    }

    /// Starts a run and kills it once its journal has a mark. A run that ends before gets another attempt.
    #[track_caller]
    fn killed_behind_a_mark(&self, args: &[&str], target: &str) {
        for _ in 0..50 {
            let mut child = self.start(&[args, &["--journal-every", "2"]].concat());
            wait_for("a mark", || self.has_mark(target) || self.path(target).exists());
            child.kill().unwrap();
            child.wait().unwrap();
            if !self.path(target).exists() && self.has_mark(target) {
                return;
            }
            let _ = std::fs::remove_file(self.path(target));
        }
        panic!("no run can be killed behind a mark");
    }

    fn has_mark(&self, target: &str) -> bool {
        let journal = std::fs::read(self.path(&format!("{target}.partial.journal"))).unwrap_or_default();
        journal.windows(10).any(|w| w == b"\"position\"")
    }
}

/// One way to convert the disk.
struct Case {
    name: &'static str,
    source: String,
    /// True if a run can be resumed.
    resumes: bool,
    words: &'static str,
}

/// Result of the killed runs of one case.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    killed: usize,
    /// Killed runs that left a mark.
    marked: usize,
    /// Later runs that resumed from the mark.
    resumed: usize,
    /// Runs that ended before they could be killed.
    quick: usize,
}

/// Kills runs of one case at random moments; after every few kills a run completes.
fn storm(place: &Place, case: &Case, kills: usize, seed: u64) -> Count {
    let target = format!("{}.img", case.name);
    // Local runs are short.
    let every = if case.source.starts_with("http") { "20" } else { "5" };
    let mut args = vec!["convert", "--json", "-q", "--journal-every", every, &case.source, &target];
    args.extend(case.words.split_whitespace());
    let since = Instant::now();
    place.run(&args).ok();
    let usual = since.elapsed();
    assert!(place.nothing_or_all(case.name, &target));
    std::fs::remove_file(place.path(&target)).unwrap();

    let (mut noise, mut count) = (Noise::new(seed), Count::default());
    while count.killed < kills {
        for left in (0..=noise.below(3)).rev() {
            let mut child = place.start(&args);
            let mut moment = usual.mul_f64(noise.below(1000) as f64 / 1000.0);
            // The last one mostly comes behind a mark, however busy the machine is.
            if case.resumes && left == 0 && noise.below(4) > 0 {
                while !place.has_mark(&target) && child.try_wait().unwrap().is_none() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                moment /= 8;
            }
            std::thread::sleep(moment);
            child.kill().unwrap();
            match child.wait().unwrap().code() {
                None => count.killed += 1,
                Some(0) => count.quick += 1,
                Some(code) => {
                    panic!("{}: exit {code}: {}", case.name, Ran::of(child.wait_with_output().unwrap()).err)
                }
            }
            if place.nothing_or_all(case.name, &target) {
                std::fs::remove_file(place.path(&target)).unwrap();
                // A run killed between the rename and its end leaves a journal that belongs to no run.
                assert!(!place.path(&format!("{target}.partial")).exists(), "{}", case.name);
            }
        }
        let marked = place.path(&format!("{target}.partial")).exists() && place.has_mark(&target);
        let ran = place.run(&args).ok();
        let resumed = !ran.json()["resumed_at"].is_null();
        assert_eq!(resumed, marked && case.resumes, "{}: {} {}", case.name, ran.json(), ran.err);
        count.marked += usize::from(marked);
        count.resumed += usize::from(resumed);
        assert!(place.nothing_or_all(case.name, &target), "{}: no disk", case.name);
        for end in ["", ".partial", ".partial.journal"] {
            let path = place.path(&format!("{target}{end}"));
            assert_eq!(path.exists(), end.is_empty(), "{}", path.display());
        }
        std::fs::remove_file(place.path(&target)).unwrap();
    }
    println!("{:12} {count:?}, a whole run takes {usual:.2?}", case.name);
    count
}

#[test]
fn killed_at_any_moment_the_same_command_ends_with_the_whole_disk() {
    let place = Place::new(21);
    let serve = |bytes: Vec<u8>| Server::start(bytes, Behaviour { rate: Some(RATE), ..Behaviour::default() });
    let servers = [
        serve(place.image("plain.qcow2", "")),
        serve(place.image("zlib.qcow2", "-c")),
        serve(place.bytes("disk.raw")),
        serve(place.packed("gz")),
        serve(place.packed("xz")),
        serve(place.packed("zst")),
        serve(place.packed_file("plain.qcow2", "xz")),
        serve(place.packed_file("plain.qcow2", "zst")),
        // One member, as most programs write it.
        serve(place.shell("gzip -1 -c plain.qcow2")),
        serve(place.shell("gzip -6 -c disk.raw")),
    ];
    let url = |i: usize, name: &str| servers[i].url(name);
    let case = |name, source: String, words| Case { name, source, resumes: true, words };
    let cases = [
        case("http-qcow2", url(0, "/plain.qcow2"), ""),
        case("http-zlib", url(1, "/zlib.qcow2"), ""),
        case("http-raw", url(2, "/disk.raw"), "--verify"),
        case("http-gz", url(3, "/disk.raw.gz"), ""),
        case("http-xz", url(4, "/disk.raw.xz"), ""),
        case("http-zst", url(5, "/disk.raw.zst"), ""),
        case("http-q-xz", url(6, "/plain.qcow2.xz"), ""),
        case("http-q-zst", url(7, "/plain.qcow2.zst"), ""),
        case("http-q-gz", url(8, "/plain.qcow2.gz"), ""),
        case("http-one-gz", url(9, "/disk.raw.gz"), ""),
        case("qcow2", "plain.qcow2".into(), "--threads 1"),
        case("zlib", "zlib.qcow2".into(), "--verify"),
        case("raw", "disk.raw".into(), "--preallocate"),
        case("gz", "disk.raw.gz".into(), ""),
        case("xz", "disk.raw.xz".into(), ""),
        case("zst", "disk.raw.zst".into(), ""),
        Case { resumes: false, ..case("checked", "plain.qcow2".into(), "--no-resume") },
    ];
    let kills = KILLS.div_ceil(cases.len());
    let next = Mutex::new(cases.iter().enumerate());
    let counts = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                loop {
                    let Some((i, case)) = next.lock().unwrap().next() else { return };
                    let count = storm(&place, case, kills, 100 + i as u64);
                    counts.lock().unwrap().push((case.resumes, count));
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    assert_eq!(counts.len(), cases.len());
    let sum = |of: fn(&Count) -> usize| counts.iter().map(|(_, c)| of(c)).sum::<usize>();
    let (killed, resumed) = (sum(|c| c.killed), sum(|c| c.resumed));
    println!("{killed} runs killed, {} left marks, {resumed} runs went on from them", sum(|c| c.marked));
    assert!(killed >= 200, "{killed} runs were killed");
    assert!(resumed * 5 >= killed, "only {resumed} runs went on after {killed} kills");
}

/// Waits until `done` returns true. The timeout is long, since another suite may keep the disk busy.
fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(240);
    while !done() {
        assert!(Instant::now() < until, "{what} does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A server that is slow enough for a test to act meanwhile.
fn slow(bytes: Vec<u8>) -> Server {
    Server::start(bytes, Behaviour { rate: Some(3 << 20), ..Behaviour::default() })
}

fn quick(bytes: Vec<u8>) -> Server {
    Server::start(bytes, Behaviour::default())
}

/// Sends SIGINT, as Ctrl-C does.
fn interrupt(child: &Child) {
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// Waits for the end within so many seconds: fewer than the 60 s of a wait for a silent server, if a test is about that.
fn ended(mut child: Child, seconds: u64) -> Ran {
    let until = Instant::now() + Duration::from_secs(seconds);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("it did not end within {seconds} s: {}", Ran::of(child.wait_with_output().unwrap()).err);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ran::of(child.wait_with_output().unwrap())
}

/// True if the file begins with these bytes.
fn starts_as(file: &Path, bytes: &[u8]) -> bool {
    let mut there = vec![0; bytes.len()];
    File::open(file).is_ok_and(|mut file| file.read_exact(&mut there).is_ok()) && there == bytes
}

#[test]
fn ctrl_c_keeps_what_is_there_and_says_how_to_go_on() {
    let place = Place::new(22);
    // The second server falls silent: a reader that waits for it does not hold up the end.
    let stall = Some(Spoil { bytes: 1 << 20, times: u32::MAX, skip: 5 });
    let silent = Behaviour { stall_after: stall, ..Behaviour::default() };
    // Seconds are left of the first when enough is there, on the busiest machine.
    let slow = Behaviour { rate: Some(512 << 10), ..Behaviour::default() };
    let bytes = place.image("plain.qcow2", "");
    let disk = place.bytes("disk.raw");
    // Requests run side by side, and what counts for going on is an unbroken row from the start: in front of the slow
    // server we wait for that row. The silent one may let the first request of all hang, so there any data will do.
    let cases = [
        (Server::start(bytes.clone(), slow), "a.img", 4 << 20, 4 << 20, 512 << 10),
        (Server::start(bytes.clone(), silent), "b.img", 0, 2 << 20, 0),
    ];
    for (server, target, row, anywhere, spared) in cases {
        let url = server.url("/disk.qcow2");
        let args = ["convert", "--json", &url, target];
        let child = place.start(&args);
        let partial = place.path(&format!("{target}.partial"));
        wait_for("data", || {
            let held = std::fs::metadata(&partial).map(|m| std::os::unix::fs::MetadataExt::blocks(&m) * 512);
            held.is_ok_and(|held| held > anywhere) && starts_as(&partial, &disk[..row])
        });
        interrupt(&child);
        let ran = ended(child, 40).refused(130, "interrupted");
        assert!(ran.err.contains(&format!("{target}.partial and its journal stay")), "{}", ran.err);
        assert!(ran.err.contains("the same command goes on"), "{}", ran.err);
        assert!(!place.path(target).exists());
        assert!(place.has_mark(target), "the usual time between marks has not passed, yet there is one");
        server.set(Behaviour::default());
        let ran = place.run(&["convert", "--json", &url, target]).ok();
        // Behind a first request that hung there is no row to go on from.
        assert!(row == 0 || ran.json()["resumed_at"].as_u64() > Some(1 << 20), "{}", ran.json());
        place.is_the_disk(target);
        let fetched = ran.json()["bytes_read"].as_u64().unwrap();
        assert!(fetched + spared <= bytes.len() as u64, "{fetched} bytes were fetched again");
    }
}

#[test]
fn ctrl_c_where_nothing_can_be_kept_leaves_nothing_and_says_why() {
    let place = Place::new(23);
    place.qcow2("plain.qcow2", "");
    let line = format!("(head -c 2M plain.qcow2; sleep 5) | exec {PROGRAM} convert - out.img");
    let mut command = Command::new("bash");
    command.args(["-c", &line]).current_dir(place.folder()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_for("the run", || place.path("out.img.partial").exists());
    std::thread::sleep(Duration::from_millis(100));
    let pid = String::from_utf8(place.shell(&format!("pgrep -n -f '{PROGRAM} convert - out.img'"))).unwrap();
    assert!(Command::new("kill").args(["-INT", pid.trim()]).status().unwrap().success());
    ended(child, 40).refused(130, "interrupted");
    assert!(!place.path("out.img").exists());
}

#[test]
fn another_version_begins_anew_and_says_why() {
    let place = Place::new(24);
    let bytes = place.image("plain.qcow2", "");
    let server = slow(bytes);
    place.killed_behind_a_mark(&["convert", "-q", &server.url("/disk.qcow2"), "out.img"], "out.img");
    let other = Behaviour { etag: Some("\"v2\"".into()), ..Behaviour::default() };
    server.set(other);
    let ran = place.run(&["convert", "--json", &server.url("/disk.qcow2"), "out.img"]).ok();
    assert!(ran.json()["resumed_at"].is_null(), "{}", ran.json());
    assert!(ran.err.contains("begun anew") && ran.err.contains("has changed"), "{}", ran.err);
    place.is_the_disk("out.img");
    // A file that was touched is another version, too.
    place.killed_behind_a_mark(&["convert", "-q", "--threads", "1", "plain.qcow2", "out2.img"], "out2.img");
    place.shell("touch plain.qcow2");
    let ran = place.run(&["convert", "--json", "plain.qcow2", "out2.img"]).ok();
    assert!(ran.json()["resumed_at"].is_null() && ran.err.contains("has changed"), "{}", ran.err);
    place.is_the_disk("out2.img");
}

/// A strong ETag tells versions of one file apart, not two files: some servers build it of size and date, or a counter.
#[test]
fn two_disks_behind_equal_etags_are_never_joined() {
    let (place, other) = (Place::new(30), Place::new(31));
    let (first, second) = (place.bytes("disk.raw"), other.bytes("disk.raw"));
    assert!(first.len() == second.len() && first != second);
    let files = vec![("/b.raw".to_owned(), second.clone()), ("/disk.raw?id=b".to_owned(), second.clone())];
    let server = Server::start(first, Behaviour { rate: Some(3 << 20), files, ..Behaviour::default() });
    for (a, b) in [("/a.raw", "/b.raw"), ("/disk.raw?id=a", "/disk.raw?id=b")] {
        place.killed_behind_a_mark(&["convert", "-q", &server.url(a), "out.img"], "out.img");
        let ran = place.run(&["convert", "--json", &server.url(b), "out.img"]).ok();
        assert!(place.bytes("out.img") == second, "{a} and {b} were joined");
        assert!(ran.json()["resumed_at"].is_null(), "{}", ran.json());
        assert!(ran.err.contains("begun anew"), "{}", ran.err);
        std::fs::remove_file(place.path("out.img")).unwrap();
    }
}

#[test]
fn a_signed_address_is_the_same_disk_where_the_user_says_so() {
    let place = Place::new(32);
    let bytes = place.image("plain.qcow2", "");
    let server = slow(bytes.clone());
    // A longer file under the same name and version.
    let files = vec![("/disk.qcow2?other".to_owned(), [&bytes[..], &[0; 512]].concat())];
    server.set(Behaviour { rate: Some(3 << 20), files, ..Behaviour::default() });
    let signed = |n: u8| server.url(&format!("/disk.qcow2?signature=s3cret{n}")).replace("//", "//me:pa55@");
    let journal = place.path("out.img.partial.journal");

    place.killed_behind_a_mark(&["convert", "-q", &signed(1), "out.img"], "out.img");
    let kept = std::fs::read(&journal).unwrap();
    let kept = String::from_utf8_lossy(&kept);
    assert!(!kept.contains("s3cret") && !kept.contains("pa55"), "a secret is in the journal: {kept}");
    assert!(kept.contains("/disk.qcow2?…"), "{kept}");
    // The target is readable for its owner alone.
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&journal).unwrap()) & 0o777, 0o600);

    let other = server.url("/disk.qcow2?other");
    place.run(&["convert", "--resume", &other, "out.img"]).refused(2, "has changed since the earlier run");
    let ran = place.run(&["convert", "--json", "--resume", &signed(2), "out.img"]).ok();
    assert!(ran.json()["resumed_at"].is_u64(), "{}", ran.json());
    place.is_the_disk("out.img");

    std::fs::remove_file(place.path("out.img")).unwrap();
    place.killed_behind_a_mark(&["convert", "-q", &signed(1), "out.img"], "out.img");
    let ran = place.run(&["convert", "--json", &signed(2), "out.img"]).ok();
    assert!(ran.json()["resumed_at"].is_null(), "{}", ran.json());
    assert!(ran.err.contains("another query") && ran.err.contains("--resume takes it"), "{}", ran.err);
    place.is_the_disk("out.img");
}

#[test]
fn resume_is_asked_for_and_refused() {
    let place = Place::new(25);
    let bytes = place.image("plain.qcow2", "");
    let server = slow(bytes);
    let url = server.url("/disk.qcow2");
    place.run(&["convert", "--resume", "plain.qcow2", "out.img"]).refused(2, "no earlier run");
    place.nothing_beside("out.img");
    place.run(&["convert", "--resume", "--no-resume", "plain.qcow2", "out.img"]).refused(2, "--no-resume");

    place.killed_behind_a_mark(&["convert", "-q", &url, "out.img"], "out.img");
    // A partial file that cannot be resumed in this way is kept for the way in which it can.
    place.run(&["convert", "--resume", "--resize", "64M", &url, "out.img"]).refused(2, "other options");
    place.run(&["convert", "--resume", "disk.raw", "out.img"]).refused(2, "without --resume");
    place.run(&["convert", "nothing.qcow2", "out.img"]).refused(4, "nothing.qcow2");
    let gone = quick(vec![]).url("/disk.qcow2");
    place.run(&["convert", "--retries", "0", &gone, "out.img"]).refused(1, "connect");
    assert!(place.has_mark("out.img"), "the earlier run is gone");
    server.set(Behaviour::default());
    let ran = place.run(&["convert", "--json", "--resume", &url, "out.img"]).ok();
    assert!(ran.json()["resumed_at"].is_u64(), "{}", ran.json());
    place.is_the_disk("out.img");
}

/// A server with a weak ETag and a date: its ranges are of one version within a run, and likely so between two runs.
#[test]
fn where_resume_is_needed_the_plan_and_the_message_say_so() {
    let place = Place::new(33);
    let disk = place.bytes("disk.raw");
    let weak = Behaviour { etag: Some("W/\"v1\"".into()), ..Behaviour::default() };
    let server = Server::start(place.image("plain.qcow2", ""), weak.clone());
    let url = server.url("/disk.qcow2");
    // One request at a time, half a second each: most of the disk is still to come when the server breaks.
    let plain = ["convert", "--json", "--retries", "0", "--connections", "1", &url, "out.img"];
    let flagged = [&plain[..], &["--resume"]].concat();

    let plan = place.run(&["convert", "--plan", "--json", &url, "out.img"]).ok().json();
    assert_eq!(plan["resumable"], true, "{plan}");
    assert!(plan["needs_resume_because"].as_str().unwrap().contains("no strong ETag"), "{plan}");
    let plan = String::from_utf8(place.run(&["convert", "--plan", &url, "out.img"]).ok().out).unwrap();
    assert!(plan.contains("with --resume, from a journal"), "{plan}");

    let broken = |args: &[&str]| {
        server.set(Behaviour { rate: Some(4 << 20), ..weak.clone() });
        let partial = place.path("out.img.partial");
        // An earlier run got as far as a busy machine let it before its server broke: this one has to get further.
        let there = std::fs::read(&partial).unwrap_or_default();
        let row = (1 << 20) + there.iter().zip(&disk).take_while(|(one, other)| one == other).count();
        let child = place.start(args);
        wait_for("data", || starts_as(&partial, &disk[..row]));
        let fail = Some(Fail { status: 503, times: u32::MAX, skip: 0, retry_after: None });
        server.set(Behaviour { fail, ..weak.clone() });
        let ran = ended(child, 30).refused(1, "503");
        server.set(weak.clone());
        assert!(ran.err.contains("out.img.partial and its journal stay"), "{}", ran.err);
        ran.err
    };
    let said = broken(&plain);
    assert!(said.contains("the same command with --resume goes on from there"), "{said}");
    assert!(said.contains("without it, it begins anew"), "{said}");
    let said = broken(&flagged);
    assert!(said.contains("the same command goes on from there"), "{said}");
    let ran = place.run(&flagged).ok();
    assert!(ran.json()["resumed_at"].as_u64() > Some(1 << 20), "{}", ran.json());
    place.is_the_disk("out.img");

    std::fs::remove_file(place.path("out.img")).unwrap();
    broken(&plain);
    let ran = place.run(&plain).ok();
    assert!(ran.json()["resumed_at"].is_null() && ran.err.contains("begun anew"), "{}", ran.err);
    place.is_the_disk("out.img");
}

#[test]
fn a_run_that_fails_before_its_first_byte_keeps_the_earlier_one() {
    let place = Place::new(26);
    let bytes = place.image("plain.qcow2", "");
    let server = slow(bytes);
    let url = server.url("/disk.qcow2");
    place.killed_behind_a_mark(&["convert", "-q", &url, "out.img"], "out.img");
    for (status, code) in [(401, 5), (404, 4), (500, 1)] {
        // The head can be read, then the token has expired, or the file is gone for a while.
        let fail = Some(Fail { status, times: u32::MAX, skip: 1, retry_after: None });
        server.set(Behaviour { fail, ..Behaviour::default() });
        let ran = place.run(&["convert", "--retries", "0", &url, "out.img"]);
        assert_eq!(ran.code, code, "{}", ran.err);
        assert!(place.has_mark("out.img"), "{status}: the earlier run is gone");
    }
    server.set(Behaviour::default());
    let ran = place.run(&["convert", "--json", &url, "out.img"]).ok();
    assert!(ran.json()["resumed_at"].is_u64(), "{}", ran.json());
    place.is_the_disk("out.img");
}

#[test]
fn no_resume_begins_anew() {
    let place = Place::new(27);
    let server = slow(place.image("plain.qcow2", ""));
    place.killed_behind_a_mark(&["convert", "-q", &server.url("/disk.qcow2"), "out.img"], "out.img");
    let ran = place.run(&["convert", "--json", "--no-resume", "plain.qcow2", "out.img"]).ok();
    assert!(ran.json()["resumed_at"].is_null(), "{}", ran.json());
    place.is_the_disk("out.img");
}

#[test]
fn a_second_run_on_the_same_target_is_refused() {
    let place = Place::new(28);
    // The first run cannot end while the others are tried, however busy the machine is.
    let behaviour = Behaviour { rate: Some(64 << 10), ..Behaviour::default() };
    let server = Server::start(place.image("plain.qcow2", ""), behaviour);
    let first = place.start(&["convert", "--json", &server.url("/disk.qcow2"), "out.img"]);
    wait_for("the first run", || place.path("out.img.partial").exists());
    for mode in ["--resume", "--no-resume", "-q"] {
        let ran = place.run(&["convert", mode, "plain.qcow2", "out.img"]).refused(1, "another process");
        assert!(ran.err.contains("out.img"), "{}", ran.err);
    }
    server.hurry();
    ended(first, 60).ok();
    place.is_the_disk("out.img");
}

/// A loop device, removed on drop; `None` with a printed reason if the host has none.
struct Loop(String);

impl Loop {
    fn over(place: &Place, file: &str) -> Option<Self> {
        match Command::new("losetup").args(["--find", "--show", file]).current_dir(place.folder()).output() {
            Ok(output) if output.status.success() => {
                Some(Loop(String::from_utf8(output.stdout).unwrap().trim().to_owned()))
            }
            why => {
                println!("skipped: no loop device can be had here: {why:?}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).stderr(Stdio::null()).status();
    }
}

#[test]
fn a_device_that_was_half_written_is_written_again() {
    let place = Place::new(29);
    let server = quick(place.image("plain.qcow2", "-c"));
    let url = server.url("/disk.qcow2");
    place.shell("head -c 24M /dev/zero | tr '\\0' '\\252' > back");
    let Some(device) = Loop::over(&place, "back") else { return };
    let mut noise = Noise::new(29);
    for _ in 0..4 {
        for _ in 0..3 {
            let mut child = place.start(&["convert", "-q", &url, &device.0]);
            std::thread::sleep(Duration::from_millis(20 + noise.below(200)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
        place.run(&["convert", "-q", "--verify", &url, &device.0]).ok();
        place.shell(&format!("cmp -n {SIZE} disk.raw {}", device.0));
    }
}
