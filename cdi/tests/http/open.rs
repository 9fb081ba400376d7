//! Variants of the first answer, and the messages about them.

use super::{failure, open, quick, read, read_all, read_at, refusal};
use cdi::ErrorKind;
use cdi::source::Source;
use cdi::source::options::Options;
use tests::http::{Behaviour, Fail, Server, pattern};

fn answering(status: u16) -> Server {
    let fail = Fail { status, times: u32::MAX, skip: 0, retry_after: None };
    Server::start(pattern(1000), Behaviour { fail: Some(fail), ..Behaviour::default() })
}

#[test]
fn statuses_become_kinds() {
    for (status, kind) in [
        (401, ErrorKind::Auth),
        (403, ErrorKind::Auth),
        (404, ErrorKind::NotFound),
        (410, ErrorKind::NotFound),
    ] {
        let server = answering(status);
        refusal(&server.url("/d"), &quick()).says(kind, &[&status.to_string()]);
        assert_eq!(server.requests().len(), 1, "{status} is not asked for again");
    }
    for status in [204, 400, 405, 451] {
        let server = answering(status);
        refusal(&server.url("/d"), &quick())
            .says(ErrorKind::Failed, &[&status.to_string(), "a disk was expected"]);
        assert_eq!(server.requests().len(), 1, "{status} is not asked for again");
    }
    for status in [408, 429, 500, 502, 503, 504] {
        let server = answering(status);
        let options = Options { retries: 3, ..quick() };
        let told = refusal(&server.url("/d"), &options);
        told.says(ErrorKind::Failed, &[&status.to_string(), "gave up at byte 0 after 4 failures in a row"]);
        assert_eq!(server.requests().len(), 4, "{status} is asked for again");
    }
}

#[test]
fn what_is_sent() {
    let server = Server::start(pattern(1000), Behaviour::default());
    let options = Options {
        headers: vec![("X-Extra".into(), "one".into()), ("X-Extra".into(), "two".into())],
        bearer: Some("t0ken".into()),
        user: Some("ignored".into()),
        ..quick()
    };
    open(&server.url("/a/disk.img?sig=1"), &options);
    let request = &server.requests()[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("GET", "/a/disk.img?sig=1"));
    assert_eq!(request.header("range"), Some("bytes=0-262143"));
    assert_eq!(request.header("accept-encoding"), Some("identity"));
    assert_eq!(request.header("authorization"), Some("Bearer t0ken"));
    assert_eq!(request.header("user-agent"), Some(concat!("coracle/", env!("CARGO_PKG_VERSION"))));
    let extra: Vec<_> = request.headers.iter().filter(|(name, _)| name == "x-extra").collect();
    assert_eq!(extra.len(), 2, "{extra:?}");
}

#[test]
fn headers_and_names_that_make_no_sense_are_usage_errors() {
    for url in ["ftp://host/x", "file:///etc/passwd", "no url", "http://"] {
        assert_eq!(refusal(url, &quick()).kind, ErrorKind::Usage, "{url}");
    }
    let with = |name: &str| Options { headers: vec![(name.into(), "v".into())], ..quick() };
    refusal("http://127.0.0.1:1/", &with("Range")).says(ErrorKind::Usage, &["\"Range\" cannot be given"]);
    refusal("http://127.0.0.1:1/", &with("a b")).says(ErrorKind::Usage, &["\"a b\""]);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let told = refusal(&format!("http://127.0.0.1:{port}/d"), &Options { retries: 1, ..quick() });
    told.says(ErrorKind::Failed, &["cannot connect to 127.0.0.1", "refused", "2 failures in a row"]);
}

#[test]
fn an_extra_header_opens_what_wants_one() {
    let wanted_header = Some(("x-token".into(), "s3cret".into()));
    let server = Server::start(pattern(1000), Behaviour { wanted_header, ..Behaviour::default() });
    let with = |value: &str| Options { headers: vec![("X-Token".into(), value.into())], ..quick() };
    assert_eq!(read_all(&open(&server.url("/d"), &with("s3cret"))), pattern(1000));
    let told = refusal(&server.url("/d?q=s3cret-q"), &with("s3cret-w"));
    told.says(ErrorKind::Auth, &["403", "headers that were given"]);
    assert!(!told.chain.contains("s3cret"), "{}", told.chain);
}

#[test]
fn a_web_page_is_not_a_disk() {
    let page = b"\xef\xbb\xbf \r\n<!doctype html><title>Log in</title>".to_vec();
    let html = Behaviour { content_type: "text/html; charset=utf-8".into(), ..Behaviour::default() };
    let kinds = [
        html.clone(),
        Behaviour { ranges: false, ..html.clone() },
        Behaviour { ranges: false, chunked: true, ..html.clone() },
        Behaviour { gzip: true, ..html.clone() },
    ];
    for behaviour in kinds {
        let server = Server::start(page.clone(), behaviour);
        let told = refusal(&server.url("/d"), &quick());
        told.says(
            ErrorKind::Refused,
            &["the server sent a web page, not a disk", "check the link, or log in"],
        );
    }
    let disk = pattern(1000);
    let server = Server::start(disk.clone(), html);
    assert_eq!(read_all(&open(&server.url("/d"), &quick())), disk, "a wrong type alone is no reason");
}

#[test]
fn without_a_length_the_end_is_the_end() {
    let disk = pattern(3_000_000);
    for (chunked, until_close) in [(true, false), (false, true)] {
        let behaviour = Behaviour { ranges: false, chunked, until_close, ..Behaviour::default() };
        let server = Server::start(disk.clone(), behaviour);
        let source = open(&server.url("/d"), &quick());
        assert_eq!(source.facts().size, None);
        assert!(!source.facts().seekable);
        assert!(read_all(&source) == disk);
        assert_eq!(server.requests().len(), 1);
    }
}

#[test]
fn chunked_ranges_are_ranges() {
    let disk = pattern(3_000_000);
    let server = Server::start(disk.clone(), Behaviour { chunked: true, ..Behaviour::default() });
    let source = open(&server.url("/d"), &quick());
    assert_eq!(source.facts().size, Some(3_000_000));
    assert!(read_all(&source) == disk);
    assert_eq!(read_at(&source, 1_000_000, 100_000).unwrap(), disk[1_000_000..1_100_000]);
    assert!(server.connections() <= 3, "connections are used again: {}", server.connections());
}

#[test]
fn gzip_is_undone_and_cannot_seek() {
    let disk = [pattern(2_000_000), vec![0; 2_000_000]].concat();
    for ranges in [true, false] {
        let server = Server::start(disk.clone(), Behaviour { gzip: true, ranges, ..Behaviour::default() });
        let source = open(&server.url("/d"), &quick());
        assert_eq!((source.facts().size, source.facts().seekable), (None, false));
        assert!(source.read_at().is_none() && source.stream(1).is_err());
        assert!(read_all(&source) == disk);
    }
}

#[test]
fn an_encoding_that_cannot_be_undone_is_refused() {
    let claimed = |name: &str| Behaviour { claimed_encoding: Some((0, name.into())), ..Behaviour::default() };
    let server = Server::start(pattern(1000), claimed("br"));
    refusal(&server.url("/d"), &quick()).says(ErrorKind::Refused, &["Content-Encoding: br"]);
    let server = Server::start(pattern(1000), claimed("identity"));
    assert_eq!(read_all(&open(&server.url("/d"), &quick())), pattern(1000));
    let server = Server::start(pattern(1000), claimed("gzip"));
    let source = open(&server.url("/d"), &quick());
    failure(read(&source, 0)).says(ErrorKind::Refused, &["Content-Encoding: gzip is broken"]);
}

#[test]
fn an_empty_file_is_empty() {
    for behaviour in [
        Behaviour::default(),
        Behaviour { ranges: false, ..Behaviour::default() },
        Behaviour { ranges: false, chunked: true, ..Behaviour::default() },
    ] {
        let server = Server::start(vec![], behaviour);
        let source = open(&server.url("/d"), &quick());
        assert!(read_all(&source).is_empty());
    }
}
