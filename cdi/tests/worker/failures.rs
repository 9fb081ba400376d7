//! Imports that no other attempt could mend: they end at once, with a reason and the numbers.

use super::{Pod, job, job_with, names};
use api::job::Import;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;
use tests::http::{Behaviour, Fail, Server, pattern};

#[test]
fn a_source_that_is_not_there_ends_the_job_after_one_request() {
    let volume = tempfile::tempdir().unwrap();
    let fail = Fail { status: 404, times: u32::MAX, skip: 0, retry_after: None };
    let server = Server::start(pattern(1 << 20), Behaviour { fail: Some(fail), ..Behaviour::default() });
    let report = Pod::run(&job(volume.path(), &server.url("/disk.img"))).failed("NotFound");
    assert!(report.message.contains("404"), "{report:?}");
    assert_eq!((report.failures, server.requests().len()), (0, 1));
    assert!(names(volume.path()).is_empty());
}

#[test]
fn a_wrong_checksum_ends_the_job_and_leaves_nothing() {
    let volume = tempfile::tempdir().unwrap();
    let server = Server::start(pattern(3 << 20), Behaviour::default());
    let wrong = job_with(volume.path(), &server.url("/disk.img"), |http| {
        http.checksum = Some(format!("sha256:{}", "0".repeat(64)));
    });
    let report = Pod::run(&wrong).failed("ChecksumError");
    assert!(report.message.contains("checksum mismatch: sha256 is "), "{report:?}");
    assert!(names(volume.path()).is_empty());
}

#[test]
fn a_volume_that_is_too_small_is_told_with_its_missing_bytes() {
    let volume = tempfile::tempdir().unwrap();
    let server = Server::start(pattern(3 << 20), Behaviour::default());
    let small = Import { size: Some(1 << 20), ..job(volume.path(), &server.url("/disk.img")) };
    let report = Pod::run(&small).failed("DataVolumeTooSmall");
    let expected = "DataVolume too small to contain image: the disk has 3145728 bytes, the volume holds 1048576, 2097152 are \
                    missing; request a larger volume";
    assert_eq!(report.message, expected);
    assert!(names(volume.path()).is_empty());
}

#[test]
fn a_compressed_disk_that_outgrows_its_volume_is_told_as_too_large_and_not_as_broken() {
    for tail in [pattern(2 << 20), vec![0; 2 << 20]] {
        let volume = tempfile::tempdir().unwrap();
        let mut packed = GzEncoder::new(vec![], Compression::fast());
        packed.write_all(&pattern(1 << 20)).and_then(|()| packed.write_all(&tail)).unwrap();
        let server = Server::start(packed.finish().unwrap(), Behaviour::default());
        let small = Import { size: Some(1 << 20), ..job(volume.path(), &server.url("/disk.img.gz")) };
        let report = Pod::run(&small).failed("DataVolumeTooSmall");
        let begins = "DataVolume too small to contain image: the ";
        assert!(report.message.starts_with(begins) && report.message.contains("1048576"), "{report:?}");
        assert!(names(volume.path()).is_empty());
    }
}

#[test]
fn an_image_that_needs_more_memory_than_the_pod_has_is_refused_with_the_limit_that_would_do() {
    let volume = tempfile::tempdir().unwrap();
    let mut packed = zstd::Encoder::new(vec![], 1).unwrap();
    packed.window_log(27).unwrap();
    packed.write_all(&pattern(3 << 20)).unwrap();
    let server = Server::start(packed.finish().unwrap(), Behaviour::default());
    let job = job(volume.path(), &server.url("/disk.img.zst"));
    let limited = |bytes: &str| Pod::start_with(&job, &[("MEMORY_LIMIT", bytes)]).wait();
    let report = limited("134217728").failed("MemoryLimit");
    let (_, rest) =
        report.message.split_once("the pod needs a memory limit of ").expect("the limit is named");
    let enough = rest.split(' ').next().unwrap();
    assert!(enough.parse::<u64>().unwrap() > 128 << 20, "{report:?}");
    assert!(names(volume.path()).is_empty());
    limited(enough).done();
}

#[test]
fn an_image_that_is_broken_ends_the_job() {
    let volume = tempfile::tempdir().unwrap();
    let mut broken = pattern(1 << 20);
    broken[..4].copy_from_slice(b"QFI\xfb");
    let server = Server::start(broken, Behaviour::default());
    let report = Pod::run(&job(volume.path(), &server.url("/disk.qcow2"))).failed("InvalidImage");
    assert!(report.message.contains("qcow2"), "{report:?}");
    assert!(names(volume.path()).is_empty());
}

#[test]
fn a_pod_without_a_job_says_what_it_misses() {
    let volume = tempfile::tempdir().unwrap();
    let job = job(volume.path(), "http://127.0.0.1:1/s3cret");
    let ended = Pod::start_with(&job, &[("CDI_JOB", "{\"s3cret\": 1}")]).wait();
    assert!(!ended.log.contains("s3cret"), "{}", ended.log);
    let report = ended.failed("Failed");
    assert!(report.message.contains("CDI_JOB") && report.message.contains("line 1"), "{report:?}");
}
