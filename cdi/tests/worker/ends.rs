//! Pods that end in the middle: the next one on the same volume goes on.

use super::{PATIENCE, Pod, disk, job, job_with, names};
use api::job::{Import, Stage};
use rustix::process::Signal;
use sha2::Digest as _;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::http::{Behaviour, Server, pattern};

const SIZE: usize = 48 << 20;

/// A server that is slow until it is told to hurry, and a pod in the middle of its disk, with a mark behind it.
fn middle(volume: &Path) -> (Server, Import, Pod) {
    let slow = Behaviour { rate: Some(1 << 20), ..Behaviour::default() };
    let server = Server::start(pattern(SIZE), slow);
    let job = job(volume, &server.url("/disk.img"));
    let pod = Pod::start(&job);
    let until = Instant::now() + PATIENCE;
    while mark(volume).is_none_or(|done| done < 4 << 20) {
        assert!(Instant::now() < until, "no mark: {:?}", names(volume));
        std::thread::sleep(Duration::from_millis(10));
    }
    (server, job, pod)
}

/// The progress in the journal: the last complete mark.
pub(super) fn mark(volume: &Path) -> Option<u64> {
    mark_of(&volume.join("disk.img.partial.journal"), "done")
}

/// The same by the name of a journal, and of the field of its marks that says it.
pub(super) fn mark_of(journal: &Path, field: &str) -> Option<u64> {
    let journal = std::fs::read(journal).ok()?;
    let journal = String::from_utf8_lossy(&journal);
    let (whole, _) = journal.rsplit_once('\n')?;
    let (_, last) = whole.rsplit_once(&format!("\"{field}\":"))?;
    last.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The next pod finishes the disk, and asks for no byte before the mark but those by which it knows the source.
fn goes_on(server: &Server, job: &Import, volume: &Path) {
    let mark = mark(volume).expect("a mark stays");
    let before = server.requests().len();
    server.hurry();
    let report = Pod::run(job).done();
    assert!(report.resumed >= 4 << 20, "{report:?}");
    assert!(std::fs::read(disk(volume)).expect("the disk") == pattern(SIZE));
    assert_eq!(names(volume), ["disk.img"]);
    let ranges = server.requests()[before..]
        .iter()
        .map(|r| r.range(SIZE as u64).expect("a range"))
        .collect::<Vec<_>>();
    // The server may see what the last pod asked for only now: that was ahead of the mark, too.
    let is_look = |range: &&Range<u64>| range.start == 0 && range.end <= 256 << 10;
    let (looks, rest): (Vec<_>, Vec<_>) = ranges.iter().partition(is_look);
    assert_eq!(looks.len(), 1, "{ranges:?}");
    assert!(!rest.is_empty() && rest.iter().all(|range| range.start >= mark), "from {mark}: {rest:?}");
}

#[test]
fn a_pod_that_is_killed_is_gone_on_with_by_the_next() {
    let volume = tempfile::tempdir().unwrap();
    let (server, job, mut pod) = middle(volume.path());
    pod.signal(Signal::KILL);
    // The converting process ends with its parent: nothing is written after the end of the log.
    pod.log();
    goes_on(&server, &job, volume.path());
}

#[test]
fn what_the_pod_of_another_pvc_left_on_the_same_volume_is_not_gone_on_with() {
    let volume = tempfile::tempdir().unwrap();
    let (server, job, mut pod) = middle(volume.path());
    pod.signal(Signal::KILL);
    pod.log();
    server.hurry();
    let ended = Pod::start_with(&job, &[("OWNER_UID", "another-uid")]).wait();
    assert!(ended.log.contains("the earlier run was for another owner of this place"), "{}", ended.log);
    assert_eq!(ended.done().resumed, 0);
    assert!(std::fs::read(disk(volume.path())).expect("the disk") == pattern(SIZE));
}

/// The checksum is of all bytes in order; the journal has the sum of those that the first pod has read.
#[test]
fn a_source_with_a_checksum_is_gone_on_with_and_its_checksum_is_still_of_all_bytes() {
    // Without an ETag nothing but the checksum shows that the source is the same.
    for etag in [Some("\"v1\"".to_owned()), None] {
        let volume = tempfile::tempdir().unwrap();
        let disk_bytes = pattern(SIZE);
        let behaviour = || Behaviour { rate: Some(512 << 10), etag: etag.clone(), ..Behaviour::default() };
        let server = Server::start(disk_bytes.clone(), behaviour());
        let sum = hex::encode(sha2::Sha256::digest(&disk_bytes));
        let with_sum = |server: &Server| {
            let url = server.url("/disk.img");
            job_with(volume.path(), &url, |http| http.checksum = Some(format!("sha256:{sum}")))
        };
        let job = with_sum(&server);
        let mut pod = Pod::start(&job);
        let until = Instant::now() + PATIENCE;
        while entered(volume.path()).is_none_or(|at| at < 24 << 20) {
            assert!(Instant::now() < until, "no mark: {:?}", names(volume.path()));
            std::thread::sleep(Duration::from_millis(10));
        }
        pod.signal(Signal::KILL);
        pod.log();
        let mark = entered(volume.path()).expect("a mark stays");
        let before = server.requests().len();
        server.hurry();
        let report = Pod::run(&job).done();
        assert!(report.resumed >= 24 << 20, "{report:?}");
        assert!(std::fs::read(disk(volume.path())).unwrap() == disk_bytes);
        // Read-ahead of the inspection, and the rest behind the mark.
        let asked = server.requests();
        let asked = asked[before..].iter().map(|r| r.range(SIZE as u64).unwrap());
        let bytes: u64 = asked.map(|range| range.end - range.start).sum();
        assert!(bytes < SIZE as u64 - mark + (18 << 20), "{bytes} from {mark} on");
    }
}

/// The source's position in the journal of a stream.
fn entered(volume: &Path) -> Option<u64> {
    let journal = std::fs::read(volume.join("disk.img.partial.journal")).ok()?;
    let journal = String::from_utf8_lossy(&journal);
    let (whole, _) = journal.rsplit_once('\n')?;
    let (_, last) = whole.rsplit_once("\"input\":")?;
    last.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The two pods read different versions of the source: that is found at the end, and the whole is read once
/// more.
#[test]
fn a_source_that_is_replaced_between_two_pods_is_read_anew_where_its_checksum_is_wrong() {
    let volume = tempfile::tempdir().unwrap();
    let (old, new) = (vec![7; SIZE], pattern(SIZE));
    let sum = hex::encode(sha2::Sha256::digest(&new));
    let job = |server: &Server| {
        job_with(volume.path(), &server.url("/disk.img"), |http| {
            http.checksum = Some(format!("sha256:{sum}"))
        })
    };
    let slow = Behaviour { rate: Some(1 << 20), etag: None, ..Behaviour::default() };
    let server = Server::start(old, slow);
    let mut pod = Pod::start(&job(&server));
    let until = Instant::now() + PATIENCE;
    while entered(volume.path()).is_none_or(|at| at < 4 << 20) {
        assert!(Instant::now() < until, "no mark: {:?}", names(volume.path()));
        std::thread::sleep(Duration::from_millis(10));
    }
    pod.signal(Signal::KILL);
    pod.log();
    drop(server);
    let server = Server::start(new.clone(), Behaviour { etag: None, ..Behaviour::default() });
    let report = Pod::run(&job(&server)).done();
    assert_eq!((report.failures, report.resumed), (1, 0), "{report:?}");
    assert!(std::fs::read(disk(volume.path())).unwrap() == new);
}

#[test]
fn a_pod_that_is_asked_to_end_does_so_at_once_and_leaves_its_mark() {
    let volume = tempfile::tempdir().unwrap();
    let (server, job, pod) = middle(volume.path());
    pod.signal(Signal::TERM);
    let ended = pod.wait();
    assert_eq!(ended.code, Some(143), "{}", ended.log);
    let report = ended.report.expect("a termination message");
    assert_eq!((report.stage, report.reason.as_str()), (Stage::Waiting, "Interrupted"));
    goes_on(&server, &job, volume.path());
}
