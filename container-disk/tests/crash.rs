//! kill -9 at any moment, and two processes at once. Every name leads to a complete image, reported results
//! are durable, every blob matches its name, and one open and one prune leave no leftovers.
//!
//! The killed processes are this test program itself, which runs [`worker`]. A worker prints its next step
//! (`?`) and completed steps (`+`, `-`). The test compares these lines with the store.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

use container_disk::archive::{OciArchive, OciArchiveSink};
use container_disk::image::{self, Recipe};
use container_disk::manifest::{Content, Descriptor, Document, IMAGE_LAYER_MEDIA_TYPE};
use container_disk::pack::{Compression, LayerWriter, Options};
use container_disk::place::{Place, Reference, Sink};
use container_disk::reference::Local;
use container_disk::store::{self, Store};
use container_disk::{Digest, ErrorKind, Result, verify};
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Number of times that two processes are started and killed.
const ROUNDS: u64 = 150;
/// Number of different disks, so that processes write, share and remove the same blobs.
const DISKS: u64 = 5;
/// Number of names that each process uses.
const NAMES: u64 = 4;
/// Environment variable with a worker's folder, number and seed.
const WORK: &str = "CRASH_WORK";

/// Random numbers, the same for the same seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % n
    }
}

/// Disk `n`: 0.3 to 1.5 MB, half of it noise.
fn disk(n: u64) -> Vec<u8> {
    let size = 300_000 + n * 300_001;
    let byte =
        |i: u64| if i.is_multiple_of(2) { n } else { (i ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56 };
    (0..size).map(|i| byte(i) as u8).collect()
}

/// Blob `n`, for pulls.
fn pulled(n: u64) -> (Descriptor, Vec<u8>) {
    let bytes = disk(n + DISKS);
    let digest = Digest::of(&bytes).to_string();
    let media_type = IMAGE_LAYER_MEDIA_TYPE.to_owned();
    (Descriptor { media_type, digest, size: bytes.len() as i64, ..Descriptor::default() }, bytes)
}

fn build(sink: &dyn Sink, n: u64, tag: &str) -> Result<Document> {
    let compression = [Compression::None, Compression::Gzip, Compression::Zstd][(n % 3) as usize];
    let disk = disk(n);
    let options = Options { compression, ..Options::default() };
    let mut layer = LayerWriter::disk(sink, &options, disk.len() as u64)?;
    layer.write_all(&disk).map_err(|e| container_disk::Error::io("writing", e))?;
    image::write(sink, &Recipe::new("amd64", vec![layer.finish()?]), &[tag])
}

#[test]
#[ignore = "it is run, and killed, by the other tests here"]
fn worker() {
    let Ok(work) = env::var(WORK) else { return };
    let [number, seed, folder] = work.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
    let mut chance = Chance(seed.parse().unwrap());
    let worker = Worker { number: number.parse().unwrap(), folder: folder.into() };
    loop {
        worker.step(&mut chance);
    }
}

struct Worker {
    number: u64,
    folder: PathBuf,
}

impl Worker {
    fn step(&self, chance: &mut Chance) {
        let name = format!("os-{}:{}", self.number, chance.below(NAMES));
        let other = format!("os-{}:{}", self.number, chance.below(NAMES));
        let n = chance.below(DISKS);
        match chance.below(8) {
            0..3 => self.build(&name, n),
            3 => self.tag(&name, &other),
            4 => self.untag(&name),
            5 => self.pull(n),
            6 => self.archive(n),
            _ => self.prune(),
        }
    }

    fn store(&self) -> Store {
        Store::open(&self.folder.join("store")).unwrap()
    }

    fn build(&self, name: &str, n: u64) {
        println!("? {name}");
        let document = build(&self.store(), n, name).unwrap();
        println!("+ {name} {}", document.digest);
    }

    fn tag(&self, from: &str, to: &str) {
        let store = self.store();
        let Ok(document) = store.document(&Reference::Tag(from.into())) else { return };
        println!("? {to}");
        store.tag(&local(from), &local(to)).unwrap();
        println!("+ {to} {}", document.digest);
    }

    fn untag(&self, name: &str) {
        println!("? {name}");
        if let Err(e) = self.store().untag(&local(name)) {
            assert_eq!(e.kind(), ErrorKind::NotFound, "{e:?}");
        }
        println!("- {name}");
    }

    /// Resumes the work of a process that was killed.
    fn pull(&self, n: u64) {
        let (promised, bytes) = pulled(n);
        let store = self.store();
        if store.has(&promised).unwrap() {
            return;
        }
        let (have, mut blob) = store.resume(&promised).unwrap();
        for piece in bytes[have as usize..].chunks(100_000) {
            blob.write_all(piece).unwrap();
        }
        blob.finish().unwrap();
    }

    fn archive(&self, n: u64) {
        let sink = OciArchiveSink::create(&self.folder.join(format!("{}.tar", self.number))).unwrap();
        build(&sink, n, "t").unwrap();
        sink.close().unwrap();
    }

    fn prune(&self) {
        if let Err(e) = store::prune(&self.folder.join("store")) {
            assert!(e.to_string().contains("in use"), "{e:?}");
        }
    }
}

fn local(name: &str) -> Local {
    Local::parse(name).unwrap()
}

/// Expected state of the store, from the lines of all workers so far.
#[derive(Default)]
struct Known {
    /// The digest of a name, or `None` if it was removed.
    names: BTreeMap<String, Option<String>>,
    /// Names that were about to change when their process was killed.
    open: BTreeSet<String>,
}

impl Known {
    fn hear(&mut self, said: &str) {
        let mut open = None;
        for line in said.lines() {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("?"), Some(name), None) => open = Some(name.to_owned()),
                (Some("+"), Some(name), Some(digest)) => {
                    self.names.insert(name.to_owned(), Some(digest.to_owned()));
                    open = None;
                }
                (Some("-"), Some(name), None) => {
                    self.names.insert(name.to_owned(), None);
                    open = None;
                }
                _ => {}
            }
        }
        self.open.extend(open);
    }

    /// Asserts that the store has the expected names. Afterwards the state of all names is known.
    fn compare(&mut self, found: BTreeMap<String, String>) {
        for (name, digest) in &self.names {
            if !self.open.contains(name) {
                assert_eq!(found.get(name), digest.as_ref(), "{name}");
            }
        }
        for name in found.keys() {
            assert!(self.names.contains_key(name) || self.open.contains(name), "{name} came from nowhere");
        }
        self.open.clear();
        self.names = found.into_iter().map(|(name, digest)| (name, Some(digest))).collect();
    }
}

fn start(folder: &Path, number: u64, seed: u64) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["worker", "--exact", "--ignored", "--nocapture"])
        .env(WORK, format!("{number} {seed} {}", folder.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Kills a worker and returns its output. A worker that ended by itself has found a fault.
fn kill(mut child: Child) -> String {
    child.kill().unwrap();
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let complained = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code().is_none(), "a worker ended by itself: {said}\n{complained}");
    said
}

fn all_passed(place: &dyn Place, reference: &Reference) {
    let checks = verify::verify(place, reference, &verify::Options::default()).unwrap();
    assert!(checks.iter().all(verify::Check::passed), "{reference:?}: {checks:#?}");
}

/// The digest of each name, after each image was read to its last byte, and the blobs that they need.
fn images(store: &Store) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let (mut names, mut needed) = (BTreeMap::new(), BTreeSet::new());
    for listed in store.list().unwrap() {
        all_passed(store, &Reference::Tag(listed.name.clone()));
        let document = store.document(&Reference::Digest(listed.digest)).unwrap();
        let Content::Manifest(manifest) = &document.content else { panic!() };
        let blobs = manifest.layers.iter().chain([&manifest.config]).map(|d| d.digest.clone());
        needed.extend(blobs.chain([listed.digest.to_string()]));
        names.insert(listed.name, listed.digest.to_string());
    }
    (names, needed)
}

/// The blobs, each of which must match its name.
fn blobs(store: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(store.join("blobs/sha256")).unwrap().map(|entry| entry.unwrap());
    let digests = files.map(|file| {
        let digest = Digest::of(&fs::read(file.path()).unwrap());
        assert_eq!(digest.hex(), file.file_name().into_string().unwrap());
        digest.to_string()
    });
    digests.collect()
}

fn in_ingest(store: &Path) -> Vec<String> {
    let files = fs::read_dir(store.join("ingest")).unwrap();
    files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_store_survives_kills_at_any_moment_of_two_processes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(Store::open(&path).unwrap());
    let mut chance = Chance(7);
    let mut known = Known::default();
    let (mut cut, mut half, mut left) = (0, 0, 0);
    for round in 0..ROUNDS {
        let workers = [0, 1].map(|number| start(folder.path(), number, round * 2 + number));
        for worker in workers {
            thread::sleep(Duration::from_micros(5_000 + chance.below(60_000)));
            known.hear(&kill(worker));
        }
        left += in_ingest(&path).iter().filter(|name| !name.starts_with("part-")).count();
        cut += known.open.len();
        let store = Store::open(&path).unwrap();
        let (names, needed) = images(&store);
        known.compare(names);
        let there = blobs(&path);
        assert!(needed.is_subset(&there));
        let parts = in_ingest(&path);
        assert!(parts.iter().all(|name| name.starts_with("part-")), "{parts:?}");
        half += parts.len();
        for number in 0..2 {
            archive(folder.path(), number);
        }
        if round % 10 == 9 {
            go_on(&store);
            drop(store);
            store::prune(&path).unwrap();
            assert_eq!(blobs(&path), needed);
            assert_eq!(in_ingest(&path), [""; 0]);
        }
    }
    println!("of {ROUNDS} rounds: {cut} names cut, {half} half blobs, {left} files left in ingest");
    assert!(cut > 0 && half > 0 && left > 0, "nothing was ever cut: {cut} names, {half} blobs, {left} files");
}

/// The archive is complete or absent. Leftovers of a killed process do not disturb.
fn archive(folder: &Path, number: u64) {
    let file = folder.join(format!("{number}.tar"));
    if file.exists() {
        all_passed(&OciArchive::open(&file).unwrap(), &Reference::Tag("t".into()));
    }
    let sink = OciArchiveSink::create(&file).unwrap();
    drop(sink);
    assert!(!folder.join(format!("{number}.tar.partial")).exists());
}

/// Completes each partial blob from its position.
fn go_on(store: &Store) {
    for (promised, bytes) in (0..DISKS).map(pulled) {
        if store.has(&promised).unwrap() {
            continue;
        }
        let here = store.partial(&promised.digest.parse().unwrap()).unwrap();
        let (have, mut blob) = store.resume(&promised).unwrap();
        assert_eq!(have, here);
        blob.write_all(&bytes[have as usize..]).unwrap();
        blob.finish().unwrap();
        let mut read = vec![];
        store.blob(&promised).unwrap().stream(0).unwrap().read_to_end(&mut read).unwrap();
        assert!(read == bytes);
    }
}
