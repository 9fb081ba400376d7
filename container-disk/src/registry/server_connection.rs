//! The connection to one server, and the messages of its errors.
//!
//! A request is made once. `mirror.rs` decides whether and where it is repeated.

use super::config::{Access, Advice, Scheme};
use super::credentials::ServerCredentials;
use super::mirror::State;
use crate::Error;
use fetch::authorize::{RegistryToken, Scopes};
use fetch::retry::{self, seconds};
use fetch::{
    Addresses, Client, Connect, Fault, FaultKind, Fetched, Location, Messages, Payload, Rejected, Request,
    Resolved, Silence, Unchecked, UnfollowedRedirect, is_loopback, redirect,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Rules for redirects by a registry.
pub(super) const REDIRECTS: redirect::Policy =
    redirect::Policy { may_leave_tls: false, may_name_users: false };

/// Timeout of one connection attempt. It is short, since another mirror may be asked.
const CONNECT: Duration = Duration::from_secs(10);

/// Maximum size of an error response that is read.
const LONGEST_DETAIL: usize = 16 << 10;

/// The connection to one server with one set of access settings.
pub(super) struct ServerConnection {
    pub(super) address: String,
    access: Access,
    base: tokio::sync::OnceCell<Location>,
    client: Client<RegistryToken>,
    state: Mutex<State>,
}

/// A request to a server.
pub(super) struct ServerRequest<'a> {
    pub(super) method: Method,
    pub(super) to: RequestTarget<'a>,
    /// The target of the last redirect for the same resource.
    pub(super) resolved: Option<&'a Resolved>,
    pub(super) headers: HeaderMap,
    pub(super) payload: Payload,
    pub(super) scopes: &'a Scopes,
    /// Status codes that count as success. Any other is a fault.
    pub(super) fine: &'a [u16],
    /// Time without any byte after which the request fails.
    pub(super) idle: Duration,
    /// Timeout of the response header. Longer than `idle` for large request bodies.
    pub(super) wait: Duration,
}

/// The target of a request.
pub(super) enum RequestTarget<'a> {
    /// A path on the server.
    Path(&'a str),
    /// A location from an earlier response.
    Known(&'a Location),
}

impl<'a> ServerRequest<'a> {
    pub(super) fn new(
        method: Method,
        to: RequestTarget<'a>,
        scopes: &'a Scopes,
        fine: &'a [u16],
        idle: Duration,
    ) -> Self {
        let headers = HeaderMap::new();
        let (resolved, payload) = (None, Payload::Nothing);
        ServerRequest { method, to, resolved, headers, payload, scopes, fine, idle, wait: idle }
    }

    /// Sets the timeout of the response header.
    pub(super) fn patient(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Result<Self, Fault> {
        let value = HeaderValue::try_from(value);
        let value = value.map_err(|_| {
            Fault::from_kind(FaultKind::Odd, format!("the value of the header {name} has invalid characters"))
        })?;
        self.headers.append(name, value);
        Ok(self)
    }

    pub(super) fn payload(mut self, payload: Payload) -> Self {
        self.payload = payload;
        self
    }
}

impl ServerConnection {
    pub(super) fn new(address: &str, access: &Access) -> ServerConnection {
        ServerConnection {
            address: address.to_owned(),
            access: access.clone(),
            base: tokio::sync::OnceCell::new(),
            client: Client::new(
                connect(access),
                REDIRECTS,
                RegistryToken::new(address, Arc::new(ServerCredentials::new(access, address))),
                RegistryMessages { address: address.to_owned(), advice: access.advice },
            ),
            state: Mutex::default(),
        }
    }

    /// Loads the credentials for a repository now, so that no file is read and no program run later.
    pub(super) fn ready(&self, repository: &str) {
        self.client.authorizer().ready(repository);
    }

    /// True if this server's error decides the kind of the final error. Mirrors of a cluster do not count: a
    /// user of the image cannot change that a mirror lacks the image or denies access to it.
    pub(super) fn decides(&self) -> bool {
        self.access.advice == Advice::Source
    }

    /// Reads or changes the health of this server.
    pub(super) fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends a request and returns the response, if its status is one of `fine`.
    pub(super) async fn request(&self, ask: ServerRequest<'_>) -> Result<Fetched, Fault> {
        let base = self.base(ask.idle).await?;
        let to = match ask.to {
            RequestTarget::Path(path) => base.at(path),
            RequestTarget::Known(location) => location.clone(),
        };
        let ServerRequest { method, resolved, headers, payload, scopes: scope, fine, idle, wait, .. } = ask;
        let request = Request { method, to, headers, payload, scope, fine, idle, excerpt: LONGEST_DETAIL };
        let mut silence = Silence::new(wait);
        match resolved {
            Some(resolved) => self.client.send_resolved(base, resolved, request, &mut silence).await,
            None => self.client.send(base, request, &mut silence).await,
        }
    }

    /// The base URL of the server. If the settings leave the protocol open, it is probed once.
    async fn base(&self, wait: Duration) -> Result<&Location, Fault> {
        self.base.get_or_try_init(|| self.find_base(wait)).await
    }

    async fn find_base(&self, wait: Duration) -> Result<Location, Fault> {
        let bad = || {
            Fault::from_kind(FaultKind::Odd, format!("{} is not a valid address of a server", self.address))
        };
        let tls = Location::base("https", &self.address).ok_or_else(bad)?;
        let plain = Location::base("http", &self.address).ok_or_else(bad)?;
        match self.access.scheme {
            Scheme::Plain => return Ok(plain),
            Scheme::Usual if !is_loopback(&self.address) => return Ok(tls),
            Scheme::Usual | Scheme::Either => {}
        }
        let speaks_tls = self.client.speaks_tls(&tls.at("/v2/"), wait).await?;
        Ok(if speaks_tls { tls } else { plain })
    }
}

/// The messages for errors of a registry.
struct RegistryMessages {
    address: String,
    advice: Advice,
}

impl Messages for RegistryMessages {
    fn unreachable(&self, place: &Location, why: FaultKind, e: reqwest::Error) -> Error {
        let error = Error::failed(format!("{} cannot be reached", self.address)).because(e);
        if why != FaultKind::Tls {
            return error;
        }
        let hint = self.advice.about_tls(&self.address);
        Error::failed(format!("{}: no secure connection could be made; {hint}", place.shown())).because(error)
    }

    fn silent(&self, place: &Location, idle: Duration) -> String {
        retry::silent(place.shown(), "an answer", idle).error.to_string()
    }

    fn rejected(&self, rejected: &Rejected<'_>) -> String {
        let Rejected { place, status, .. } = rejected;
        let says = format!("{}: the server answered {status}{}", place.shown(), detail(rejected.excerpt));
        let address = &self.address;
        match *status {
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                format!("{says}; check the proxy's user and password")
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if !rejected.own => {
                format!("{says}; {address} redirected to it, and credentials are not sent to another host")
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let wrong = "the credentials are wrong or have too few permissions; log in";
                let hint = if rejected.authorized { wrong } else { "log in" };
                format!("{says}; {hint}, {}", self.advice.about_login(address))
            }
            StatusCode::TOO_MANY_REQUESTS => {
                let after = rejected.retry_after;
                let wish = after.map(|after| format!("; it requests a pause of {} s", seconds(after)));
                format!("{says}{}", wish.unwrap_or_default())
            }
            _ => says,
        }
    }

    fn unfollowed(&self, place: &Location, lost: UnfollowedRedirect<'_>) -> Error {
        match lost {
            UnfollowedRedirect::Forbidden(refused) => not_followed(&refused).error,
            lost => Error::failed(lost.sentence(place.shown())),
        }
    }
}

fn connect(access: &Access) -> Connect {
    Connect {
        ca: access.ca.clone(),
        identity: access.client.clone(),
        is_private: false,
        unchecked: if access.insecure { Unchecked::Origin } else { Unchecked::None },
        timeout: CONNECT,
        addresses: Addresses::Any,
        kept: usize::MAX,
        hint: "install the system's CA certificates, or name the registry's in registries.toml (ca = …)",
    }
}

/// The fault of a redirect that is not followed. Another mirror cannot help here.
pub(super) fn not_followed(refused: &redirect::ForbiddenRedirect) -> Fault {
    Fault::new(FaultKind::Odd, Error::refused(refused.to_string()))
}

/// The registry's own error message, escaped and shortened: `; DENIED: no access`.
fn detail(body: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Errors {
        errors: Vec<One>,
    }
    #[derive(serde::Deserialize)]
    struct One {
        code: String,
        #[serde(default)]
        message: String,
    }
    let errors = serde_json::from_slice::<Errors>(body).ok();
    let Some(first) = errors.and_then(|errors| errors.errors.into_iter().next()) else {
        return String::new();
    };
    printable::text(&format!(" ({}: {})", first.code, first.message), 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_registry_says_does_nothing_on_a_terminal() {
        let body = |message: &str| {
            let one = serde_json::json!({ "code": "DENIED", "message": message });
            serde_json::json!({ "errors": [one] }).to_string()
        };
        assert_eq!(detail(body("no access").as_bytes()), " (DENIED: no access)");
        assert_eq!(detail(b"<html>"), "");
        let said = detail(body("a\u{1b}[31m\u{202e}b\u{9b}c").as_bytes());
        assert_eq!(said, " (DENIED: a [31m b c)");
        assert!(detail(body(&"x".repeat(9000)).as_bytes()).chars().count() < 260);
    }
}
