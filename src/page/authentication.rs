//! Authentication of requests: only the browser that has exchanged the token for a session may use the page.
//! Pure, but for the secrets.
//!
//! | threat | check |
//! |---|---|
//! | a name that leads to 127.0.0.1 (DNS rebinding) | `Host` is this address and port |
//! | a form, a script or a WebSocket of another site | `Origin` is this page's, and is required unless the request only reads; `Sec-Fetch-Site` |
//! | another user of this computer | the session; and the server checks the owner of the connecting program (`relay.rs`) |
//! | a user or program that reads the address later | the token is good once |
//! | a web server at another port of this address (a guest of `coracle run -p`) | the session is not a cookie, since cookies are sent to all ports |
//!
//! The page keeps the session in the storage of its origin, which includes the port, and sends it in
//! `Authorization`. A WebSocket cannot have that header, and has the session in the name of a subprotocol.

use crate::error::{Error, Result};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, header};
use std::io::Read as _;
use std::sync::{Mutex, PoisonError};

/// Error message for a request without a session.
const STRANGER: &str = "this page is open to the browser that began with the address which 'coracle ui' has printed; \
    that address can be used once: end 'coracle ui', and start it again";
const ELSEWHERE: &str = "this request comes from another site, or by another name: open the address which \
    'coracle ui' has printed";

/// Subprotocol of the page's WebSockets.
pub(super) const SUBPROTOCOL: &str = "coracle";
/// Prefix of the second subprotocol, which carries the session and is never chosen.
const SUBPROTOCOL_SESSION: &str = "coracle.session.";

/// Token and session of the page.
pub(super) struct Authenticator {
    port: u16,
    /// Token, until it is used once.
    token: Mutex<Option<String>>,
    session: String,
}

/// Result of the authentication of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The request has the token. The response carries this key for all further requests.
    Welcome(String),
    /// The request has the session.
    Known,
    /// The request has no session, and may read only the public files of the page. The sentence refuses
    /// anything else.
    Anyone(&'static str),
    /// The request is refused, with this sentence.
    Refused(&'static str),
}

impl Authenticator {
    /// Secrets for a page at this port. Also returns the token for its address.
    pub(super) fn new(port: u16) -> Result<(Authenticator, String)> {
        let token = secret()?;
        let authenticator =
            Authenticator { port, token: Mutex::new(Some(token.clone())), session: secret()? };
        Ok((authenticator, token))
    }

    /// Authenticates a request by its header.
    pub(super) fn authenticate(&self, head: &Parts) -> Verdict {
        let says = |name: HeaderName| one(&head.headers, name);
        let host = format!("127.0.0.1:{}", self.port);
        let is_here = |said: &str| said == host || self.port == 80 && said == "127.0.0.1";
        let names_us = says(header::HOST).is_ok_and(|said| said.is_some_and(is_here))
            && head.uri.authority().is_none_or(|authority| is_here(authority.as_str()));
        let only_reads = head.method == Method::GET && !head.headers.contains_key(header::UPGRADE);
        let origin = format!("http://{host}");
        let is_ours = says(header::ORIGIN).is_ok_and(|said| said.map_or(only_reads, |said| said == origin));
        if !names_us || !is_ours {
            return Verdict::Refused(ELSEWHERE);
        }
        // The address may be opened by a link of another site, like a terminal in the browser.
        let is_page = only_reads && head.uri.path() == "/";
        if is_page && self.has_token(head.uri.query().unwrap_or_default()) {
            return Verdict::Welcome(self.session.clone());
        }
        let site = says(HeaderName::from_static("sec-fetch-site"));
        if !site.is_ok_and(|said| said.is_none_or(|said| ["same-origin", "none"].contains(&said))) {
            return Verdict::Refused(ELSEWHERE);
        }
        match self.has_session(&head.headers, only_reads) {
            true => Verdict::Known,
            false => Verdict::Anyone(STRANGER),
        }
    }

    /// True if the headers have the session.
    fn has_session(&self, headers: &HeaderMap, only_reads: bool) -> bool {
        let bearer = one(headers, header::AUTHORIZATION).ok().flatten();
        if bearer.and_then(|said| said.strip_prefix("Bearer ")).is_some_and(|said| same(said, &self.session))
        {
            return true;
        }
        let protocols = one(headers, header::SEC_WEBSOCKET_PROTOCOL).ok().flatten().filter(|_| !only_reads);
        let mut words = protocols.unwrap_or_default().split(',').map(str::trim);
        words.any(|word| word.strip_prefix(SUBPROTOCOL_SESSION).is_some_and(|said| same(said, &self.session)))
    }

    /// True if the query has the token, which is spent by that.
    fn has_token(&self, query: &str) -> bool {
        let Some(said) = query.split('&').find_map(|pair| pair.strip_prefix("token=")) else { return false };
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let is_right = token.as_deref().is_some_and(|token| same(token, said));
        if is_right {
            *token = None;
        }
        is_right
    }
}

/// The value of a header; an error if the header is repeated, since neither value can be trusted.
fn one(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, ()> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        (Some(_), Some(_)) => Err(()),
    }
}

/// Compares two secrets in constant time.
fn same(one: &str, other: &str) -> bool {
    let differs = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differs) == 0
}

/// A random secret of 32 bytes in base64url.
pub(super) fn secret() -> Result<String> {
    let mut bytes = [0; 32];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|e| Error::io("cannot make a secret from /dev/urandom", e))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn head(line: &str, headers: &[(&str, &str)]) -> Parts {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    const HOST: (&str, &str) = ("host", "127.0.0.1:4000");
    const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:4000");

    fn refused(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Refused(_) | Verdict::Anyone(_))
    }

    #[test]
    fn the_token_is_good_once_and_buys_a_session() {
        let (authenticator, token) = Authenticator::new(4000).unwrap();
        let page = head(&format!("GET /?token={token}"), &[HOST]);
        assert!(refused(&authenticator.authenticate(&head("GET /?token=x", &[HOST]))));
        assert!(refused(&authenticator.authenticate(&head(&format!("GET /api/vms?token={token}"), &[HOST]))));
        assert!(refused(
            &authenticator.authenticate(&head(&format!("POST /?token={token}"), &[HOST, ORIGIN]))
        ));
        let Verdict::Welcome(session) = authenticator.authenticate(&page) else { panic!("not let in") };
        assert!(refused(&authenticator.authenticate(&page)), "a second time");
        let judged =
            |name, value: &str| authenticator.authenticate(&head("GET /api/vms", &[HOST, (name, value)]));
        assert_eq!(judged("authorization", &format!("Bearer {session}")), Verdict::Known);
        for (name, value) in [
            ("authorization", format!("Bearer {token}")),
            ("authorization", "Bearer ".to_owned()),
            ("authorization", session.clone()),
            // Headers that other ports of this address see, or that a page of another site may add.
            ("cookie", format!("coracle-4000={session}; session={session}")),
            ("sec-websocket-protocol", format!("coracle, coracle.session.{session}")),
        ] {
            assert!(matches!(judged(name, &value), Verdict::Anyone(_)), "{name}: {value}");
        }
    }

    #[test]
    fn other_names_and_other_sites_are_refused_whatever_they_have() {
        let (authenticator, token) = Authenticator::new(4000).unwrap();
        let bearer = format!("Bearer {}", authenticator.session);
        let session = ("authorization", bearer.as_str());
        let known = |line: &str, headers: &[(&str, &str)]| {
            authenticator.authenticate(&head(line, &[headers, &[session]].concat())) == Verdict::Known
        };
        let upgrade = ("upgrade", "websocket");
        assert!(known("GET /api/vms", &[HOST]) && known("GET /api/vms", &[HOST, ORIGIN]));
        assert!(known("POST /api/vms/a/b/stop", &[HOST, ORIGIN, ("sec-fetch-site", "same-origin")]));
        assert!(known("GET /ws/console/a/b", &[HOST, ORIGIN, upgrade]));
        assert!(known("GET /", &[HOST, ("sec-fetch-site", "none")]));
        // A WebSocket has its session beside the name of its protocol.
        let protocols = format!("coracle, coracle.session.{}", authenticator.session);
        let socket = |more: &[(&str, &str)]| {
            let headers = [&[HOST, upgrade, ("sec-websocket-protocol", &protocols)], more].concat();
            authenticator.authenticate(&head("GET /ws/console/a/b", &headers))
        };
        assert_eq!(socket(&[ORIGIN]), Verdict::Known);
        assert!(refused(&socket(&[])) && refused(&socket(&[("origin", "http://127.0.0.1:4001")])));
        for (line, headers) in [
            ("GET /", &[][..]),
            ("GET /", &[("host", "evil.example:4000")]),
            ("GET /", &[("host", "localhost:4000")]),
            ("GET /", &[("host", "127.0.0.1")]),
            ("GET /", &[("host", "127.0.0.1:4001")]),
            ("GET /", &[HOST, HOST]),
            ("GET http://evil.example/", &[HOST]),
            ("GET /", &[HOST, ("sec-fetch-site", "cross-site")]),
            ("GET /", &[HOST, ("sec-fetch-site", "same-site")]),
            ("GET /api/vms", &[HOST, ("origin", "http://evil.example")]),
            ("GET /api/vms", &[HOST, ("origin", "null")]),
            ("GET /api/vms", &[HOST, ("origin", "http://127.0.0.1:4001")]),
            ("GET /api/vms", &[HOST, ("sec-fetch-site", "cross-site")]),
            ("GET /api/vms", &[HOST, ("sec-fetch-site", "same-site")]),
            ("POST /api/vms/a/b/stop", &[HOST]),
            ("GET /ws/console/a/b", &[HOST, upgrade]),
            ("GET /ws/console/a/b", &[HOST, upgrade, ("origin", "http://evil.example")]),
        ] {
            assert!(!known(line, headers), "{line} {headers:?}");
            assert!(
                matches!(authenticator.authenticate(&head(line, headers)), Verdict::Refused(_)),
                "{line} {headers:?}"
            );
        }
        let rebound = head(&format!("GET /?token={token}"), &[("host", "evil.example:4000")]);
        assert!(refused(&authenticator.authenticate(&rebound)));
        let elsewhere = [HOST, ("sec-fetch-site", "cross-site")];
        assert!(matches!(
            authenticator.authenticate(&head(&format!("GET /?token={token}"), &elsewhere)),
            Verdict::Welcome(_)
        ));
    }

    #[test]
    fn secrets_are_long_and_never_the_same() {
        let (one, other) = (secret().unwrap(), secret().unwrap());
        assert!(one.len() == 43 && one != other && same(&one, &one) && !same(&one, &other));
        assert!(!same("", "a") && !same(&one, &one[1..]));
    }
}
