//! Uploads that go on after a broken connection.

use super::*;

const VERSION: (&str, &str) = ("Tus-Resumable", "1.0.0");
const BYTES: (&str, &str) = ("Content-Type", "application/offset+octet-stream");

impl Server {
    /// The place of a new upload.
    fn create(&mut self, length: usize) -> String {
        let length = length.to_string();
        let answer =
            self.connect().ask("POST /v1beta1/upload-tus", &[VERSION, ("Upload-Length", &length)], b"");
        let answer = answer.is(201);
        assert_eq!(answer.header("tus-resumable"), "1.0.0");
        answer.header("location").to_owned()
    }

    fn offset(&mut self, place: &str) -> usize {
        let answer = self.connect().ask(&format!("HEAD {place}"), &[VERSION], b"").is(200);
        answer.header("upload-offset").parse().expect("a number")
    }

    fn patch(&mut self, place: &str, offset: usize, body: &[u8]) -> Answer {
        let offset = offset.to_string();
        let headers = [VERSION, BYTES, ("Upload-Offset", offset.as_str())];
        self.connect().ask(&format!("PATCH {place}"), &headers, body)
    }

    /// A PATCH of so many bytes, of which these have been sent.
    fn begin_patch(&mut self, place: &str, offset: usize, length: usize, sent: &[u8]) -> Connection {
        let (offset, length) = (offset.to_string(), length.to_string());
        let mut connection = self.connect();
        let headers = [VERSION, BYTES, ("Upload-Offset", &offset), ("Content-Length", &length)];
        connection.head(&format!("PATCH {place}"), &headers);
        connection.send(sent).expect("the server takes them");
        connection
    }
}

#[test]
fn an_upload_goes_on_at_the_byte_after_a_broken_connection() {
    let raw = pattern(4 << 20);
    for image in [raw.clone(), qcow2(&raw)] {
        let mut server = Server::start_with(Some(raw.len() as u64), &["--linger", "600"], &[]);
        let place = server.create(image.len());
        assert_eq!(server.offset(&place), 0);
        server.begin_patch(&place, 0, image.len(), &image[..1_500_000]).breaks();
        let waits = server.pod.reports(|report| report.stage == Stage::Waiting);
        assert!(
            waits.reason == "Interrupted" && waits.message.contains("the upload can go on within 6 h"),
            "{waits:?}"
        );
        // The connection is not cut before all bytes arrived.
        let first = server.offset(&place);
        assert!(first <= 1_500_000, "{first}");
        for wrong in [0, first + 1, image.len()] {
            if wrong != first {
                let answer = server.patch(&place, wrong, &image[wrong..]).is(409);
                assert_eq!(answer.header("upload-offset"), first.to_string());
            }
        }
        // A part that ends well, and one whose client asks by another connection while the first is still open.
        let answer = server.patch(&place, first, &image[first..first + 500_000]).is(204);
        let second = first + 500_000;
        assert_eq!(answer.header("upload-offset"), second.to_string());
        let stuck =
            server.begin_patch(&place, second, image.len() - second, &image[second..second + 100_000]);
        server.pod.reports(|report| report.stage == Stage::Moving);
        let third = server.offset(&place);
        assert!((second..=second + 100_000).contains(&third), "{third}");
        let answer = server.patch(&place, third, &image[third..]).is(204);
        assert_eq!(answer.header("upload-offset"), image.len().to_string());
        assert!(server.disk() == raw, "it is durable when the last byte is answered");
        // The answer may have been lost.
        assert_eq!(server.offset(&place), image.len());
        server.patch(&place, image.len(), b"").is(204);
        server.post("/v1beta1/upload", &image).is(409);
        drop(stuck);
        assert_eq!(server.names(), ["disk.img"]);
    }
}

/// A client of tus that is told its own length as the offset has nothing left to send, and tells its user so.
#[test]
fn an_upload_that_breaks_behind_its_last_byte_is_complete() {
    let raw = pattern(1 << 20);
    let mut server = Server::start_with(None, &["--linger", "600"], &[]);
    let place = server.create(raw.len());
    let mut connection = server.connect();
    let chunked = ("Transfer-Encoding", "chunked");
    connection.head(&format!("PATCH {place}"), &[VERSION, BYTES, ("Upload-Offset", "0"), chunked]);
    let before = format!("{:x}\r\n", raw.len());
    // The end of the chunks never comes.
    connection.send(&[before.as_bytes(), &raw, b"\r\n"].concat()).unwrap();
    server.pod.reports(|report| report.done == raw.len() as u64);
    assert_eq!(server.offset(&place), raw.len());
    assert!(server.disk() == raw);
    assert_eq!(server.pod.reports(|report| report.stage != Stage::Moving).stage, Stage::Done);
    connection.breaks();
    assert_eq!(server.names(), ["disk.img"]);
}

#[test]
fn a_new_pod_has_nothing_of_an_upload_and_says_so() {
    let raw = pattern(1 << 20);
    let place = Server::start().create(raw.len());
    let mut server = Server::start();
    assert_eq!(server.offset(&place), 0);
    server.patch(&place, 5, &raw[5..]).is(409);
    server.patch(&place, 0, &raw).is(204);
    assert!(server.disk() == raw);
    server.done();
}

#[test]
fn an_upload_that_waits_gives_way_to_a_new_one_and_one_that_runs_does_not() {
    let raw = pattern(2 << 20);
    let mut server = Server::start();
    let place = server.create(raw.len());
    let running = server.begin_patch(&place, 0, raw.len(), &raw[..1 << 20]);
    server.pod.reports(|report| report.stage == Stage::Moving);
    server.post("/v1beta1/upload", &raw).is(503);
    let other = format!("{}.0123456789abcdef", raw.len());
    server.patch(&format!("/v1beta1/upload-tus/{other}"), 0, &raw).is(503);
    running.breaks();
    server.pod.reports(|report| report.stage == Stage::Waiting);
    server.post_when_free("/v1beta1/upload", &raw).is(200);
    assert!(server.disk() == raw);
    server.done();
}

#[test]
fn nobody_goes_on_and_the_wait_ends() {
    let mut server = Server::start_with(None, &["--patience", "0"], &[]);
    let place = server.create(1 << 20);
    server.patch(&place, 0, &pattern(1 << 20)[..1000]).is(204);
    let ended = server.pod.reports(|report| report.failures == 1);
    assert!(ended.message.contains("no client continued the upload within 0 s"), "{ended:?}");
    assert!(server.names().is_empty());
    assert_eq!(server.offset(&place), 0);
    let place = server.create(1 << 20);
    server.patch(&place, 0, &pattern(1 << 20)).is(204);
    server.done();
}

#[test]
fn a_client_gives_an_upload_up() {
    let mut server = Server::start();
    let place = server.create(1 << 20);
    let delete = |server: &mut Server| server.connect().ask(&format!("DELETE {place}"), &[VERSION], b"");
    delete(&mut server).is(404);
    server.patch(&place, 0, &pattern(1 << 20)[..1000]).is(204);
    delete(&mut server).is(204);
    assert!(server.names().is_empty());
    assert_eq!(server.offset(&place), 0);
}

#[test]
fn requests_that_make_no_sense_are_refused_with_their_status() {
    let mut server = Server::of_size(1 << 20);
    let options = server.connect().ask("OPTIONS /v1beta1/upload-tus", &[], b"").is(204);
    assert_eq!(
        (options.header("tus-version"), options.header("tus-extension")),
        ("1.0.0", "creation,termination")
    );
    let mut connection = server.connect();
    connection.ask("POST /v1beta1/upload-tus", &[("Upload-Length", "5")], b"").is(412);
    connection.ask("POST /v1beta1/upload-tus", &[VERSION], b"").is(400).says("Upload-Length");
    connection.ask("POST /v1beta1/upload-tus", &[VERSION, ("Upload-Length", "0")], b"").is(400);
    connection.ask("HEAD /v1beta1/upload-tus/none", &[VERSION], b"").is(404);
    let place = server.create(2 << 20);
    let patch = format!("PATCH {place}");
    connection.ask(&patch, &[VERSION, ("Upload-Offset", "0")], b"x").is(415);
    connection.ask(&patch, &[VERSION, BYTES], b"x").is(400).says("Upload-Offset");
    server.patch(&place, 0, &pattern((2 << 20) + 1)).is(413);
    server.patch(&place, 0, &pattern(2 << 20)).is(400).says("larger than the reported available storage");
    // Chunks that go on behind the length.
    let place = server.create(1000);
    let mut chunks = server.connect();
    chunks.head(
        &format!("PATCH {place}"),
        &[VERSION, BYTES, ("Upload-Offset", "0"), ("Transfer-Encoding", "chunked")],
    );
    chunks.send(&[b"3e9\r\n", &pattern(1001)[..], b"\r\n0\r\n\r\n"].concat()).unwrap();
    chunks.answer(true).is(400).says("more bytes came");
    assert!(server.names().is_empty());
}
