//! Refused uploads, with status and message of each; and uploads that break.

use super::*;
use rustix::process::Signal;

#[test]
fn who_may_upload_is_decided_by_the_name_in_the_certificate() {
    let mut server = Server::start();
    let at = server.pod.at();
    let other = server.authority.sign("client.other");
    for identity in [None, Some(&other)] {
        let connect = || server.authority.connect(&at, identity).unwrap();
        for path in ["upload", "upload-async", "upload-form", "upload-archive"] {
            connect().post(&format!("/v1beta1/{path}"), &pattern(1 << 20)).is(401).says(NAME);
        }
        connect().ask("POST /v1beta1/upload-tus", &[("Tus-Resumable", "1.0.0")], b"").is(401);
        assert_eq!(connect().ask("GET /healthz", &[], b"").is(200).body, "OK");
        connect().ask("GET /v1/report", &[], b"").is(200).says("waits for an upload");
        connect().ask("GET /metrics", &[], b"").is(200);
    }
    // A certificate of another authority counts as none.
    let stranger = Authority::new().sign(NAME);
    let refused = server.authority.connect(&at, Some(&stranger)).map(|mut connection| {
        connection.send(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").and_then(|()| connection.read_byte())
    });
    assert!(refused.and_then(|read| read).is_err());
    assert!(server.names().is_empty());
    server.post("/v1beta1/upload", &pattern(1 << 20)).is(200);
    server.done();
}

#[test]
fn a_probe_consumes_nothing_and_other_methods_find_nothing() {
    let mut server = Server::start();
    let at = server.pod.at();
    for path in ["/v1beta1/upload-async", "/v1alpha1/upload-async", "/v1beta1/upload-form-async"] {
        let mut connection = server.authority.connect(&at, None).unwrap();
        for _ in 0..3 {
            assert_eq!(connection.ask(&format!("HEAD {path}"), &[], b"").is(200).body, "");
        }
    }
    let mut connection = server.connect();
    for request in [
        "HEAD /v1beta1/upload",
        "GET /v1beta1/upload",
        "PUT /v1beta1/upload",
        "GET /v1beta1/upload-async",
        "POST /v1beta2/upload",
        "POST /",
    ] {
        connection.ask(request, &[], b"").is(404);
    }
    connection.post("/v1beta1/upload-archive", b"a tar").is(400).says("this PVC takes a disk image");
    connection.ask("POST /v1beta1/upload-form", &[], b"no form").is(400).says("multipart/form-data");
    server.connect().post("/v1beta1/upload-async", &pattern(1 << 20)).is(200);
    server.done();
}

#[test]
fn one_upload_at_a_time_and_none_when_the_disk_is_there() {
    let raw = pattern(2 << 20);
    let mut server = Server::start_with(None, &["--linger", "600"], &[]);
    let mut first = server.begin("/v1beta1/upload", raw.len(), &raw[..1 << 20]);
    server.pod.reports(|report| report.stage == Stage::Moving);
    for path in ["/v1beta1/upload", "/v1alpha1/upload-async"] {
        server.post(path, &raw).is(503).says("another upload");
    }
    // The probe of a client that tries again is answered meanwhile.
    server.connect().ask("HEAD /v1beta1/upload-async", &[], b"").is(200);
    first.send(&raw[1 << 20..]).unwrap();
    first.answer(true).is(200);
    first.post("/v1beta1/upload", &raw).is(409).says("has its disk already");
    server.post("/v1beta1/upload-async", &raw).is(409);
    assert!(server.disk() == raw);
    server.pod.signal(Signal::TERM);
    server.done();
}

#[test]
fn a_connection_that_breaks_frees_the_place_and_leaves_no_disk() {
    let raw = pattern(3 << 20);
    let mut server = Server::start();
    server.begin("/v1beta1/upload", raw.len(), &raw[..2 << 20]).breaks();
    let broken = server.pod.reports(|report| report.stage == Stage::Waiting);
    assert_eq!((broken.reason.as_str(), broken.failures), ("Interrupted", 1), "{broken:?}");
    assert!(broken.message.contains("the next upload begins anew"), "{broken:?}");
    assert!(server.names().is_empty(), "{:?}", server.names());
    // Chunks and forms do not say how many bytes they have: their end is not the end of the connection.
    let mut chunks = server.connect();
    chunks.head("POST /v1beta1/upload-async", &[("Transfer-Encoding", "chunked")]);
    chunks.send(&[b"100000\r\n", &raw[..1 << 20], b"\r\n"].concat()).unwrap();
    chunks.breaks();
    server.pod.reports(|report| report.failures == 2);
    let form = form(&raw);
    let mut cut = server.connect();
    cut.head("POST /v1beta1/upload-form", &[FORM, ("Content-Length", "1000000")]);
    cut.send(&form[..500_000]).unwrap();
    cut.breaks();
    server.pod.reports(|report| report.failures == 3);
    // A form that is whole by its length, and whose part is not.
    let short = &form[..form.len() - 100];
    server
        .connect()
        .ask("POST /v1beta1/upload-form", &[FORM], short)
        .is(400)
        .says("before its part 'file' did");
    assert!(server.names().is_empty(), "{:?}", server.names());
    server.post("/v1beta1/upload", &raw).is(200);
    assert!(server.disk() == raw);
    assert_eq!(server.done().failures, 4);
}

#[test]
fn a_disk_that_does_not_fit_is_refused_in_the_words_that_tools_know() {
    let mut server = Server::of_size(1 << 20);
    let words = "Saving stream failed: effective image size is larger than the reported available storage: ";
    let answer = server.post("/v1beta1/upload", &pattern(2 << 20)).is(400).says(words);
    assert!(answer.body.contains("1048576 are missing"), "{answer:?}");
    let packed = zstd::encode_all(&pattern(2 << 20)[..], 1).unwrap();
    for body in [&qcow2(&pattern(2 << 20)), &packed] {
        server.post("/v1beta1/upload-async", body).is(400).says(words);
    }
    let report = server.pod.reports(|report| report.failures == 3);
    assert_eq!((report.stage, report.reason.as_str()), (Stage::Waiting, "DataVolumeTooSmall"));
    assert!(server.names().is_empty());
    server.post("/v1beta1/upload", &pattern(1 << 20)).is(200);
    server.done();
}

#[test]
fn an_image_that_means_ill_is_refused_with_the_sentence_of_the_engine() {
    let mut hostile = qcow2(&pattern(1 << 20));
    // Offset and length of the name of a backing file.
    hostile[8..16].copy_from_slice(&1024_u64.to_be_bytes());
    hostile[16..20].copy_from_slice(&11_u32.to_be_bytes());
    hostile[1024..1035].copy_from_slice(b"/etc/shadow");
    let mut server = Server::start();
    let answer = server.post("/v1beta1/upload", &hostile).is(500).says("Saving stream failed: the upload: ");
    assert!(answer.body.contains("backing file"), "{answer:?}");
    let report = server.pod.reports(|report| report.stage == Stage::Waiting);
    assert_eq!(report.reason, "InvalidImage");
    let cut = qcow2(&pattern(1 << 20));
    server
        .post("/v1beta1/upload-async", &cut[..cut.len() / 2])
        .is(500)
        .says("Saving stream failed: the upload: ");
    server.post("/v1beta1/upload", b"").is(500).says("Saving stream failed: the upload");
    assert!(server.names().is_empty());
    server.post("/v1beta1/upload", &cut).is(200);
    server.done();
}

#[test]
fn a_pod_that_is_asked_to_end_in_the_middle_leaves_no_disk() {
    let raw = pattern(2 << 20);
    let mut server = Server::start();
    let connection = server.begin("/v1beta1/upload", raw.len(), &raw[..1 << 20]);
    server.pod.reports(|report| report.stage == Stage::Moving);
    server.pod.signal(Signal::TERM);
    let Server { pod, volume, .. } = server;
    let ended: Ended = pod.wait();
    assert_eq!(ended.code, Some(143), "{}", ended.log);
    let report = ended.report.expect("a termination message");
    assert_eq!((report.stage, report.reason.as_str()), (Stage::Waiting, "Interrupted"));
    assert!(!disk(volume.path()).exists());
    drop(connection);
}
