//! Connections that break, stall and lie: the transfer continues at the byte, or says why it cannot.

use super::{Told, failure, open, quick, read, read_all, read_at, refusal};
use cdi::ErrorKind;
use cdi::convert::{Request, prepare};
use cdi::plan::ConvertOptions;
use cdi::run::watch::Watch;
use cdi::source::http::Http;
use cdi::source::options::{LeastRate, Options};
use cdi::source::{Source, SourceSpec};
use cdi::target::Destination;
use std::time::Duration;
use tests::http::{Behaviour, Fail, Server, Spoil, pattern};

const SIZE: usize = 5_000_000;

fn impatient() -> Options {
    Options { idle_timeout: Duration::from_millis(300), ..quick() }
}

#[test]
fn a_connection_that_always_breaks_still_gives_the_file() {
    let disk = pattern(SIZE);
    for chunked in [false, true] {
        let behaviour = Behaviour { drop_after: Spoil::always(100_000), chunked, ..Behaviour::default() };
        let server = Server::start(disk.clone(), behaviour);
        let source = open(&server.url("/d"), &quick());
        assert!(read_all(&source) == disk);
        assert!(read_at(&source, 1_000_000, 1_000_000).unwrap() == disk[1_000_000..2_000_000]);
        assert!(read_at(&source, 3_000_000, 60_000).unwrap() == disk[3_000_000..3_060_000]);
    }
}

#[test]
fn it_continues_at_the_byte_where_it_broke() {
    let disk = pattern(SIZE);
    let drop_after = Some(Spoil { bytes: 123_456, times: 1, skip: 1 });
    let server = Server::start(disk.clone(), Behaviour { drop_after, ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    assert!(read_at(&source, 1_000_000, 500_000).unwrap() == disk[1_000_000..1_500_000]);
    let ranges: Vec<_> = server.requests().iter().map(|r| r.range(SIZE as u64).unwrap()).collect();
    assert_eq!(ranges, [0..262_144, 1_000_000..1_500_000, 1_123_456..1_500_000]);
    assert!(server.requests()[1..].iter().all(|r| r.header("if-range") == Some("\"v1\"")));
}

#[test]
fn without_progress_it_gives_up_and_says_where() {
    let server =
        Server::start(pattern(SIZE), Behaviour { drop_after: Spoil::always(0), ..Behaviour::default() });
    let told = refusal(&server.url("/d"), &Options { retries: 2, ..quick() });
    told.says(ErrorKind::Failed, &["gave up at byte 0 after 3 failures in a row"]);
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_length_that_is_too_long_is_an_error_with_both_numbers() {
    let server =
        Server::start(pattern(SIZE), Behaviour { ranges: false, length_lie: 1000, ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    let told = failure(read(&source, 0));
    told.says(ErrorKind::Failed, &["broke at byte 5000000 of 5001000", "does not support ranges"]);
}

#[test]
fn a_server_may_send_less_than_was_asked_for() {
    let disk = pattern(SIZE);
    let server =
        Server::start(disk.clone(), Behaviour { longest_range: Some(70_000), ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    assert!(read_all(&source) == disk);
    assert!(read_at(&source, 1_000_000, 1_000_000).unwrap() == disk[1_000_000..2_000_000]);
}

#[test]
fn ranges_of_a_few_bytes_are_failures() {
    let disk = pattern(SIZE);
    let giving = |longest| {
        Server::start(disk.clone(), Behaviour { longest_range: Some(longest), ..Behaviour::default() })
    };
    let server = giving(1);
    let told = failure(read_at(&open(&server.url("/d"), &quick()), 1_000_000, 1_000_000));
    told.says(
        ErrorKind::Failed,
        &["the server gives 1 bytes for a request of 999995", "6 failures in a row"],
    );
    assert_eq!(server.requests().len(), 7);
    // Few as these are, they come to something.
    let server = giving(40_000);
    assert!(
        read_at(&open(&server.url("/d"), &quick()), 1_000_000, 500_000).unwrap()
            == disk[1_000_000..1_500_000]
    );
    // A small file and a small end are no failures.
    let server = giving(70_000);
    let source = open(&server.url("/d"), &Options { retries: 0, ..quick() });
    assert!(read_at(&source, 1_000_000, 140_010).unwrap() == disk[1_000_000..1_140_010]);
}

#[test]
fn a_few_bytes_between_failures_are_no_progress() {
    let drop_after = Some(Spoil { bytes: 10, times: u32::MAX, skip: 1 });
    let server = Server::start(pattern(SIZE), Behaviour { drop_after, ..Behaviour::default() });
    let source = open(&server.url("/d"), &Options { retries: 2, ..quick() });
    let told = failure(read_at(&source, 1_000_000, 1_000_000));
    told.says(ErrorKind::Failed, &["gave up at byte 1000030 after 3 failures in a row"]);
    assert_eq!(server.requests().len(), 4);
}

#[test]
fn a_range_that_stays_empty_is_an_error_with_both_numbers() {
    // Content-Range promises more than Content-Length.
    for (lie, words) in [
        (-300_000, "promised 262144 bytes from byte 0 and sent only 0"),
        (-1000, "promised 1000 bytes from byte 261144 and sent only 0"),
    ] {
        let server = Server::start(pattern(SIZE), Behaviour { length_lie: lie, ..Behaviour::default() });
        refusal(&server.url("/d"), &quick()).says(ErrorKind::Failed, &[words, "failures in a row"]);
    }
}

#[test]
fn bytes_beyond_the_promise_are_not_taken() {
    let disk = pattern(SIZE);
    let server = Server::start(disk.clone(), Behaviour { length_lie: 77, ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    assert!(read_at(&source, 1_000_000, 500_000).unwrap() == disk[1_000_000..1_500_000]);
    let server =
        Server::start(disk.clone(), Behaviour { ranges: false, length_lie: -77, ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    assert!(read_all(&source) == disk[..SIZE - 77], "what Content-Length ends is the file");
}

#[test]
fn a_total_that_is_too_large_is_never_believed_to_the_end() {
    let lie = |total: u64| {
        Server::start(pattern(SIZE), Behaviour { total_lie: Some(total), ..Behaviour::default() })
    };
    let server = lie(u64::MAX);
    refusal(&server.url("/d"), &quick()).says(ErrorKind::Refused, &["18446744073709551615 bytes", "no disk"]);
    for total in [SIZE as u64 + 1, i64::MAX as u64] {
        let server = lie(total);
        let source = open(&server.url("/d"), &quick());
        assert!(read_at(&source, 1_000_000, 100_000).unwrap() == pattern(SIZE)[1_000_000..1_100_000]);
        let words = [&*format!("its size of {total} bytes became {SIZE}")];
        for (offset, len) in [(total - 1, 1), (total - 100_000, 100_000)] {
            failure(read_at(&source, offset, len)).says(ErrorKind::Failed, &words);
        }
        failure(read(&source, total - 1)).says(ErrorKind::Failed, &words);
    }
}

#[test]
fn a_busy_server_is_waited_for() {
    let disk = pattern(SIZE);
    for skip in [0, 1] {
        let fail = Fail { status: 503, times: 3, skip, retry_after: Some("0".into()) };
        let server = Server::start(disk.clone(), Behaviour { fail: Some(fail), ..Behaviour::default() });
        assert!(read_all(&open(&server.url("/d"), &quick())) == disk);
    }
}

#[test]
fn a_stalled_body_is_tried_once_more_and_then_goes_on() {
    let disk = pattern(SIZE);
    let stall_after = Some(Spoil { bytes: 50_000, times: 1, skip: 1 });
    let server = Server::start(disk.clone(), Behaviour { stall_after, ..Behaviour::default() });
    let source = open(&server.url("/d"), &impatient());
    assert!(read_at(&source, 1_000_000, 500_000).unwrap() == disk[1_000_000..1_500_000]);
    let ranges: Vec<_> = server.requests().iter().map(|r| r.range(SIZE as u64).unwrap()).collect();
    assert_eq!(ranges[2], 1_050_000..1_500_000);
}

#[test]
fn a_stalled_server_is_named_with_the_time_and_the_bytes() {
    let words = ["no byte came for 0.3 s while waiting for", "idle timeout"];
    for (behaviour, wanted) in [
        (Behaviour { mute: u32::MAX, ..Behaviour::default() }, "the head of the answer"),
        (Behaviour { stall_after: Spoil::always(0), ..Behaviour::default() }, "bytes 0-262143"),
        (
            Behaviour { stall_after: Spoil::always(0), ranges: false, ..Behaviour::default() },
            "the first bytes",
        ),
    ] {
        let server = Server::start(pattern(SIZE), behaviour);
        let told = refusal(&server.url("/d"), &impatient());
        told.says(ErrorKind::Failed, &words);
        told.says(ErrorKind::Failed, &[wanted]);
    }
}

#[test]
fn a_stall_in_the_middle_is_named_too() {
    let stall_after = Some(Spoil { bytes: 0, times: u32::MAX, skip: 1 });
    let server = Server::start(pattern(SIZE), Behaviour { stall_after, ..Behaviour::default() });
    let source = open(&server.url("/d"), &impatient());
    for result in [read(&source, 0), read_at(&source, 1_000_000, 500_000)] {
        let words = ["no byte came for 0.3 s while waiting for bytes", "idle timeout"];
        failure(result).says(ErrorKind::Failed, &words);
    }
    let stall_after = Spoil::always(200_000);
    let server =
        Server::start(pattern(SIZE), Behaviour { stall_after, ranges: false, ..Behaviour::default() });
    let source = open(&server.url("/d"), &impatient());
    let told = failure(read(&source, 0));
    told.says(ErrorKind::Failed, &["byte 200000", "does not support ranges"]);
}

#[test]
fn one_response_goes_on_when_the_server_can_range_after_all() {
    let disk = pattern(SIZE);
    let whole_first =
        Behaviour { ranges_from: 1, drop_after: Spoil::some(1_000_000, 1), ..Behaviour::default() };
    for chunked in [false, true] {
        let server = Server::start(disk.clone(), Behaviour { chunked, ..whole_first.clone() });
        let source = open(&server.url("/d"), &quick());
        assert!(!source.facts().seekable);
        assert!(read_all(&source) == disk);
        let requests = server.requests();
        assert_eq!(requests[1].range(SIZE as u64), Some(1_000_000..SIZE as u64));
        assert_eq!(requests[1].header("if-range"), Some("\"v1\""));
    }
    // The rest comes in ranges that are shorter than what is missing: the size is known from the first of them.
    let short = Behaviour { chunked: true, longest_range: Some(70_000), ..whole_first.clone() };
    let server = Server::start(disk.clone(), short);
    assert!(read_all(&open(&server.url("/d"), &quick())) == disk);
    let unproven = Behaviour { etag: None, last_modified: None, chunked: true, ..whole_first };
    let server = Server::start(disk, unproven);
    let told = failure(read(&open(&server.url("/d"), &quick()), 0));
    told.says(
        ErrorKind::Failed,
        &["the connection broke at byte 1000000, and nothing shows that the rest is of the same"],
    );
}

#[test]
fn a_broken_whole_response_says_why_it_cannot_go_on() {
    let drop_after = Spoil::always(1_000_000);
    let server =
        Server::start(pattern(SIZE), Behaviour { ranges: false, drop_after, ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    let mut bytes = vec![];
    let mut reader = source.stream(0).unwrap();
    let error = std::io::Read::read_to_end(&mut reader, &mut bytes).unwrap_err();
    let words = [
        "the connection broke at byte 1000000 of 5000000",
        "the server does not support ranges",
        "start again",
    ];
    Told::io(error).says(ErrorKind::Failed, &words);
    assert!(bytes == pattern(SIZE)[..1_000_000]);
    assert!(std::io::Read::read(&mut reader, &mut [0]).is_err(), "an error is not followed by a good end");
}

/// Bytes that come now and then break the silence, and so would go on for years.
#[test]
fn a_server_that_trickles_is_given_up_where_a_least_rate_is_wanted() {
    let least_rate = Some(LeastRate { bytes: 1 << 20, over: Duration::from_millis(400) });
    for ranges in [true, false] {
        let trickle = Behaviour { rate: Some(100 << 10), ranges, ..Behaviour::default() };
        let server = Server::start(pattern(8 << 20), trickle);
        let options = Options { least_rate, idle_timeout: Duration::from_secs(5), ..quick() };
        let told = match Http::open(&server.url("/d"), &options) {
            Ok(source) => failure(read(&source, 0)),
            Err(e) => Told::new(&e),
        };
        let words = ["less than the least rate of 1048576 bytes per second while waiting for"];
        told.says(ErrorKind::Failed, &words);
        assert!(server.sent() < 2 << 20, "{} bytes were waited for", server.sent());
    }
    // Quick enough, and without the wish any rate will do.
    let bytes = pattern(1 << 20);
    let slow = Behaviour { rate: Some(512 << 10), ..Behaviour::default() };
    let low = Some(LeastRate { bytes: 1 << 10, over: Duration::from_millis(100) });
    for least_rate in [low, None] {
        let server = Server::start(bytes.clone(), slow.clone());
        let source = open(&server.url("/d"), &Options { least_rate, ..quick() });
        assert!(read_all(&source) == bytes);
    }
}

/// A disk that is nearly empty is next to nothing on its way.
#[test]
fn a_server_of_few_bytes_that_make_many_is_quick_enough() {
    // A byte on the wire becomes fifty and more.
    let mut disk = vec![0; 64 << 20];
    for (at, block) in pattern(disk.len() / 64).chunks(64).zip(disk.chunks_mut(4096)) {
        block[..64].copy_from_slice(at);
    }
    let packed = zstd::encode_all(&disk[..], 1).unwrap();
    let slow = Behaviour { rate: Some(256 << 10), ranges: false, ..Behaviour::default() };
    let server = Server::start(packed, slow);
    let least_rate = Some(LeastRate { bytes: 512 << 10, over: Duration::from_millis(2500) });
    let target = tempfile::tempdir().unwrap();
    let file = target.path().join("disk.img");
    let request = Request::new(
        SourceSpec::Web(server.url("/disk.img.zst")),
        Destination::File(file.clone()),
        Options { least_rate, ..quick() },
        ConvertOptions::with_threads(2),
    );
    let watch = Watch::default();
    prepare(request, &watch).unwrap().run(&watch).unwrap();
    assert!(std::fs::read(file).unwrap() == disk);
}

#[test]
fn whether_an_end_can_be_told_from_a_loss_is_known() {
    let marks = |behaviour: Behaviour| {
        let server = Server::start(pattern(100_000), Behaviour { ranges: false, ..behaviour });
        open(&server.url("/d"), &quick()).marks_its_end()
    };
    assert!(marks(Behaviour::default()), "it says its length");
    assert!(marks(Behaviour { chunked: true, ..Behaviour::default() }));
    assert!(!marks(Behaviour { until_close: true, ..Behaviour::default() }));
    assert!(
        !marks(Behaviour { until_close: true, gzip: true, ..Behaviour::default() }),
        "another member of the gzip may follow"
    );
}
