//! Imports of containerDisks whose pods are killed: the next one reads the layer on from where it was.

use super::ends::mark_of;
use super::registry::{job_of, push_layer};
use super::{PATIENCE, Pod, disk, names};
use api::job::Stage;
use container_disk::open::Places;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::disk::{Noise, qemu_convert};
use tests::faults::{Fault, Proxy, What};
use tests::layout::{LAYER, LAYER_GZIP, Tar, digest, gzip};
use tests::registry::Registry;

const SIZE: usize = 48 << 20;
const LAYER_ZSTD: &str = "application/vnd.oci.image.layer.v1.tar+zstd";
/// Bytes of the disk that are there before the pod is killed.
const REACHED: u64 = 24 << 20;
/// Bytes by which a pod learns what is in the layer, and what its threads have under way meanwhile: a qcow2 is looked at four times.
const LOOKS: u64 = 40 << 20;
/// None of these looks is behind this place.
const HEAD: u64 = 12 << 20;

/// A registry with the image `os:1` behind a proxy that makes each connection slow.
struct Slow {
    _registry: Registry,
    proxy: Proxy,
    layer: String,
    length: u64,
}

impl Slow {
    fn start(media_type: &str, layer: &[u8]) -> Slow {
        let registry = Registry::start();
        push_layer(&registry, &Places::new(None), media_type, layer);
        let proxy = Proxy::start(&registry.address(), vec![Fault::blobs(What::Throttle(2 << 20))]);
        Slow { _registry: registry, proxy, layer: digest(layer), length: layer.len() as u64 }
    }

    /// Kills a pod behind a mark at this byte of the disk.
    fn killed(&self, volume: &Path, at: u64) {
        let pod = Pod::start(&job_of(&self.proxy.address(), volume));
        let until = Instant::now() + PATIENCE;
        while reached(volume).is_none_or(|done| done < at) {
            assert!(Instant::now() < until, "no mark: {:?}", names(volume));
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(pod);
    }

    /// Gives the first pod the layer as it is, and the second one another byte here: it is found out, and all is read anew.
    #[track_caller]
    fn lies_at(&self, byte: u64, bytes: &[u8]) {
        let volume = tempfile::tempdir().expect("a folder");
        self.killed(volume.path(), REACHED);
        self.proxy.set(vec![Fault::blobs(What::Corrupt(byte))]);
        let mut pod = Pod::start(&job_of(&self.proxy.address(), volume.path()));
        let waits = pod.reports(|report| report.stage == Stage::Waiting);
        assert!(waits.message.contains("read again from its start"), "{waits:?}");
        assert_eq!(reached(volume.path()), None, "nothing of the two is gone on with");
        self.proxy.set(vec![]);
        let report = pod.wait().done();
        assert_eq!(report.resumed, 0, "{report:?}");
        assert!(std::fs::read(disk(volume.path())).expect("the disk") == bytes);
    }

    /// The ranges of the layer that were asked for.
    fn asked(&self) -> Vec<Range<u64>> {
        let requests = self.proxy.requests().into_iter().filter(|request| request.path.contains(&self.layer));
        requests.map(|request| request.range(self.length).unwrap_or(0..self.length)).collect()
    }
}

fn reached(volume: &Path) -> Option<u64> {
    mark_of(&volume.join("disk.img.partial.journal"), "guest")
}

/// Compressed in pieces of their own, as our builder does it.
fn pieces(tar: &[u8], mib: usize, pack: fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    tar.chunks(mib << 20).flat_map(pack).collect()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("memory takes what is written")
}

/// A raw disk as a qcow2.
fn as_qcow2(bytes: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let raw = folder.path().join("disk.raw");
    std::fs::write(&raw, bytes).expect("it can be written");
    std::fs::read(qemu_convert("-O qcow2", &raw, &folder.path().join("disk.qcow2"))).expect("it was made")
}

#[test]
fn a_pod_that_is_killed_is_gone_on_with_inside_the_layer() {
    let bytes = Noise::new(21).bytes(SIZE);
    let of = |disk: &[u8]| Tar::default().file("disk/disk.img", disk).end();
    let qcow2 = as_qcow2(&bytes);
    // Places of the disk are not those of the tar.
    let before = Noise::new(25).bytes(700_001);
    let behind = Tar::default().file("etc/notes", &before).file("disk/disk.img", &qcow2).end();
    let (tar, qcow2) = (of(&bytes), of(&qcow2));
    for (media_type, layer, at) in [
        (LAYER, tar.clone(), REACHED),
        (LAYER_GZIP, pieces(&tar, 2, gzip), REACHED),
        (LAYER_ZSTD, pieces(&tar, 2, zstd), REACHED),
        (LAYER_ZSTD, pieces(&qcow2, 2, zstd), REACHED),
        // Units that are longer than what is looked at at a time.
        (LAYER_ZSTD, pieces(&behind, 3, zstd), REACHED),
        (LAYER_GZIP, pieces(&behind, 16, gzip), 8 << 20),
    ] {
        let registry = Slow::start(media_type, &layer);
        let volume = tempfile::tempdir().unwrap();
        registry.killed(volume.path(), at);
        let mark = reached(volume.path()).expect("a mark stays");
        let before = registry.asked().len();
        registry.proxy.set(vec![]);
        let report = Pod::run(&job_of(&registry.proxy.address(), volume.path())).done();
        assert!(report.resumed + (1 << 20) >= at, "{media_type}: {report:?}");
        assert!(std::fs::read(disk(volume.path())).unwrap() == bytes, "{media_type}");
        assert_eq!(names(volume.path()), ["disk.img"]);
        // Noise does not shrink, so places of the disk are about those of the layer. What is asked for of the bytes before the mark is
        // the layer's beginning, by which the disk is found, and what is hashed again.
        let asked = registry.asked().split_off(before);
        let sent: u64 = asked.iter().map(|range| range.end - range.start).sum();
        assert!(sent + mark <= registry.length + LOOKS, "{media_type}: from {mark}: {asked:?}");
        let is_old = |range: &&Range<u64>| (HEAD..mark - (4 << 20)).contains(&range.start);
        assert!(!asked.iter().any(|range| is_old(&range)), "{media_type}: from {mark}: {asked:?}");
    }
}

/// Most programs write gzip in one piece.
#[test]
fn what_cannot_be_entered_is_begun_anew_and_right() {
    let bytes = Noise::new(22).bytes(12 << 20);
    let of = |disk: &[u8]| Tar::default().file("disk/disk.img", disk).end();
    for (media_type, layer) in [(LAYER_GZIP, gzip(&of(&bytes))), (LAYER, of(&gzip(&bytes)))] {
        let registry = Slow::start(media_type, &layer);
        let volume = tempfile::tempdir().unwrap();
        let pod = Pod::start(&job_of(&registry.proxy.address(), volume.path()));
        let until = Instant::now() + PATIENCE;
        while registry.asked().iter().all(|range| range.start < 4 << 20) {
            assert!(Instant::now() < until, "{:?}", registry.asked());
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(pod);
        registry.proxy.set(vec![]);
        let report = Pod::run(&job_of(&registry.proxy.address(), volume.path())).done();
        assert_eq!(report.resumed, 0, "{media_type}");
        assert!(std::fs::read(disk(volume.path())).unwrap() == bytes, "{media_type}");
    }
}

#[test]
fn a_registry_that_lies_to_the_second_pod_is_found_out_and_all_is_read_anew() {
    let bytes = Noise::new(23).bytes(SIZE);
    let layer = Tar::default().file("disk/disk.img", &bytes).end();
    let registry = Slow::start(LAYER, &layer);
    registry.lies_at(registry.length - (2 << 20), &bytes);
}

/// Header and tables are asked for once more, by a reading that ends before the digest of the layer is known.
#[test]
fn a_registry_that_lies_to_the_second_pod_about_the_tables_is_found_out_too() {
    let bytes = Noise::new(24).bytes(SIZE);
    let qcow2 = as_qcow2(&bytes);
    let registry = Slow::start(LAYER, &Tar::default().file("disk/disk.img", &qcow2).end());
    let l1 = u64::from_be_bytes(qcow2[40..48].try_into().unwrap());
    // In the cluster of the L1 table, far behind its few entries: no reader would stumble over it.
    registry.lies_at(512 + l1 + 60_000, &bytes);
}
