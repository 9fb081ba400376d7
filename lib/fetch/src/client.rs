//! One server: a request to it, with who asks, redirects followed, and the answer sorted.
//!
//! ```text
//!   send ─► request ─┬─ an answer that is fine ──► Fetched
//!             ▲      ├─ 401 and the like of the server itself ─► the authorizer has more to say ─┐
//!             │      ├─ a redirect ──► the policy allows it ────────────────────────┤
//!             │      └─ anything else ──► Fault                                     │
//!             └─────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Nothing is repeated here but what a challenge asks for, and that only where it can be sent again.

use crate::authorize::{Answer, Authorizer, Server};
use crate::body::{self, Wait};
use crate::redirect::{self, Trail};
use crate::resolved::{Led, Resolved};
use crate::retry::{self, within};
use crate::{Connect, Connector, Error, ErrorKind, Fault, Location, Result, Silence, Why};
use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, LOCATION};
use reqwest::{Body, Method, Response, StatusCode};
use std::sync::Arc;
use std::time::Duration;

/// How long an error's own text may take.
const EXCERPT: Duration = Duration::from_secs(5);

/// The way to one server, and to where it redirects.
pub struct Client<A> {
    connector: Arc<Connector>,
    redirects: redirect::Policy,
    authorizer: A,
    messages: Box<dyn Messages>,
}

/// A request.
pub struct Request<'a, S: ?Sized> {
    /// What is to be done.
    pub method: Method,
    /// Where.
    pub to: Location,
    /// Its own headers, which every server on the way gets.
    pub headers: HeaderMap,
    /// What goes with it.
    pub payload: Payload,
    /// What the authorizer is to be asked for.
    pub scope: &'a S,
    /// What counts as an answer; everything else is a fault.
    pub fine: &'a [u16],
    /// How long nothing may come, from a token server too.
    pub idle: Duration,
    /// So many bytes of an error's body are read for [`Messages::rejected`].
    pub excerpt: usize,
}

/// What goes with a request.
pub enum Payload {
    /// No body.
    Nothing,
    /// It can be sent again.
    Bytes(Bytes),
    /// It cannot.
    Once(Option<Body>),
}

/// An answer, and who gave it.
pub struct Fetched {
    /// The answer.
    pub response: Response,
    /// Where it came from.
    pub location: Location,
    /// It did not come from the server itself, but from where that sent us.
    pub redirected: bool,
    /// The servers that were asked for it.
    pub(crate) trail: Trail,
}

impl Fetched {
    fn led(&self) -> Led {
        Led { to: self.location.clone(), trail: self.trail }
    }
}

/// What is said about a server, in the words of whoever asks it. Kinds of errors follow [`Fault::because`], where a
/// sentence alone is asked for.
pub trait Messages: Send + Sync {
    /// There is no answer; `why` is [`Why::Tls`] or [`Why::Unreachable`]. The error has no address in it.
    fn unreachable(&self, place: &Location, why: Why, e: reqwest::Error) -> Error;
    /// No answer came for the idle time.
    fn silent(&self, place: &Location, idle: Duration) -> String;
    /// An answer that is not fine.
    fn rejected(&self, rejected: &Rejected<'_>) -> String;
    /// A redirect that is not followed.
    fn lost(&self, place: &Location, lost: Lost<'_>) -> Error;
}

/// An answer that is not fine.
pub struct Rejected<'a> {
    /// Who gave it.
    pub place: &'a Location,
    /// That is the server itself, and not where it redirects.
    pub own: bool,
    /// It was told who asks.
    pub authorized: bool,
    /// What it answered.
    pub status: StatusCode,
    /// The pause it asked for.
    pub retry_after: Option<Duration>,
    /// The beginning of its text.
    pub excerpt: &'a [u8],
}

/// Why a redirect is not followed.
pub enum Lost<'a> {
    /// The policy forbids it.
    Refused(redirect::Refused),
    /// The answer does not say where.
    Nowhere(StatusCode),
    /// There were too many before; this was the last.
    TooMany(&'a Location),
}

impl<A: Authorizer> Client<A> {
    /// Nobody is connected to yet.
    pub fn new(
        connect: Connect,
        redirects: redirect::Policy,
        authorizer: A,
        messages: impl Messages + 'static,
    ) -> Client<A> {
        Client::over(Arc::new(Connector::new(connect)), redirects, authorizer, messages)
    }

    /// The same by connections that others use too.
    pub fn over(
        connector: Arc<Connector>,
        redirects: redirect::Policy,
        authorizer: A,
        messages: impl Messages + 'static,
    ) -> Client<A> {
        Client { connector, redirects, authorizer, messages: Box::new(messages) }
    }

    /// Who asks.
    pub fn authorizer(&self) -> &A {
        &self.authorizer
    }

    /// Sends a request and gives its answer, if it is one of those that are fine. `origin` is the server itself, and alone is
    /// told who asks.
    pub async fn send(
        &self,
        origin: &Location,
        request: Request<'_, A::Scope>,
        silence: &mut Silence,
    ) -> Result<Fetched, Fault> {
        self.walk(origin, Trail::default(), request, silence).await
    }

    /// The same for one of many requests for a file: it goes where an earlier one was led, as long as that place answers.
    pub async fn send_resolved(
        &self,
        origin: &Location,
        resolved: &Resolved,
        request: Request<'_, A::Scope>,
        silence: &mut Silence,
    ) -> Result<Fetched, Fault> {
        let asked = request.to.clone();
        if let (Some(Led { to, trail }), Payload::Nothing) = (resolved.get(), &request.payload) {
            let (method, headers) = (request.method.clone(), request.headers.clone());
            let short = Request { method, to, headers, payload: Payload::Nothing, ..request };
            match self.walk(origin, trail, short, silence).await {
                Ok(answer) => {
                    resolved.answered(&asked, answer.led());
                    return Ok(answer);
                }
                Err(fault) if resolved.failed(&fault) => {}
                Err(fault) => return Err(fault),
            }
        }
        let answer = self.walk(origin, Trail::default(), request, silence).await?;
        resolved.answered(&asked, answer.led());
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
            let mut response = self.once(&place, own, &said, &mut request, silence).await?;
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
                        // Like a connection that broke: the upload goes on, with the new one.
                        let what = "the server takes the token no longer, in the middle of an upload";
                        let error = Error::new(ErrorKind::Auth, format!("{}: {what}", place.shown()));
                        return Err(Fault::new(Why::Cut, error));
                    }
                    private = more;
                    silence.broken();
                    continue;
                }
            }
            if redirect::leads_on(status) && matches!(request.method, Method::GET | Method::HEAD) {
                hops += 1;
                place = self.next(&place, &response, trail, hops)?;
            } else {
                return Err(self.rejected(&place, own, !said.is_empty(), &request, &mut response).await);
            }
        }
    }

    /// Whether TLS is spoken at an address, found out by one request that says nothing of who asks. A certificate that is not
    /// believed is a fault, not a reason to speak plain HTTP.
    pub async fn speaks_tls(&self, place: &Location, wait: Duration) -> Result<bool, Fault> {
        let client = self.connector.get(place, true).map_err(|e| Fault::new(Why::Tls, e))?;
        match within(wait, client.get(place.url().clone()).send()).await {
            Some(Ok(_)) => Ok(true),
            Some(Err(e)) if knows_no_tls(&e) => Ok(false),
            Some(Err(e)) => Err(self.unreachable(place, e)),
            None => Err(Fault::because(Why::Silent, self.messages.silent(place, wait))),
        }
    }

    /// No answer came, for a reason that the connection tells.
    fn unreachable(&self, place: &Location, e: reqwest::Error) -> Fault {
        let e = e.without_url();
        let why = retry::why_unanswered(&e);
        Fault::new(why, self.messages.unreachable(place, why, e))
    }

    async fn once(
        &self,
        place: &Location,
        own: bool,
        said: &HeaderMap,
        request: &mut Request<'_, A::Scope>,
        silence: &mut Silence,
    ) -> Result<Response, Fault> {
        let client = self.connector.get(place, own).map_err(|e| Fault::new(Why::Tls, e))?;
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
            None => Err(Fault::because(Why::Silent, self.messages.silent(place, silence.idle()))),
        }
    }

    fn next(
        &self,
        place: &Location,
        response: &Response,
        trail: Trail,
        hops: usize,
    ) -> Result<Location, Fault> {
        let lost = |lost: Lost<'_>| Fault::new(Why::Odd, self.messages.lost(place, lost));
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let target = target.ok_or_else(|| lost(Lost::Nowhere(response.status())))?;
        let next = self.redirects.follow(place, target, trail).map_err(|e| lost(Lost::Refused(e)))?;
        if hops > redirect::MOST {
            return Err(lost(Lost::TooMany(&next)));
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
        let why = Why::of(status);
        let fault = Fault::because(why, self.messages.rejected(&rejected));
        let retry_after = retry_after.filter(|_| matches!(why, Why::Busy | Why::Broken));
        Fault { retry_after, status: Some(status.as_u16()), ..fault }
    }
}

/// The other side does not know TLS at all. A certificate that is not believed is something else.
fn knows_no_tls(e: &reqwest::Error) -> bool {
    match retry::find::<rustls::Error>(e) {
        Some(rustls::Error::InvalidMessage(_)) => true,
        Some(_) => false,
        // It closed the connection on our greeting, or nobody listens there for TLS.
        None => e.is_connect() && !e.is_timeout(),
    }
}

impl Lost<'_> {
    /// The sentence about it, where `name` is what was asked for.
    pub fn sentence(&self, name: &str) -> String {
        match self {
            Lost::Refused(refused) => refused.to_string(),
            Lost::Nowhere(status) => {
                format!("{name}: the server answered {status} without saying where to go")
            }
            Lost::TooMany(last) => {
                format!("{name}: more than {} redirects, the last one to {}", redirect::MOST, last.shown())
            }
        }
    }
}
