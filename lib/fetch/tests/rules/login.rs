//! Credentials go to the server they are for, and to no other origin; a challenge is answered once.

use super::*;
use fetch::authorize::{Credential, Credentials, Headers, Login, RegistryToken, Scopes};
use fetch::{Result, Secret};
use std::sync::atomic::AtomicUsize;
use tests::http::{Request as Asked, Server, pattern};

/// A user, and the number of look-ups.
struct Known {
    password: &'static str,
    asked: Arc<AtomicUsize>,
}

impl Credentials for Known {
    fn find(&self, _: &str) -> Result<Option<Credential>> {
        self.asked.fetch_add(1, Relaxed);
        Ok(Some(Credential::Basic("me".into(), Secret::new(self.password))))
    }
}

fn registry(password: &'static str) -> (RegistryToken, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let known = Known { password, asked: Arc::clone(&asked) };
    (RegistryToken::new("registry", Arc::new(known)), asked)
}

fn headers() -> Headers {
    let given = [("X-Key".to_owned(), "k3y".to_owned())];
    Headers::new(&given, Some(&Login::Bearer(Secret::new("t0ken")))).unwrap()
}

fn guarded() -> Behaviour {
    Behaviour { basic: Some(("me".into(), "pass".into())), ..Behaviour::default() }
}

fn private(request: &Asked) -> (Option<&str>, Option<&str>) {
    (request.header("authorization"), request.header("x-key"))
}

#[test]
fn another_origin_is_told_nothing_and_the_first_again() {
    let server = Server::start(pattern(10), Behaviour::default());
    let back = server.url("/back");
    // The same host and another port: that is another server.
    let store = Server::start(vec![], redirecting(&[("/disk", 302, &back)]));
    server.set(redirecting(&[("/a", 302, &store.url("/disk"))]));
    assert!(get(&client(headers()).0, &server.url("/a"), &()).unwrap().redirected);
    let told = (Some("Bearer t0ken"), Some("k3y"));
    assert_eq!(server.requests().iter().map(private).collect::<Vec<_>>(), [told, told]);
    assert_eq!(store.requests().iter().map(private).collect::<Vec<_>>(), [(None, None)]);
}

#[test]
fn a_request_that_begins_elsewhere_is_told_nothing_there() {
    let (server, store) =
        (Server::start(vec![], Behaviour::default()), Server::start(pattern(10), guarded()));
    let (client, words) = client(headers());
    // The same for a location that an earlier redirect led to.
    let ask = request(Method::GET, &store.url("/disk"), Payload::Nothing, &());
    let origin = location(&server.url("/a"));
    let mut silence = Silence::new(IDLE);
    let denied = fault(runtime().unwrap().block_on(client.send(&origin, ask, &mut silence)));
    assert_eq!((denied.kind, denied.status), (FaultKind::Denied, Some(401)));
    assert!(!words.own.load(Relaxed) && !words.authorized.load(Relaxed));
    assert_eq!(private(&store.requests()[0]), (None, None));
}

#[test]
fn a_challenge_of_another_origin_is_not_answered() {
    let store = Server::start(pattern(10), guarded());
    let server = Server::start(vec![], redirecting(&[("/a", 302, &store.url("/disk"))]));
    let (authorizer, asked) = registry("pass");
    let (client, words) = client(authorizer);
    let denied = fault(get(&client, &server.url("/a"), &Scopes::pull("r")));
    assert_eq!((denied.kind, denied.status), (FaultKind::Denied, Some(401)));
    assert!(!words.own.load(Relaxed));
    assert_eq!(asked.load(Relaxed), 0, "nobody even looked for credentials");
    assert_eq!(store.requests().len(), 1);
    assert_eq!(private(&store.requests()[0]), (None, None));
}

#[test]
fn a_challenge_is_answered_once_and_what_it_wants_goes_along_from_then_on() {
    let server = Server::start(pattern(10), guarded());
    let (authorizer, asked) = registry("pass");
    let (client, _) = client(authorizer);
    for _ in 0..2 {
        get(&client, &server.url("/a"), &Scopes::pull("r")).unwrap();
    }
    let told: Vec<_> = server.requests().iter().map(|r| r.header("authorization").is_some()).collect();
    assert_eq!((told, asked.load(Relaxed)), (vec![false, true, true], 1));
}

#[test]
fn a_wrong_password_is_sent_once() {
    let server = Server::start(pattern(10), guarded());
    let (client, words) = client(registry("wrong").0);
    let denied = fault(get(&client, &server.url("/a"), &Scopes::pull("r")));
    assert_eq!((denied.kind, denied.kind.is_transient()), (FaultKind::Denied, false));
    assert!(words.own.load(Relaxed) && words.authorized.load(Relaxed));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn a_body_that_is_gone_is_not_sent_again_after_a_challenge() {
    let server = Server::start(pattern(10), guarded());
    let (client, _) = client(registry("pass").0);
    let scopes = Scopes::push("r");
    let once = |body| request(Method::POST, &server.url("/a"), body, &scopes);
    let cut = fault(send(&client, once(Payload::Once(Some(reqwest::Body::default()))), IDLE));
    // As after a broken connection: the caller begins again, and by then the challenge is known.
    assert_eq!((cut.kind, cut.kind.is_transient(), server.requests().len()), (FaultKind::Cut, true, 1));
    send(&client, once(Payload::Bytes(bytes::Bytes::new())), IDLE).unwrap();
    assert_eq!(server.requests().len(), 2);
}
