//! Uploads that come to their end.

use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(vec![], Compression::fast());
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut packed = xz2::write::XzEncoder::new(vec![], 1);
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

#[test]
fn each_format_is_its_disk_when_it_is_answered() {
    let raw = pattern(3 << 20);
    let zst = zstd::encode_all(&raw[..], 1).unwrap();
    for (path, body) in [
        ("/v1beta1/upload", raw.clone()),
        ("/v1alpha1/upload", qcow2(&raw)),
        ("/v1beta1/upload", gz(&raw)),
        ("/v1beta1/upload", xz(&raw)),
        ("/v1alpha1/upload", zst),
        ("/v1beta1/upload", xz(&qcow2(&raw))),
    ] {
        let mut server = Server::of_size(4 << 20);
        let answer = server.post(path, &body).is(200);
        assert_eq!(answer.body, "");
        let disk = server.disk();
        assert_eq!(disk.len(), 4 << 20, "the size of the volume");
        assert!(disk[..3 << 20] == raw && disk[3 << 20..].iter().all(|&byte| byte == 0));
        assert_eq!(server.names(), ["disk.img"]);
        assert_eq!(server.done().done, 4 << 20);
    }
}

#[test]
fn an_early_answer_is_followed_by_the_disk() {
    let raw = pattern(3 << 20);
    for (path, body) in [("/v1beta1/upload-async", qcow2(&raw)), ("/v1alpha1/upload-async", gz(&raw))] {
        let mut server = Server::start();
        assert_eq!(server.post(path, &body).is(200).body, "");
        let volume = std::mem::replace(&mut server.volume, tempfile::tempdir().unwrap());
        server.done();
        assert!(std::fs::read(disk(volume.path())).unwrap() == raw);
    }
}

#[test]
fn a_form_of_a_browser_is_an_upload() {
    let raw = pattern(2 << 20);
    for path in ["/v1beta1/upload-form", "/v1alpha1/upload-form", "/v1beta1/upload-form-async"] {
        let mut server = Server::start();
        let answer = server.connect().ask(&format!("POST {path}"), &[FORM], &form(&gz(&raw))).is(200);
        assert_eq!(answer.body, "");
        let volume = std::mem::replace(&mut server.volume, tempfile::tempdir().unwrap());
        server.done();
        assert!(std::fs::read(disk(volume.path())).unwrap() == raw, "{path}");
    }
}

#[test]
fn an_upload_that_does_not_say_its_length_ends_with_its_last_chunk() {
    let (raw, mut server) = (pattern(1 << 20), Server::start());
    let mut connection = server.connect();
    connection.head("POST /v1beta1/upload", &[("Transfer-Encoding", "chunked")]);
    for chunk in raw.chunks(100_000) {
        connection.send(format!("{:x}\r\n", chunk.len()).as_bytes()).unwrap();
        connection.send(&[chunk, b"\r\n"].concat()).unwrap();
    }
    connection.send(b"0\r\n\r\n").unwrap();
    connection.answer(true).is(200);
    assert!(server.disk() == raw);
    server.done();
}

#[test]
fn who_waits_for_100_continue_sends_nothing_that_is_not_wanted() {
    let (raw, mut server) = (pattern(1 << 20), Server::start());
    let length = raw.len().to_string();
    let headers = [("Content-Length", length.as_str()), ("Expect", "100-continue")];
    let at = server.pod.at();
    let mut stranger = server.authority.connect(&at, None).unwrap();
    stranger.head("POST /v1beta1/upload", &headers);
    stranger.answer(true).is(401);
    let mut connection = server.connect();
    connection.head("POST /v1beta1/upload", &headers);
    connection.answer(false).is(100);
    connection.send(&raw).unwrap();
    connection.answer(true).is(200);
    assert!(server.disk() == raw);
    server.done();
}

#[test]
fn a_large_upload_through_a_slow_conversion_takes_little_memory() {
    // Bytes that arrive far quicker than they are unpacked, and are more than may be kept.
    let raw = vec![pattern(1 << 20); 160].concat();
    let mut server = Server::start_with(None, &["--linger", "600"], &[]);
    server.post("/v1beta1/upload", &gz_stored(&raw)).is(200);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pod.process.id())).unwrap();
    let peak = status.split_once("VmHWM:").and_then(|(_, rest)| rest.split_whitespace().next()).unwrap();
    assert!(peak.parse::<u64>().unwrap() < 48 << 10, "{peak} KiB");
    assert!(server.disk() == raw);
}

fn gz_stored(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(vec![], Compression::none());
    packed.write_all(bytes).expect("memory");
    packed.finish().expect("memory")
}

#[test]
fn what_an_upload_does_is_in_the_report() {
    let (raw, mut server) = (pattern(4 << 20), Server::start());
    let waits = server.pod.reports(|_| true);
    assert_eq!((waits.stage, waits.message.as_str()), (Stage::Preparing, "waits for an upload"));
    let mut connection = server.begin("/v1beta1/upload", raw.len(), &raw[..3 << 20]);
    let moves = server.pod.reports(|report| report.stage == Stage::Moving && report.done >= 2 << 20);
    assert_eq!((moves.total, moves.message.as_str()), (Some(4 << 20), "receives the upload"));
    let metrics = server.pod.page("/metrics").unwrap();
    assert!(metrics.contains("\nkubevirt_cdi_import_progress_total{ownerUID=\"0b5c-uid\"} "), "{metrics}");
    connection.send(&raw[3 << 20..]).unwrap();
    connection.answer(true).is(200);
    server.done();
}
