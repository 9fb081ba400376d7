//! Kinds of faults, by the behaviour of a server.

use super::*;
use fetch::authorize::Headers;
use fetch::body::{self, Wait};
use fetch::{Attempts, ErrorKind, Retry};
use tests::http::{Authority, Fail, Server, pattern};

#[test]
fn each_answer_has_its_class_and_a_pause_counts_where_another_try_helps() {
    let (client, _) = client(Headers::default());
    let pause = Some(Duration::from_secs(7));
    for (status, why, again, retry_after) in [
        (400, FaultKind::Odd, false, None),
        (401, FaultKind::Denied, false, None),
        (403, FaultKind::Denied, false, None),
        (404, FaultKind::Missing, false, None),
        (407, FaultKind::Denied, false, None),
        (408, FaultKind::Broken, true, pause),
        (410, FaultKind::Missing, false, None),
        (429, FaultKind::Busy, true, pause),
        (500, FaultKind::Broken, true, pause),
        (503, FaultKind::Broken, true, pause),
    ] {
        let fail = Fail { status, times: 1, skip: 0, retry_after: Some("7".into()) };
        let server = Server::start(pattern(10), Behaviour { fail: Some(fail), ..Behaviour::default() });
        let found = fault(get(&client, &server.url("/a"), &()));
        assert_eq!((found.kind, found.status), (why, Some(status)));
        assert_eq!((!Attempts::is_final(&found), found.retry_after), (again, retry_after), "{status}");
        assert_eq!(
            server.requests().len(),
            1,
            "{status}: a request is made once; its caller decides the rest"
        );
    }
}

#[test]
fn no_answer_is_told_from_an_answer() {
    let (client, _) = client(Headers::default());
    let gone = Server::start(vec![], Behaviour::default());
    let url = gone.url("/a");
    drop(gone);
    let refused = fault(get(&client, &url, &()));
    assert_eq!(
        (refused.kind, refused.status, Attempts::is_final(&refused)),
        (FaultKind::Unreachable, None, false)
    );

    let server = Server::start_tls(pattern(10), Behaviour::default(), &Authority::new());
    let untrusted = fault(get(&client, &server.url("/a"), &()));
    assert_eq!((untrusted.kind, Attempts::is_final(&untrusted)), (FaultKind::Tls, true));
    assert_eq!(server.requests().len(), 0);

    let mute = Server::start(pattern(10), Behaviour { mute: 1, ..Behaviour::default() });
    let ask = request(Method::GET, &mute.url("/a"), Payload::Nothing, &());
    let silent = fault(send(&client, ask, Duration::from_millis(50)));
    assert_eq!(
        (silent.kind, Attempts::is_final(&silent)),
        (FaultKind::Silent, true),
        "it was waited for already"
    );
}

#[test]
fn whether_a_server_speaks_tls_is_found_out_and_a_false_certificate_is_no_reason_for_plain() {
    let (client, _) = client(Headers::default());
    let speaks = |server: &Server| {
        let tls = location(&server.url("/v2/").replacen("http://", "https://", 1));
        runtime().unwrap().block_on(client.speaks_tls(&tls, IDLE))
    };
    let plain = Server::start(vec![], Behaviour::default());
    assert!(!speaks(&plain).unwrap());
    let tls = Server::start_tls(vec![], Behaviour::default(), &Authority::new());
    assert_eq!(speaks(&tls).unwrap_err().kind, FaultKind::Tls);
}

#[test]
fn only_what_passes_is_tried_again_and_only_so_often() {
    let retry = Retry { retries: 2, first_pause: Duration::ZERO, idle: IDLE };
    let (client, _) = client(Headers::default());
    for (status, requests, kind) in
        [(503, 3, ErrorKind::Failed), (404, 1, ErrorKind::NotFound), (403, 1, ErrorKind::Auth)]
    {
        let fail = Fail { status, times: u32::MAX, skip: 0, retry_after: Some("0".into()) };
        let server = Server::start(pattern(10), Behaviour { fail: Some(fail), ..Behaviour::default() });
        let mut attempts = Attempts::new("it", retry, 0);
        let error = loop {
            let found = fault(get(&client, &server.url("/a"), &()));
            if let Err(e) = runtime().unwrap().block_on(attempts.pause(0, found)) {
                break e;
            }
        };
        assert_eq!((server.requests().len(), error.kind()), (requests, kind), "{status}");
    }
}

#[test]
fn a_body_that_trickles_ends_in_time() {
    // Never quiet for the idle time, and not complete for a quarter of an hour.
    let server = Server::start(pattern(4 << 20), Behaviour { rate: Some(4 << 10), ..Behaviour::default() });
    let mut ask = request(Method::GET, &server.url("/a"), Payload::Nothing, &());
    ask.headers = HeaderMap::new();
    let mut answer = send(&client(Headers::default()).0, ask, IDLE).ok().unwrap();
    let wait = Wait { idle: IDLE, all: Duration::from_millis(500) };
    let body = body::short(&mut answer.response, 8 << 20, wait, "it");
    let slow = runtime().unwrap().block_on(body).unwrap_err();
    assert_eq!(
        (slow.kind, slow.error.to_string()),
        (FaultKind::Slow, "it: the answer was not complete after 0.5 s".into())
    );
    assert_eq!(Wait::with_idle(IDLE).all, 2 * IDLE);
}
