//! The end of the redirects of one file. It is asked first from then on, until it no longer gives the file
//! (links to object stores expire).

use crate::redirect::Trail;
use crate::{Fault, FaultKind, Location};
use std::sync::{Mutex, PoisonError};

/// The end of the redirects, if there were any.
#[derive(Debug, Default)]
pub struct Resolved(Mutex<Option<RedirectEnd>>);

/// The end of a chain of redirects, and the servers passed: the rule of redirects holds for later redirects
/// of this end too.
#[derive(Debug, Clone)]
pub(crate) struct RedirectEnd {
    pub(crate) to: Location,
    pub(crate) trail: Trail,
}

impl Resolved {
    pub(crate) fn get(&self) -> Option<RedirectEnd> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Remembers the end of the chain that answered a request for `asked`.
    pub(crate) fn answered(&self, asked: &Location, end: RedirectEnd) {
        self.set((end.to != *asked).then_some(end));
    }

    /// Forgets the end, which gave no answer. True if the first server is to be asked at once for another:
    /// not if a pause was requested, and not if the time is up.
    pub(crate) fn failed(&self, fault: &Fault) -> bool {
        self.set(None);
        fault.retry_after.is_none() && !matches!(fault.kind, FaultKind::Busy | FaultKind::Silent)
    }

    fn set(&self, end: Option<RedirectEnd>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorize::Headers;
    use crate::{
        Client, Connect, Error, Fetched, Messages, Payload, Rejected, Request, Silence, Unchecked,
        UnfollowedRedirect, redirect, runtime,
    };
    use ::tests::http::{Behaviour, Fail, Server, pattern};
    use reqwest::Method;
    use reqwest::header::HeaderMap;
    use std::time::Duration;

    const IDLE: Duration = Duration::from_secs(20);

    struct Words;

    impl Messages for Words {
        fn unreachable(&self, _: &Location, _: FaultKind, e: reqwest::Error) -> Error {
            Error::failed("unreachable").because(e)
        }

        fn silent(&self, _: &Location, _: Duration) -> String {
            "silent".into()
        }

        fn rejected(&self, rejected: &Rejected<'_>) -> String {
            rejected.status.to_string()
        }

        fn unfollowed(&self, place: &Location, lost: UnfollowedRedirect<'_>) -> Error {
            Error::refused(lost.sentence(place.shown()))
        }
    }

    fn get(server: &Server, resolved: &Resolved) -> Result<Fetched, Fault> {
        let unchecked = Unchecked::None;
        let connect = Connect {
            ca: vec![],
            identity: None,
            is_private: false,
            unchecked,
            timeout: IDLE,
            addresses: crate::Addresses::Any,
            kept: 1,
            hint: "",
        };
        let client = Client::new(connect, redirect::Policy::default(), Headers::default(), Words);
        let to = location(&server.url("/a"));
        let request = Request {
            method: Method::GET,
            to: to.clone(),
            headers: HeaderMap::new(),
            payload: Payload::Nothing,
            scope: &(),
            fine: &[200],
            idle: IDLE,
            excerpt: 0,
        };
        let mut silence = Silence::new(IDLE);
        runtime().unwrap().block_on(client.send_resolved(&to, resolved, request, &mut silence))
    }

    fn location(url: &str) -> Location {
        Location::parse(url).unwrap().0
    }

    fn leading(from: &str, to: &str) -> Behaviour {
        Behaviour { redirects: vec![(from.into(), 302, to.into())], ..Behaviour::default() }
    }

    #[test]
    fn the_end_of_a_chain_is_asked_first_until_it_fails() {
        let store = Server::start(pattern(10), Behaviour::default());
        let server = Server::start(pattern(20), leading("/a", &store.url("/b")));
        let resolved = Resolved::default();
        for _ in 0..3 {
            assert_eq!(get(&server, &resolved).unwrap().response.content_length(), Some(10));
        }
        assert_eq!((server.requests().len(), store.requests().len()), (1, 3));
        // The link has expired, and the server gives the file itself.
        store.set(Behaviour { wanted_header: Some(("x".into(), "y".into())), ..Behaviour::default() });
        server.set(Behaviour::default());
        for _ in 0..2 {
            assert_eq!(get(&server, &resolved).unwrap().response.content_length(), Some(20));
        }
        assert_eq!((server.requests().len(), store.requests().len()), (3, 4));
    }

    #[test]
    fn what_lies_behind_a_place_is_kept_with_it() {
        let inside = Server::start(pattern(10), Behaviour::default());
        let store = Server::start(vec![], leading("/b", &inside.url("/secret")));
        let fail = Fail { status: 404, times: u32::MAX, skip: 0, retry_after: None };
        let server = Server::start(pattern(20), Behaviour { fail: Some(fail), ..Behaviour::default() });
        for (authorized, asked) in [(true, 0), (false, 1)] {
            let resolved = Resolved::default();
            // A server outside led here, which cannot be had on one machine.
            let trail = Trail { authorized, outside: true };
            resolved.set(Some(RedirectEnd { to: location(&store.url("/b")), trail }));
            assert_eq!(get(&server, &resolved).is_ok(), !authorized);
            assert_eq!(inside.requests().len(), asked);
        }
    }
}
