//! The rules of the package, tested with faulty servers: allowed redirects, receivers of credentials, kinds
//! of faults, and that a file read in ranges is complete or an error.

// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used)]

mod faults;
mod login;
mod ranged;
mod redirects;

use fetch::authorize::Authorizer;
use fetch::{
    Addresses, Client, Connect, Error, Fault, FaultKind, Fetched, Location, Messages, Payload, Rejected,
    Request, Silence, Unchecked, UnfollowedRedirect, redirect, runtime,
};
use reqwest::Method;
use reqwest::header::{HeaderMap, HeaderValue, RANGE};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tests::http::Behaviour;

/// Long enough that no test waits for it but the one that means to.
const IDLE: Duration = Duration::from_secs(20);

const STRICT: redirect::Policy = redirect::Policy { may_leave_tls: false, may_name_users: false };

/// The shortest messages; records if the last rejected request had credentials.
#[derive(Clone, Default)]
struct Words {
    authorized: Arc<AtomicBool>,
    own: Arc<AtomicBool>,
}

impl Messages for Words {
    fn unreachable(&self, place: &Location, _: FaultKind, e: reqwest::Error) -> Error {
        Error::failed(format!("{}: unreachable", place.shown())).because(e)
    }

    fn silent(&self, place: &Location, _: Duration) -> String {
        format!("{}: silent", place.shown())
    }

    fn rejected(&self, rejected: &Rejected<'_>) -> String {
        self.authorized.store(rejected.authorized, Relaxed);
        self.own.store(rejected.own, Relaxed);
        format!("{}: {}", rejected.place.shown(), rejected.status)
    }

    fn unfollowed(&self, place: &Location, lost: UnfollowedRedirect<'_>) -> Error {
        Error::refused(lost.sentence(place.shown()))
    }
}

fn connect(ca: Vec<PathBuf>) -> Connect {
    Connect {
        ca,
        identity: None,
        is_private: false,
        unchecked: Unchecked::None,
        timeout: IDLE,
        addresses: Addresses::Any,
        kept: 1,
        hint: "look",
    }
}

fn client<A: Authorizer>(authorizer: A) -> (Client<A>, Words) {
    let words = Words::default();
    (Client::new(connect(vec![]), STRICT, authorizer, words.clone()), words)
}

fn location(url: &str) -> Location {
    Location::parse(url).unwrap().0
}

fn redirecting(redirects: &[(&str, u16, &str)]) -> Behaviour {
    let redirects = redirects.iter().map(|(path, status, to)| ((*path).into(), *status, (*to).into()));
    Behaviour { redirects: redirects.collect(), ..Behaviour::default() }
}

fn request<'a, S: ?Sized>(method: Method, url: &str, payload: Payload, scope: &'a S) -> Request<'a, S> {
    let headers = HeaderMap::from_iter([(RANGE, HeaderValue::from_static("bytes=0-3"))]);
    let to = location(url);
    Request { method, to, headers, payload, scope, fine: &[200, 206], idle: IDLE, excerpt: 1024 }
}

/// A GET of the first four bytes from the server that the address names.
fn get<A: Authorizer>(client: &Client<A>, url: &str, scope: &A::Scope) -> Result<Fetched, Fault> {
    send(client, request(Method::GET, url, Payload::Nothing, scope), IDLE)
}

fn send<A: Authorizer>(
    client: &Client<A>,
    request: Request<'_, A::Scope>,
    wait: Duration,
) -> Result<Fetched, Fault> {
    let origin = request.to.clone();
    let mut silence = Silence::new(wait);
    runtime().unwrap().block_on(client.send(&origin, request, &mut silence))
}

/// The fault; panics if there is an answer.
fn fault(answer: Result<Fetched, Fault>) -> Fault {
    match answer {
        Ok(answer) => panic!("an answer: {}", answer.response.status()),
        Err(fault) => fault,
    }
}
