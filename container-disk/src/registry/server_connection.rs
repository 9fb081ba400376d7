//! One server: how it is spoken to, and what is said about it when it does not answer.
//!
//! A request is made once; whether and where it is made again is decided by `mirror.rs`.

use super::config::{Access, Advice, Scheme};
use super::credentials::Known;
use super::mirror::State;
use crate::Error;
use fetch::authorize::{RegistryToken, Scopes};
use fetch::retry::{self, seconds};
use fetch::{
    Addresses, Client, Connect, Fault, Fetched, Location, Lost, Messages, Payload, Rejected, Request,
    Resolved, Silence, Unchecked, Why, is_loopback, redirect,
};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, StatusCode};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where a registry may send us: no further than the rule says.
pub(super) const REDIRECTS: redirect::Policy =
    redirect::Policy { may_leave_tls: false, may_name_users: false };

/// How long one attempt to connect may take: somebody else may be asked.
const CONNECT: Duration = Duration::from_secs(10);

/// What a server says about an error is not longer than this.
const LONGEST_DETAIL: usize = 16 << 10;

/// A server, reached in one way.
pub(super) struct ServerConnection {
    pub(super) address: String,
    access: Access,
    base: tokio::sync::OnceCell<Location>,
    client: Client<RegistryToken>,
    state: Mutex<State>,
}

/// A request.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) to: Where<'a>,
    /// Where earlier requests for the same were led.
    pub(super) resolved: Option<&'a Resolved>,
    pub(super) headers: HeaderMap,
    pub(super) payload: Payload,
    pub(super) scopes: &'a Scopes,
    /// What counts as an answer; everything else is a fault.
    pub(super) fine: &'a [u16],
    /// How long nothing may come.
    pub(super) idle: Duration,
    /// How long the head of the answer may take, which is longer where the request is.
    pub(super) wait: Duration,
}

/// Where it goes.
pub(super) enum Where<'a> {
    /// A path of the server.
    Path(&'a str),
    /// What the server told us.
    Known(&'a Location),
}

impl<'a> Ask<'a> {
    pub(super) fn new(
        method: Method,
        to: Where<'a>,
        scopes: &'a Scopes,
        fine: &'a [u16],
        idle: Duration,
    ) -> Self {
        let headers = HeaderMap::new();
        let (resolved, payload) = (None, Payload::Nothing);
        Ask { method, to, resolved, headers, payload, scopes, fine, idle, wait: idle }
    }

    /// The answer may take so long.
    pub(super) fn patient(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// With one more header.
    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Result<Self, Fault> {
        let value = HeaderValue::try_from(value);
        let value =
            value.map_err(|_| Fault::because(Why::Odd, format!("this cannot be sent as a header {name}")))?;
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
                RegistryToken::new(address, Arc::new(Known::new(access, address))),
                Words { address: address.to_owned(), advice: access.advice },
            ),
            state: Mutex::default(),
        }
    }

    /// Looks up who we are to it for a repository, so that nothing need be read or started later.
    pub(super) fn ready(&self, repository: &str) {
        self.client.authorizer().ready(repository);
    }

    /// Whether it is what this server says of an image that decides what becomes of the work: a mirror of a cluster that has not
    /// got the image, or gives it to others alone, is nothing that the image's user could mend.
    pub(super) fn decides(&self) -> bool {
        self.access.advice == Advice::Source
    }

    /// What everybody knows of this server.
    pub(super) fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends a request and gives its answer, if it is one of those that are fine.
    pub(super) async fn request(&self, ask: Ask<'_>) -> Result<Fetched, Fault> {
        let base = self.base(ask.idle).await?;
        let to = match ask.to {
            Where::Path(path) => base.at(path),
            Where::Known(location) => location.clone(),
        };
        let Ask { method, resolved, headers, payload, scopes: scope, fine, idle, wait, .. } = ask;
        let request = Request { method, to, headers, payload, scope, fine, idle, excerpt: LONGEST_DETAIL };
        let mut silence = Silence::new(wait);
        match resolved {
            Some(resolved) => self.client.send_resolved(base, resolved, request, &mut silence).await,
            None => self.client.send(base, request, &mut silence).await,
        }
    }

    /// How the server is spoken to. Where that is not said, it is found out once.
    async fn base(&self, wait: Duration) -> Result<&Location, Fault> {
        self.base.get_or_try_init(|| self.find_base(wait)).await
    }

    async fn find_base(&self, wait: Duration) -> Result<Location, Fault> {
        let bad = || Fault::because(Why::Odd, format!("{} is not an address", self.address));
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

/// What is said about a registry.
struct Words {
    address: String,
    advice: Advice,
}

impl Messages for Words {
    fn unreachable(&self, place: &Location, why: Why, e: reqwest::Error) -> Error {
        let error = Error::failed(format!("{} cannot be reached", self.address)).because(e);
        if why != Why::Tls {
            return error;
        }
        let hint = self.advice.about_tls(&self.address);
        Error::failed(format!("{}: no safe connection could be made; {hint}", place.shown())).because(error)
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
                format!("{says}; {address} sent us there, without credentials")
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let wrong = "the credentials are wrong, or not enough; log in";
                let hint = if rejected.authorized { wrong } else { "log in" };
                format!("{says}; {hint}, {}", self.advice.about_login(address))
            }
            StatusCode::TOO_MANY_REQUESTS => {
                let after = rejected.retry_after;
                let wish = after.map(|after| format!("; it asks for a pause of {} s", seconds(after)));
                format!("{says}{}", wish.unwrap_or_default())
            }
            _ => says,
        }
    }

    fn lost(&self, place: &Location, lost: Lost<'_>) -> Error {
        match lost {
            Lost::Refused(refused) => not_followed(&refused).error,
            lost => Error::failed(lost.sentence(place.shown())),
        }
    }
}

fn connect(access: &Access) -> Connect {
    Connect {
        ca: access.ca.clone(),
        identity: access.client.clone(),
        is_private: false,
        unchecked: if access.insecure { Unchecked::Origin } else { Unchecked::Nobody },
        timeout: CONNECT,
        addresses: Addresses::Any,
        kept: usize::MAX,
        hint: "install the system's CA certificates, or name the registry's in registries.toml (ca = …)",
    }
}

/// A redirect that is not followed: there is no other place to ask for this.
pub(super) fn not_followed(refused: &redirect::Refused) -> Fault {
    Fault::new(Why::Odd, Error::refused(refused.to_string()))
}

/// What the registry says about it, in its own words, made harmless: `; DENIED: no access`.
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
