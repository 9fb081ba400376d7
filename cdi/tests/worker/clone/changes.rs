//! A disk that changes while it is cloned: no clone is a mixture of two versions.

use super::relay::Relay;
use super::*;

#[test]
fn a_disk_that_changes_in_the_middle_ends_the_connection_and_is_cloned_as_it_is_then() {
    let origin = Origin::with(64 * MIB, &[(0, 48 * MIB)]);
    let mut server = origin.serve();
    let relay = Relay::to(&server.at(), 2 * MIB);
    let volume = tempfile::tempdir().unwrap();
    let mut importer = Pod::start(&origin.job(&relay.at, volume.path()));
    importer.reports(|report| report.stage == Stage::Moving && report.done > 2 * MIB);
    let at = server.at();
    let etag = || origin.connect(&at).ask("HEAD /disk", &[], b"").is(200).header("etag").to_owned();
    let before = etag();
    let file = File::options().write(true).open(origin.disk()).unwrap();
    // At the beginning, which was moved already, and in a hole.
    for at in [4096, 60 * MIB] {
        file.write_all_at(b"the other version", at).unwrap();
    }
    file.sync_all().unwrap();
    assert_ne!(etag(), before);
    relay.hurry();
    let ended = importer.wait();
    assert!(ended.log.contains("changed"), "{}", ended.log);
    ended.done();
    assert!(tests::disk::same(&origin.disk(), &disk(volume.path())));
}

#[test]
fn a_request_by_another_version_gets_the_whole_and_a_body_ends_where_the_disk_changes() {
    let origin = Origin::with(300 * MIB, &[(0, 4 * MIB)]);
    let mut server = origin.serve();
    let at = server.at();
    let head = |headers: &[(&str, &str)]| origin.connect(&at).ask("HEAD /disk", headers, b"");
    let first = head(&[]).is(200);
    let (etag, size) = (first.header("etag").to_owned(), first.header("content-length").to_owned());
    assert_eq!(first.header("accept-ranges"), "bytes");
    let part = head(&[("Range", "bytes=0-99"), ("If-Range", &etag)]).is(206);
    assert_eq!(part.header("content-range"), format!("bytes 0-99/{size}"));
    assert_eq!(part.header("content-length"), "100");
    // A body that is under way, and more than sockets hold.
    let mut connection = origin.connect(&at);
    connection.head("GET /disk", &[("Content-Length", "0")]);
    connection.read_byte().unwrap();
    std::fs::OpenOptions::new().append(true).open(origin.disk()).unwrap().set_len(301 * MIB).unwrap();
    let read = connection.read_to_end();
    assert!(read < size.parse().unwrap(), "it was cut behind {read} bytes");
    let now = head(&[("Range", "bytes=0-99"), ("If-Range", &etag)]).is(200);
    assert_ne!(now.header("etag"), etag);
    assert_ne!(now.header("content-length"), size);
    assert!(server.log().contains("changed while it was"), "the log says why");
}
