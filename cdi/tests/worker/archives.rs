//! Archives of files, imported into a folder.

use super::{PATIENCE, Pod, job_with, names};
use api::job::{Import, Stage, Target};
use flate2::Compression;
use flate2::write::GzEncoder;
use rustix::process::Signal;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use tests::http::{Behaviour, Server, pattern};

/// An archive of GNU tar: `images/disk.img` with these bytes, and `notes`.
pub(super) fn archive(bytes: &[u8]) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("it can be made");
    std::fs::create_dir(folder.path().join("images")).expect("it can be made");
    std::fs::write(folder.path().join("images/disk.img"), bytes).expect("it can be made");
    std::fs::write(folder.path().join("notes"), "notes").expect("it can be made");
    let made = std::process::Command::new("tar")
        .args(["-c", "-C"])
        .arg(folder.path())
        .args(["images", "notes"])
        .output();
    made.expect("tar is there").stdout
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(vec![], Compression::fast());
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

pub(super) fn into_folder(volume: &Path, url: &str) -> Import {
    Import { target: Target::Folder(volume.to_owned()), ..job_with(volume, url, |_| ()) }
}

#[test]
fn the_files_of_an_archive_are_on_the_volume_and_nothing_lies_beside_them() {
    let bytes = pattern(5 << 20);
    for body in [archive(&bytes), gz(&archive(&bytes))] {
        let volume = tempfile::tempdir().unwrap();
        std::fs::create_dir(volume.path().join("lost+found")).unwrap();
        let server = Server::start(body, Behaviour::default());
        let report = Pod::run(&into_folder(volume.path(), &server.url("/files.tar"))).done();
        assert_eq!((report.message.as_str(), report.done), ("Import Complete", (5 << 20) + 5));
        assert_eq!(names(volume.path()), ["images", "lost+found", "notes"]);
        assert!(std::fs::read(volume.path().join("images/disk.img")).unwrap() == bytes);
    }
}

#[test]
fn a_pod_that_is_killed_is_followed_by_one_that_begins_anew_and_leaves_nothing_of_the_first() {
    let bytes = pattern(24 << 20);
    let volume = tempfile::tempdir().unwrap();
    let slow = Behaviour { rate: Some(1 << 20), ..Behaviour::default() };
    let server = Server::start(archive(&bytes), slow);
    let job = into_folder(volume.path(), &server.url("/files.tar"));
    let mut pod = Pod::start(&job);
    pod.reports(|report| report.stage == Stage::Moving && report.done >= 2 << 20);
    let until = Instant::now() + PATIENCE;
    let partial = volume.path().join(".cdi-0b5c-uid.partial/images/disk.img");
    while std::fs::metadata(&partial).is_err() {
        assert!(Instant::now() < until, "{:?}", names(volume.path()));
        std::thread::sleep(Duration::from_millis(10));
    }
    pod.signal(Signal::KILL);
    pod.log();
    assert_eq!(names(volume.path()), [".cdi-0b5c-uid.partial"], "no name is given before all is there");
    server.hurry();
    Pod::run(&job).done();
    assert_eq!(names(volume.path()), ["images", "notes"]);
    assert!(std::fs::read(volume.path().join("images/disk.img")).unwrap() == bytes);
}

#[test]
fn an_archive_that_means_ill_or_is_too_large_ends_the_job_and_leaves_nothing() {
    let volume = tempfile::tempdir().unwrap();
    let packed = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc", packed.path().join("link")).unwrap();
    let made = std::process::Command::new("tar").args(["-c", "-C"]).arg(packed.path()).arg("link").output();
    let server = Server::start(made.unwrap().stdout, Behaviour::default());
    let report = Pod::run(&into_folder(volume.path(), &server.url("/files.tar"))).failed("InvalidArchive");
    assert!(report.message.contains("\"link\" is a symbolic link to \"/etc\""), "{report:?}");
    let server = Server::start(archive(&pattern(2 << 20)), Behaviour::default());
    let small = Import { size: Some(1 << 20), ..into_folder(volume.path(), &server.url("/files.tar")) };
    let report = Pod::run(&small).failed("DataVolumeTooSmall");
    assert!(
        report.message.contains("too small to contain archive")
            && report.message.contains("1048576 are missing"),
        "{report:?}"
    );
    let server = Server::start(pattern(2 << 20), Behaviour::default());
    let report = Pod::run(&into_folder(volume.path(), &server.url("/disk.img"))).failed("InvalidArchive");
    assert!(report.message.contains("not a tar archive"), "{report:?}");
    assert!(names(volume.path()).is_empty());
}
