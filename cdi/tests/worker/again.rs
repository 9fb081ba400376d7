//! A pod that vanishes after the end of its work: the next one knows that, and needs no source again.

use super::archives::{archive, into_folder};
use super::upload::Server;
use super::{MARK, Pod, disk, job, names};
use api::job::{Report, Stage, Target};
use rustix::process::Signal;
use tests::http::{self, Behaviour, pattern};

/// The report of the next pod of this volume, which gets no upload.
fn next(target: Target) -> Report {
    Server::on(target).pod.wait().done()
}

#[test]
fn an_upload_that_was_answered_is_not_asked_for_again_whatever_ends_its_pod() {
    let bytes = pattern(3 << 20);
    for is_archive in [false, true] {
        let mut server = if is_archive { Server::of_archives() } else { Server::of_size(4 << 20) };
        let path = if is_archive { "/v1beta1/upload-archive" } else { "/v1beta1/upload" };
        let body = if is_archive { archive(&bytes) } else { bytes.clone() };
        // The connection stays open, and the pod with it.
        let mut connection = server.connect();
        connection.post(path, &body).is(200);
        server.pod.signal(Signal::KILL);
        let Server { pod, volume, .. } = server;
        let ended = pod.wait();
        assert_eq!(ended.code, None);
        let said = ended.report.expect("the termination message is there before the answer");
        assert_eq!(said.stage, Stage::Done);
        drop(connection);
        // The object of the pod is gone, and its last words with it.
        let at = volume.path().to_owned();
        let target = if is_archive { Target::Folder(at.clone()) } else { Target::File(disk(&at)) };
        let report = next(target);
        assert_eq!(report.message, "Upload Complete");
        assert_eq!(report.done, if is_archive { 0 } else { 4 << 20 });
        let file = if is_archive { at.join("images/disk.img") } else { disk(&at) };
        assert!(std::fs::read(file).unwrap()[..3 << 20] == bytes);
    }
}

#[test]
fn a_mark_of_another_pvc_is_not_believed() {
    let mut server = Server::start();
    let at = server.volume.path().to_owned();
    std::fs::write(disk(&at), b"of the last tenant").unwrap();
    std::fs::write(at.join(".cdi-other.done"), b"").unwrap();
    assert_eq!(server.pod.reports(|_| true).stage, Stage::Preparing, "it waits for an upload");
    std::fs::write(at.join(MARK), b"").unwrap();
    server.post("/v1beta1/upload", &pattern(1 << 20)).is(200);
    assert!(server.disk() == pattern(1 << 20));
}

#[test]
fn an_import_that_came_to_its_end_asks_no_server_again() {
    let volume = tempfile::tempdir().unwrap();
    let server = http::Server::start(pattern(1 << 20), Behaviour::default());
    let job = job(volume.path(), &server.url("/disk.img"));
    assert_eq!(Pod::run(&job).done().done, 1 << 20);
    let asked = server.requests().len();
    assert_eq!(Pod::run(&job).done().done, 1 << 20);
    assert_eq!(server.requests().len(), asked);
    assert!(std::fs::read(disk(volume.path())).unwrap() == pattern(1 << 20));

    let volume = tempfile::tempdir().unwrap();
    let server = http::Server::start(archive(&pattern(1 << 20)), Behaviour::default());
    let job = into_folder(volume.path(), &server.url("/files.tar"));
    Pod::run(&job).done();
    let asked = server.requests().len();
    Pod::run(&job).done();
    assert_eq!(server.requests().len(), asked);
    assert_eq!(names(volume.path()), ["images", "notes"]);
}

#[test]
fn an_archive_that_lacks_names_gets_them_from_the_next_pod_and_no_other_takes_its_place() {
    for left in ["whole", "naming"] {
        let volume = tempfile::tempdir().unwrap();
        let folder = volume.path().join(format!(".cdi-0b5c-uid.{left}"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("notes"), "notes").unwrap();
        if left == "naming" {
            std::fs::create_dir(volume.path().join("images")).unwrap();
        }
        next(Target::Folder(volume.path().to_owned()));
        let expected: &[&str] = if left == "naming" { &["images", "notes"] } else { &["notes"] };
        assert_eq!(names(volume.path()), expected);
    }
}

/// A pod that is created late: another one has filled the device, and a VMI may use it.
#[test]
fn a_pod_that_needs_a_permit_writes_nothing_before_it_has_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let permit = folder.path().join("permit");
    std::fs::write(&permit, "uid-of-another-pod").unwrap();
    let environment = [("PERMIT_FILE", permit.to_str().unwrap()), ("POD_UID", "uid-1")];
    let bytes = pattern(3 << 20);
    let server = http::Server::start(bytes.clone(), Behaviour::default());
    let url = server.url("/disk.img");
    let (late, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut pod = Pod::start_with(&job(late.path(), &url), &environment);
    assert_eq!(pod.reports(|_| true).stage, Stage::Preparing);
    // In this time it would have been done.
    Pod::run(&job(other.path(), &url)).done();
    assert_eq!(pod.reports(|_| true).stage, Stage::Preparing);
    assert_eq!(names(late.path()), [""; 0]);
    std::fs::write(&permit, "uid-1").unwrap();
    pod.wait().done();
    assert!(std::fs::read(disk(late.path())).unwrap() == bytes);
}

#[test]
fn a_pod_that_waits_for_its_permit_ends_when_it_is_asked_to() {
    let volume = tempfile::tempdir().unwrap();
    let server = http::Server::start(pattern(1 << 20), Behaviour::default());
    let permit = volume.path().join("absent/permit");
    let environment = [("PERMIT_FILE", permit.to_str().unwrap()), ("POD_UID", "uid-1")];
    let mut pod = Pod::start_with(&job(volume.path(), &server.url("/disk.img")), &environment);
    pod.reports(|_| true);
    pod.signal(Signal::TERM);
    let ended = pod.wait();
    let stage = ended.report.map(|report| report.stage);
    assert_eq!((ended.code, stage), (Some(143), Some(Stage::Waiting)), "{}", ended.log);
    assert!(server.requests().is_empty());
    assert_eq!(names(volume.path()), [""; 0]);
}
