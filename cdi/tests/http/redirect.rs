//! Redirects: followed where they lead to HTTP, with what belongs there and nothing more.

use super::{open, quick, read_all, read_at, refusal};
use cdi::ErrorKind;
use cdi::source::Source;
use cdi::source::options::Options;
use tests::http::{Behaviour, Fail, Server, pattern};

fn redirecting(redirects: &[(&str, u16, &str)]) -> Behaviour {
    let redirects = redirects.iter().map(|(path, status, to)| ((*path).into(), *status, (*to).into()));
    Behaviour { redirects: redirects.collect(), ..Behaviour::default() }
}

fn with_secrets() -> Options {
    Options { bearer: Some("t0ken".into()), headers: vec![("X-Key".into(), "k".into())], ..quick() }
}

#[test]
fn a_chain_is_followed_and_its_end_remembered() {
    let chain = [("/a", 301, "/b"), ("/b", 302, "c?x=1#y"), ("/c?x=1", 307, "/d"), ("/d", 308, "/disk")];
    let server = Server::start(pattern(2_000_000), redirecting(&chain));
    let source = open(&server.url("/a"), &with_secrets());
    assert_eq!(source.facts().name, server.url("/a"), "the name is what the user typed");
    assert!(read_all(&source) == pattern(2_000_000));
    let requests = server.requests();
    let paths: Vec<_> = requests.iter().map(|r| r.path.as_str()).collect();
    assert_eq!(paths[..5], ["/a", "/b", "/c?x=1", "/d", "/disk"]);
    assert!(paths[5..].iter().all(|path| *path == "/disk"), "{paths:?}");
    assert!(requests.iter().all(|r| r.header("authorization").is_some() && r.header("x-key").is_some()));
}

#[test]
fn another_server_gets_no_credentials() {
    let store = Server::start(pattern(1_000_000), Behaviour::default());
    let to = store.url_with_user("its:own", "/disk?sig=s3cret");
    let server = Server::start(vec![], redirecting(&[("/a", 302, &to)]));
    let source = open(&server.url("/a"), &with_secrets());
    assert!(read_all(&source) == pattern(1_000_000));
    assert!(server.requests()[0].header("authorization").is_some());
    for request in store.requests() {
        assert_eq!((request.header("authorization"), request.header("x-key")), (None, None));
    }
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn another_server_that_wants_credentials_says_so_without_secrets() {
    let basic = Some(("u".into(), "p".into()));
    let store = Server::start(pattern(10), Behaviour { basic, ..Behaviour::default() });
    let server = Server::start(vec![], redirecting(&[("/a", 302, &store.url("/disk?sig=s3cret"))]));
    let told = refusal(&server.url("/a"), &with_secrets());
    told.says(ErrorKind::Auth, &["401", "not sent on to another server", &store.url("/disk?…")]);
    assert!(!told.chain.contains("s3cret") && !told.chain.contains("t0ken"), "{}", told.chain);
}

#[test]
fn a_link_that_expired_is_asked_for_anew() {
    // Refused, or out of order: either way the way there is asked for once more.
    for status in [403, 404, 503] {
        let fail = Fail { status, times: 1, skip: 2, retry_after: None };
        let store = Server::start(pattern(2_000_000), Behaviour { fail: Some(fail), ..Behaviour::default() });
        let server = Server::start(vec![], redirecting(&[("/a", 302, &store.url("/disk"))]));
        let source = open(&server.url("/a"), &quick());
        for offset in [1_000_000, 1_500_000] {
            let bytes = read_at(&source, offset, 100_000).unwrap();
            assert!(bytes == pattern(2_000_000)[offset as usize..offset as usize + 100_000]);
        }
        assert_eq!(server.requests().len(), 2, "{status}");
    }
}

#[test]
fn loops_and_other_schemes_end() {
    let server = Server::start(vec![], redirecting(&[("/a", 302, "/b"), ("/b", 302, "/a")]));
    refusal(&server.url("/a"), &quick()).says(ErrorKind::Failed, &["more than 10 redirects"]);
    assert_eq!(server.requests().len(), 11);
    for to in ["file:///etc/passwd", "ftp://host/x", "http://[bad"] {
        let server = Server::start(vec![], redirecting(&[("/a", 302, to)]));
        refusal(&server.url("/a"), &quick()).says(ErrorKind::Failed, &["redirect"]);
    }
    let fail = Fail { status: 302, times: u32::MAX, skip: 0, retry_after: None };
    let server = Server::start(vec![], Behaviour { fail: Some(fail), ..Behaviour::default() });
    refusal(&server.url("/a"), &quick()).says(ErrorKind::Failed, &["302", "without saying where"]);
}
