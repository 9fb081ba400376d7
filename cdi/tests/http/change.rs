//! A file that is replaced while it is read: always noticed, never mixed.

use super::{failure, open, quick, read, read_all, read_at};
use cdi::Kind;
use cdi::source::Source;
use tests::http::{Behaviour, Change, Server, Spoil, pattern};

const SIZE: usize = 5_000_000;

fn changed(etag: Option<&str>, modified: Option<&str>, size: usize) -> Option<Change> {
    let (etag, last_modified) = (etag.map(str::to_owned), modified.map(str::to_owned));
    Some(Change { after_requests: 1, bytes: vec![9; size], etag, last_modified })
}

#[track_caller]
fn is_noticed(behaviour: Behaviour, words: &[&str]) {
    let server = Server::start(pattern(SIZE), behaviour);
    let source = open(&server.url("/d"), &quick());
    for result in [read(&source, 0), read_at(&source, 400_000, 100)] {
        let told = failure(result);
        told.says(Kind::Failed, words);
        told.says(
            Kind::Failed,
            &["the file changed while it was read", "nothing of the two versions was mixed"],
        );
    }
}

#[test]
fn another_etag_is_noticed() {
    let change = changed(Some("\"v2\""), None, SIZE);
    let words = ["ETag \"v1\" became \"v2\""];
    is_noticed(Behaviour { change: change.clone(), ..Behaviour::default() }, &words);
    is_noticed(Behaviour { change, ignore_if_range: true, ..Behaviour::default() }, &words);
}

#[test]
fn a_weak_etag_is_compared_but_proves_nothing() {
    let weak = Behaviour { etag: Some("W/\"v1\"".into()), ..Behaviour::default() };
    let change = changed(Some("W/\"v2\""), None, SIZE);
    is_noticed(Behaviour { change, ..weak.clone() }, &["ETag W/\"v1\" became W/\"v2\""]);
    let server = Server::start(pattern(SIZE), weak);
    let source = open(&server.url("/d"), &quick());
    assert!(!source.facts().identity.as_ref().unwrap().is_proof());
    assert!(read_all(&source) == pattern(SIZE));
    assert!(
        server.requests().iter().all(|r| r.header("if-range").is_none()),
        "a weak ETag would never match"
    );
}

#[test]
fn another_date_is_noticed() {
    let date = "Mon, 07 Nov 1994 08:49:37 GMT";
    let old = Behaviour { etag: None, ..Behaviour::default() };
    let change = changed(None, Some(date), SIZE);
    is_noticed(Behaviour { change, ..old.clone() }, &["Last-Modified", date]);
    let server = Server::start(pattern(SIZE), old);
    let source = open(&server.url("/d"), &quick());
    let identity = source.facts().identity.clone().unwrap();
    assert_eq!(
        (identity.value.as_str(), identity.size, identity.is_proof()),
        ("mtime:Sun, 06 Nov 1994 08:49:37 GMT", Some(5_000_000), false)
    );
    assert!(read_all(&source) == pattern(SIZE));
    let dates = server.requests();
    assert!(dates[1..].iter().all(|r| r.header("if-range") == Some("Sun, 06 Nov 1994 08:49:37 GMT")));
}

#[test]
fn without_validators_the_size_is_all_there_is() {
    let bare = Behaviour { etag: None, last_modified: None, ..Behaviour::default() };
    let change = changed(None, None, SIZE + 1);
    is_noticed(Behaviour { change, ..bare.clone() }, &["its size of 5000000 bytes became 5000001"]);
    let server = Server::start(pattern(SIZE), bare);
    let source = open(&server.url("/d"), &quick());
    assert_eq!(source.facts().identity, None);
    assert!(read_all(&source) == pattern(SIZE));
}

#[test]
fn another_encoding_is_noticed() {
    let claimed_encoding = Some((1, "gzip".to_owned()));
    is_noticed(
        Behaviour { claimed_encoding, ..Behaviour::default() },
        &["Content-Encoding \"\" became \"gzip\""],
    );
}

#[test]
fn a_shorter_file_is_noticed_past_its_end() {
    let change = changed(None, None, 300_000);
    let bare = Behaviour { etag: None, last_modified: None, change, ..Behaviour::default() };
    let server = Server::start(pattern(SIZE), bare);
    let source = open(&server.url("/d"), &quick());
    let told = failure(read_at(&source, 1_000_000, 100));
    told.says(Kind::Failed, &["its size of 5000000 bytes became 300000"]);
}

#[test]
fn a_whole_response_that_broke_is_not_continued_with_another_version() {
    let change = changed(Some("\"v2\""), None, SIZE);
    let drop_after = Spoil::some(1_000_000, 1);
    let server =
        Server::start(pattern(SIZE), Behaviour { ranges: false, drop_after, change, ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    failure(read(&source, 0)).says(Kind::Failed, &["ETag \"v1\" became \"v2\""]);
}

#[test]
fn a_wrong_content_range_is_never_believed() {
    let server = Server::start(pattern(SIZE), Behaviour { range_lie: 1, ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    assert!(!source.facts().seekable, "a first range that lies elsewhere is no range");
    assert!(read_all(&source) == pattern(SIZE));
}

#[test]
fn ranges_that_stop_working_are_an_error_and_not_the_wrong_bytes() {
    let server = Server::start(pattern(SIZE), Behaviour { no_ranges_from: Some(1), ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    let told = failure(read_at(&source, 1_000_000, 100));
    told.says(
        Kind::Failed,
        &["asked for bytes 983040-1048575, but the server answered 200", "failures in a row"],
    );
}

#[test]
fn a_content_range_does_nothing_on_a_terminal() {
    // CSI of eight bits, a mark that turns text around, and far more than a line.
    let said = format!("bytes \u{9b}31m\u{202e}{}", "x".repeat(5000));
    let behaviour = Behaviour { claimed_range: Some((1, said)), ..Behaviour::default() };
    let server = Server::start(pattern(SIZE), behaviour);
    let told = failure(read_at(&open(&server.url("/d"), &quick()), 1_000_000, 100));
    told.says(Kind::Failed, &["the server says Content-Range: bytes", "xxx"]);
    let line = &told.chain;
    assert!(!line.contains(['\u{9b}', '\u{202e}']) && line.len() < 600, "{line:?}");
}
