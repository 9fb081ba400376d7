//! HTTP requests to one server: authorization, redirects, and the classification of the answer.
//!
//! ```text
//!   send ─► request ─┬─ an answer that is fine ──► Fetched
//!             ▲      ├─ 401 and the like of the server itself ─► the authorizer has more to say ─┐
//!             │      ├─ a redirect ──► the policy allows it ────────────────────────┤
//!             │      └─ anything else ──► Fault                                     │
//!             └─────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Only a challenge makes a request repeated here, and only if its payload can be sent again.

use crate::authorize::{Answer, Authorizer, Server};
use crate::body::{self, Wait};
use crate::redirect::{self, Trail};
use crate::resolved::{RedirectEnd, Resolved};
use crate::retry::{self, within};
use crate::{Connect, Connector, Error, ErrorKind, Fault, FaultKind, Location, Result, Silence};
use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, LOCATION};
use reqwest::{Body, Method, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;

/// The longest time to read the text of an error.
const EXCERPT: Duration = Duration::from_secs(5);

/// A client for one server, and for the servers that it redirects to.
pub struct Client<A> {
    connector: Arc<Connector>,
    redirects: redirect::Policy,
    authorizer: A,
    messages: Box<dyn Messages>,
}

pub struct Request<'a, S: ?Sized> {
    pub method: Method,
    pub to: Location,
    /// Headers of the request itself, sent to every server on the way.
    pub headers: HeaderMap,
    pub payload: Payload,
    /// The scope that the authorizer is asked for.
    pub scope: &'a S,
    /// Status codes that count as success; every other one is a fault.
    pub fine: &'a [u16],
    /// Longest time without a byte, also from a token server.
    pub idle: Duration,
    /// Bytes of an error's body that are read for [`Messages::rejected`].
    pub excerpt: usize,
}

/// The body of a request.
pub enum Payload {
    Nothing,
    /// A body that can be sent again.
    Bytes(Bytes),
    /// A body that can be sent once.
    Once(Option<Body>),
}

/// An answer, and the server that gave it.
pub struct Fetched {
    pub response: Response,
    /// The URL that gave the answer.
    pub location: Location,
    /// True if the answer came from a redirect's target, not from the first server.
    pub redirected: bool,
    /// The servers that the request has passed.
    pub(crate) trail: Trail,
}

impl Fetched {
    fn redirect_end(&self) -> RedirectEnd {
        RedirectEnd { to: self.location.clone(), trail: self.trail }
    }
}

/// Messages about a server, in the words of the caller. Where a method returns only a sentence, the kind of
/// the error is that of [`Fault::from_kind`].
pub trait Messages: Send + Sync {
    /// No connection or no answer; `kind` is [`FaultKind::Tls`] or [`FaultKind::Unreachable`]. The error does not contain
    /// the address.
    fn unreachable(&self, place: &Location, kind: FaultKind, e: reqwest::Error) -> Error;
    /// No answer within the idle time.
    fn silent(&self, place: &Location, idle: Duration) -> String;
    /// An answer with a status that is not a success.
    fn rejected(&self, rejected: &Rejected<'_>) -> String;
    /// A redirect that is not followed.
    fn unfollowed(&self, place: &Location, lost: UnfollowedRedirect<'_>) -> Error;
}

/// An answer with a status that is not a success.
pub struct Rejected<'a> {
    /// The URL that gave it.
    pub place: &'a Location,
    /// True if the server itself gave it, not the target of a redirect.
    pub own: bool,
    /// True if the request carried credentials.
    pub authorized: bool,
    pub status: StatusCode,
    /// Pause that the server asks for in `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The beginning of the body.
    pub excerpt: &'a [u8],
}

/// The reason why a redirect is not followed.
pub enum UnfollowedRedirect<'a> {
    Forbidden(redirect::ForbiddenRedirect),
    /// The answer has no valid `Location`.
    NoLocation(StatusCode),
    /// The limit was reached; this was the last target.
    TooMany(&'a Location),
}

impl<A: Authorizer> Client<A> {
    /// A client that has not connected yet.
    pub fn new(
        connect: Connect,
        redirects: redirect::Policy,
        authorizer: A,
        messages: impl Messages + 'static,
    ) -> Client<A> {
        Client::over(Arc::new(Connector::new(connect)), redirects, authorizer, messages)
    }

    /// A client that shares connections with other clients.
    pub fn over(
        connector: Arc<Connector>,
        redirects: redirect::Policy,
        authorizer: A,
        messages: impl Messages + 'static,
    ) -> Client<A> {
        Client { connector, redirects, authorizer, messages: Box::new(messages) }
    }

    /// The source of the logins that requests carry.
    pub fn authorizer(&self) -> &A {
        &self.authorizer
    }

    /// Sends a request and returns the answer if its status is one of `fine`. Only `origin`, the server
    /// itself, gets credentials.
    pub async fn send(
        &self,
        origin: &Location,
        request: Request<'_, A::Scope>,
        silence: &mut Silence,
    ) -> Result<Fetched, Fault> {
        self.walk(origin, Trail::default(), request, silence).await
    }

    /// As [`Self::send`], for one of many requests for a file: the end of an earlier redirect is asked first,
    /// as long as it answers.
    pub async fn send_resolved(
        &self,
        origin: &Location,
        resolved: &Resolved,
        request: Request<'_, A::Scope>,
        silence: &mut Silence,
    ) -> Result<Fetched, Fault> {
        let asked = request.to.clone();
        if let (Some(RedirectEnd { to, trail }), Payload::Nothing) = (resolved.get(), &request.payload) {
            let (method, headers) = (request.method.clone(), request.headers.clone());
            let short = Request { method, to, headers, payload: Payload::Nothing, ..request };
            match self.walk(origin, trail, short, silence).await {
                Ok(answer) => {
                    resolved.answered(&asked, answer.redirect_end());
                    return Ok(answer);
                }
                Err(fault) if resolved.failed(&fault) => {}
                Err(fault) => return Err(fault),
            }
        }
        let answer = self.walk(origin, Trail::default(), request, silence).await?;
        resolved.answered(&asked, answer.redirect_end());
        Ok(answer)
    }

    async fn walk(
        &self,
        origin: &Location,
        mut trail: Trail,
        mut request: Request<'_, A::Scope>,
        silence: &mut Silence,
    ) -> Result<Fetched, Fault> {
        let server = Server { origin, connector: &self.connector, idle: request.idle };
        let mut place = request.to.clone();
        let mut private: Option<HeaderMap> = None;
        let (mut hops, mut challenged) = (0, false);
        loop {
            let own = origin.same_origin(&place);
            if own && private.is_none() {
                private = Some(self.authorizer.headers(&server, request.scope).await?);
            }
            let said = match &private {
                Some(private) if own => private.clone(),
                _ => HeaderMap::new(),
            };
            trail.passes(&place, !said.is_empty());
            let mut response = self.send_once(&place, own, &said, &mut request, silence).await?;
            let status = response.status();
            if request.fine.contains(&status.as_u16()) {
                return Ok(Fetched { response, location: place, redirected: hops > 0, trail });
            }
            if own && !challenged && self.authorizer.is_challenge(status) {
                challenged = true;
                let (most, all) = (self.authorizer.excerpt(), request.idle.min(EXCERPT));
                let headers = response.headers().clone();
                let excerpt = match most > 0 && request.method != Method::HEAD {
                    true => body::short(&mut response, most, Wait { idle: all, all }, "").await.ok(),
                    false => None,
                };
                let answer = Answer { headers: &headers, excerpt: &excerpt.unwrap_or_default() };
                let more = self.authorizer.challenged(&server, &answer, &said, request.scope).await?;
                if more.is_some() {
                    if matches!(request.payload, Payload::Once(_)) {
                        // As after a broken connection: the caller goes on with the upload, with the new
                        // token.
                        let what = "the server takes the token no longer, in the middle of an upload";
                        let error = Error::new(ErrorKind::Auth, format!("{}: {what}", place.shown()));
                        return Err(Fault::new(FaultKind::Cut, error));
                    }
                    private = more;
                    silence.broken();
                    continue;
                }
            }
            if redirect::is_redirect(status) && matches!(request.method, Method::GET | Method::HEAD) {
                hops += 1;
                place = self.next(&place, &response, trail, hops)?;
            } else {
                return Err(self.rejected(&place, own, !said.is_empty(), &request, &mut response).await);
            }
        }
    }

    /// Finds out whether an address speaks TLS, by one request without credentials. An untrusted certificate
    /// is a fault, not a reason to use plain HTTP.
    pub async fn speaks_tls(&self, place: &Location, wait: Duration) -> Result<bool, Fault> {
        let client = self.connector.get(place, true).map_err(|e| Fault::new(FaultKind::Tls, e))?;
        match within(wait, client.get(place.url().clone()).send()).await {
            Some(Ok(_)) => Ok(true),
            Some(Err(e)) if knows_no_tls(&e) => Ok(false),
            Some(Err(e)) => Err(self.unreachable(place, e)),
            None => Err(Fault::from_kind(FaultKind::Silent, self.messages.silent(place, wait))),
        }
    }

    /// The fault for a request without an answer, by the error of the connection.
    fn unreachable(&self, place: &Location, e: reqwest::Error) -> Fault {
        let e = e.without_url();
        let kind = retry::kind_of_unanswered(&e);
        Fault::new(kind, self.messages.unreachable(place, kind, e))
    }

    async fn send_once(
        &self,
        place: &Location,
        own: bool,
        said: &HeaderMap,
        request: &mut Request<'_, A::Scope>,
        silence: &mut Silence,
    ) -> Result<Response, Fault> {
        let client = self.connector.get(place, own).map_err(|e| Fault::new(FaultKind::Tls, e))?;
        let mut sent = client
            .request(request.method.clone(), place.url().clone())
            .headers(request.headers.clone())
            // Sizes and offsets are of the bytes themselves, not of a compressed form of them.
            .header(ACCEPT_ENCODING, "identity")
            .headers(said.clone());
        sent = match &mut request.payload {
            Payload::Nothing => sent,
            Payload::Bytes(bytes) => sent.body(bytes.clone()),
            Payload::Once(body) => sent.body(body.take().unwrap_or_default()),
        };
        match silence.head(sent.send()).await {
            Some(Ok(response)) => Ok(response),
            Some(Err(e)) => Err(self.unreachable(place, e)),
            None => Err(Fault::from_kind(FaultKind::Silent, self.messages.silent(place, silence.idle()))),
        }
    }

    fn next(
        &self,
        place: &Location,
        response: &Response,
        trail: Trail,
        hops: usize,
    ) -> Result<Location, Fault> {
        let lost =
            |lost: UnfollowedRedirect<'_>| Fault::new(FaultKind::Odd, self.messages.unfollowed(place, lost));
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let target = target.ok_or_else(|| lost(UnfollowedRedirect::NoLocation(response.status())))?;
        let next = self
            .redirects
            .follow(place, target, trail)
            .map_err(|e| lost(UnfollowedRedirect::Forbidden(e)))?;
        if hops > redirect::MOST {
            return Err(lost(UnfollowedRedirect::TooMany(&next)));
        }
        tracing::debug!(from = place.shown(), to = next.shown(), "redirected");
        Ok(next)
    }

    async fn rejected(
        &self,
        place: &Location,
        own: bool,
        authorized: bool,
        request: &Request<'_, A::Scope>,
        response: &mut Response,
    ) -> Fault {
        let (status, most, all) = (response.status(), request.excerpt, request.idle.min(EXCERPT));
        let retry_after = retry::after(response.headers());
        let excerpt = match most > 0 && request.method != Method::HEAD {
            true => body::short(response, most, Wait { idle: all, all }, "").await.ok(),
            false => None,
        };
        let excerpt = excerpt.unwrap_or_default();
        let rejected = Rejected { place, own, authorized, status, retry_after, excerpt: &excerpt };
        let kind = FaultKind::from_status(status);
        let fault = Fault::from_kind(kind, self.messages.rejected(&rejected));
        let retry_after = retry_after.filter(|_| matches!(kind, FaultKind::Busy | FaultKind::Broken));
        Fault { retry_after, status: Some(status.as_u16()), ..fault }
    }
}

/// True if the server does not know TLS at all. An untrusted certificate is a different error.
fn knows_no_tls(e: &reqwest::Error) -> bool {
    match retry::find::<rustls::Error>(e) {
        Some(rustls::Error::InvalidMessage(_)) => true,
        Some(_) => false,
        // The server closed the connection on our ClientHello, or no TLS server listens there.
        None => e.is_connect() && !e.is_timeout(),
    }
}

impl UnfollowedRedirect<'_> {
    /// The message of the error; `name` is the requested object.
    pub fn sentence(&self, name: &str) -> String {
        match self {
            UnfollowedRedirect::Forbidden(refused) => refused.to_string(),
            UnfollowedRedirect::NoLocation(status) => {
                format!("{name}: the server answered {status} without saying where to go")
            }
            UnfollowedRedirect::TooMany(last) => {
                format!("{name}: more than {} redirects, the last one to {}", redirect::MOST, last.shown())
            }
        }
    }
}
