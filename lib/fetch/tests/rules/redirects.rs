//! Allowed redirects, by the answers of a server.

use super::*;
use fetch::ErrorKind;
use fetch::authorize::Headers;
use tests::http::{Authority, Server, pattern};

#[test]
fn a_chain_is_followed_and_its_end_is_told() {
    let store = Server::start(pattern(10), Behaviour::default());
    let chain = [("/a", 301, "/b"), ("/b", 307, &*store.url("/c?sig=s3cret"))];
    let server = Server::start(vec![], redirecting(&chain));
    let answer = get(&client(Headers::default()).0, &server.url("/a"), &()).unwrap();
    assert!(answer.redirected);
    assert_eq!(answer.location.shown(), store.url("/c?…"));
    assert_eq!(answer.response.status(), 206);
    let range = store.requests()[0].header("range").map(str::to_owned);
    assert_eq!(range.as_deref(), Some("bytes=0-3"), "a request's own headers go all the way");
}

#[test]
fn nobody_is_led_out_of_tls_but_who_allows_it() {
    let store = Server::start(pattern(10), Behaviour::default());
    let authority = Authority::new();
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), authority.pem()).unwrap();
    let to = store.url("/disk?sig=s3cret");
    let server = Server::start_tls(vec![], redirecting(&[("/a", 302, &to)]), &authority);
    let client =
        |policy| Client::new(connect(vec![ca.path().into()]), policy, Headers::default(), Words::default());
    let refused = fault(get(&client(STRICT), &server.url("/a"), &()));
    assert_eq!((refused.kind, refused.error.kind()), (FaultKind::Odd, ErrorKind::Refused));
    assert!(refused.error.to_string().contains("from TLS to plain HTTP"), "{}", refused.error);
    assert!(!refused.error.to_string().contains("s3cret"), "{}", refused.error);
    assert_eq!(store.requests().len(), 0, "nobody was asked in plain");
    let loose = redirect::Policy { may_leave_tls: true, ..STRICT };
    assert_eq!(get(&client(loose), &server.url("/a"), &()).unwrap().location, location(&to));
}

#[test]
fn a_user_in_a_redirect_is_never_used() {
    let store = Server::start(pattern(10), Behaviour::default());
    let to = store.url_with_user("its:0wn", "/disk");
    let server = Server::start(vec![], redirecting(&[("/a", 302, &to)]));
    let refused = fault(get(&client(Headers::default()).0, &server.url("/a"), &()));
    assert!(refused.error.to_string().contains("a user of its own"), "{}", refused.error);
    assert!(!refused.error.to_string().contains("0wn"), "{}", refused.error);
    let may = redirect::Policy { may_name_users: true, ..STRICT };
    let may = Client::new(connect(vec![]), may, Headers::default(), Words::default());
    get(&may, &server.url("/a"), &()).unwrap();
    assert_eq!(store.requests()[0].header("authorization"), None);
}

#[test]
fn loops_end_and_an_answer_that_leads_nowhere_is_a_fault() {
    let client = client(Headers::default()).0;
    let server = Server::start(vec![], redirecting(&[("/a", 302, "/b"), ("/b", 302, "/a")]));
    let lost = fault(get(&client, &server.url("/a"), &()));
    assert!(lost.error.to_string().contains("more than 10 redirects"), "{}", lost.error);
    assert_eq!(server.requests().len(), redirect::MOST + 1);
    for to in ["file:///etc/passwd", "ftp://host/x", "http://[bad"] {
        let server = Server::start(vec![], redirecting(&[("/a", 302, to)]));
        let lost = fault(get(&client, &server.url("/a"), &()));
        assert_eq!((lost.kind, server.requests().len()), (FaultKind::Odd, 1), "{to}");
    }
}

#[test]
fn what_writes_is_sent_nowhere_else() {
    let store = Server::start(pattern(10), Behaviour::default());
    let server = Server::start(vec![], redirecting(&[("/a", 307, &store.url("/b"))]));
    let client = client(Headers::default()).0;
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        let payload = Payload::Bytes(bytes::Bytes::new());
        let odd = fault(send(&client, request(method, &server.url("/a"), payload, &()), IDLE));
        assert_eq!((odd.kind, odd.status), (FaultKind::Odd, Some(307)));
    }
    assert_eq!((server.requests().len(), store.requests().len()), (4, 0));
}
