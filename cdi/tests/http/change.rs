//! A file that is replaced while it is read: always noticed, never mixed.

use super::{failure, open, quick, read, read_all, read_at};
use cdi::ErrorKind;
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
        told.says(ErrorKind::Failed, words);
        told.says(
            ErrorKind::Failed,
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
fn another_date_behind_an_equal_weak_etag_is_noticed() {
    let date = "Mon, 07 Nov 1994 08:49:37 GMT";
    let weak = Behaviour { etag: Some("W/\"v1\"".into()), ..Behaviour::default() };
    let change = changed(weak.etag.as_deref(), Some(date), SIZE);
    is_noticed(Behaviour { change, ..weak }, &["Last-Modified", date]);
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
    assert!(
        server.requests().iter().all(|r| r.header("if-range").is_none()),
        "an answer to a date in If-Range may leave the date out, and then it would show no version"
    );
}

/// Servers of ranges whose answers may say the same of two versions: by neither an ETag nor a date, by a weak ETag, by the
/// date of a second that was not over (or of which nothing shows that it was).
fn weak() -> Vec<Behaviour> {
    let second = Some("Sun, 06 Nov 1994 08:49:37 GMT".to_owned());
    let soon = Some("Sun, 06 Nov 1994 08:49:36 GMT".to_owned());
    let etag = Some("W/\"v1\"".to_owned());
    let cases = [
        (None, None, None),
        (etag.clone(), None, None),
        (etag, second.clone(), second.clone()),
        (None, second.clone(), second.clone()),
        (None, second.clone(), soon),
        (None, second.clone(), None),
        (None, second.clone(), Some("today".to_owned())),
        (None, Some("yesterday".to_owned()), second),
    ];
    let behaviour =
        |(etag, last_modified, date)| Behaviour { etag, last_modified, date, ..Behaviour::default() };
    cases.map(behaviour).to_vec()
}

/// The file is replaced by one of the same size, of which the answers say the same.
fn unnoticed(behaviour: &Behaviour, after_requests: u32) -> Option<Change> {
    let Behaviour { etag, last_modified, .. } = behaviour.clone();
    Some(Change { after_requests, bytes: vec![9; SIZE], etag, last_modified })
}

#[test]
fn without_a_strong_validator_all_bytes_are_of_one_answer() {
    for behaviour in weak() {
        // Before the request for all of it, and after that request.
        for (after_requests, whole) in [(1, vec![9; SIZE]), (2, pattern(SIZE))] {
            let change = unnoticed(&behaviour, after_requests);
            let server = Server::start(pattern(SIZE), Behaviour { change, ..behaviour.clone() });
            let source = open(&server.url("/d"), &quick());
            assert!(read_all(&source) == whole, "after {after_requests} requests: {behaviour:?}");
            assert!(!source.facts().seekable, "a second range could be of another version");
            assert!(source.facts().identity.as_ref().is_none_or(|identity| !identity.is_proof()));
            assert_eq!(source.facts().size, Some(SIZE as u64));
            let ranges: Vec<_> = server.requests().iter().map(|r| r.range(SIZE as u64)).collect();
            assert_eq!(ranges, [Some(0..262_144), None]);
            let words = ["nothing shows that a second reading is of the same file"];
            failure(read(&source, 0)).says(ErrorKind::Failed, &words);
        }
    }
    assert_eq!(
        open(&Server::start(pattern(SIZE), weak()[0].clone()).url("/d"), &quick()).facts().identity,
        None
    );
}

#[test]
fn without_a_strong_validator_a_break_ends_the_reading() {
    let drop_after = Spoil::some(1_000_000, 1);
    for behaviour in weak() {
        // The range of the first answer is not part of the transfer that breaks.
        for (ranges_from, asked_before) in [(0, 2), (1, 1)] {
            for change in [None, unnoticed(&behaviour, asked_before)] {
                let behaviour = Behaviour { drop_after, ranges_from, change, ..behaviour.clone() };
                let server = Server::start(pattern(SIZE), behaviour);
                let told = failure(read(&open(&server.url("/d"), &quick()), 0));
                let words = [
                    "the connection broke at byte 1000000 of 5000000",
                    "nothing shows that the rest is of the same file",
                    "neither a strong ETag nor a Last-Modified",
                ];
                told.says(ErrorKind::Failed, &words);
            }
        }
    }
}

#[test]
fn a_range_that_names_no_version_any_more_is_refused() {
    // A proxy drops the ETag from a 206, and does not know If-Range: the bytes may be of the same file or of another.
    for bytes in [vec![9; SIZE], pattern(SIZE)] {
        let change = Some(Change { bytes, ..changed(None, None, SIZE).unwrap() });
        for etag in [Some("\"v1\"".to_owned()), Some("W/\"v1\"".to_owned()), None] {
            let behaviour =
                Behaviour { change: change.clone(), ignore_if_range: true, etag, ..Behaviour::default() };
            let server = Server::start(pattern(SIZE), behaviour);
            let source = open(&server.url("/d"), &quick());
            for result in [read(&source, 0), read_at(&source, 400_000, 100)] {
                let words = [
                    "repeats neither the strong ETag nor the date",
                    "curl -fL",
                    "| coracle convert - TARGET",
                ];
                failure(result).says(ErrorKind::Refused, &words);
            }
        }
    }
}

#[test]
fn a_range_that_has_only_the_weak_etag_of_the_first_is_refused() {
    for bytes in [vec![9; SIZE], pattern(SIZE)] {
        let etag = Some("W/\"v1\"".to_owned());
        let change = Some(Change { bytes, ..changed(etag.as_deref(), None, SIZE).unwrap() });
        let server = Server::start(pattern(SIZE), Behaviour { etag, change, ..Behaviour::default() });
        let source = open(&server.url("/d"), &quick());
        for result in [read(&source, 0), read_at(&source, 400_000, 100)] {
            let words = ["repeats neither the strong ETag nor the date", "curl -fL"];
            failure(result).says(ErrorKind::Refused, &words);
        }
    }
}

#[test]
fn a_date_that_is_repeated_is_enough() {
    let modified = Behaviour::default().last_modified;
    let change = Some(Change { bytes: pattern(SIZE), ..changed(None, modified.as_deref(), SIZE).unwrap() });
    let behaviour = Behaviour { change, ignore_if_range: true, ..Behaviour::default() };
    let server = Server::start(pattern(SIZE), behaviour);
    assert!(read_all(&open(&server.url("/d"), &quick())) == pattern(SIZE));
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
    let server = Server::start(pattern(SIZE), Behaviour { change, ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    let told = failure(read_at(&source, 1_000_000, 100));
    told.says(ErrorKind::Failed, &["its size of 5000000 bytes became 300000"]);
}

#[test]
fn a_whole_response_that_broke_is_not_continued_with_another_version() {
    let change = changed(Some("\"v2\""), None, SIZE);
    let drop_after = Spoil::some(1_000_000, 1);
    let server =
        Server::start(pattern(SIZE), Behaviour { ranges: false, drop_after, change, ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    failure(read(&source, 0)).says(ErrorKind::Failed, &["ETag \"v1\" became \"v2\""]);
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
        ErrorKind::Failed,
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
    told.says(ErrorKind::Failed, &["the server says Content-Range: bytes", "xxx"]);
    let line = &told.chain;
    assert!(!line.contains(['\u{9b}', '\u{202e}']) && line.len() < 600, "{line:?}");
}
