//! The line to one server: one request, with who we are, redirects followed, and the answer sorted.
//!
//! Nothing is repeated here but what a challenge asks for, and that only where it can be sent again; whether and where a
//! request is made again is decided by `mirror.rs`.

use super::config::{Access, Scheme};
use super::mirror::State;
use super::token::{Auth, Scopes, To};
use crate::{Error, Kind};
use bytes::Bytes;
use fetch::Location;
use fetch::retry::{self, seconds, within};
use fetch::{Connect, Connector, Unchecked, is_loopback, redirect};
use fetch::{Fault, Why};
use reqwest::header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Body, Method, Response, StatusCode};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Where a registry may send us: no further than the rule says.
pub(super) const REDIRECTS: redirect::Policy =
    redirect::Policy { may_leave_tls: false, may_name_users: false };

/// How long one attempt to connect may take: somebody else may be asked.
const CONNECT: Duration = Duration::from_secs(10);

/// What a server says about an error is not longer than this.
const LONGEST_DETAIL: usize = 16 << 10;

/// A server, reached in one way.
pub(super) struct Line {
    pub(super) address: String,
    access: Access,
    base: tokio::sync::OnceCell<Location>,
    connector: Connector,
    auth: Auth,
    state: Mutex<State>,
}

/// A request.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) to: Where<'a>,
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

/// What goes with it.
pub(super) enum Payload {
    Nothing,
    /// It can be sent again.
    Bytes(Bytes),
    /// It cannot.
    Once(Option<Body>),
}

/// An answer, and who gave it.
pub(super) struct Answer {
    pub(super) response: Response,
    pub(super) location: Location,
    /// It did not come from the server itself, but from where that sent us.
    pub(super) redirected: bool,
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
        Ask { method, to, headers, payload: Payload::Nothing, scopes, fine, idle, wait: idle }
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

impl Line {
    pub(super) fn new(address: &str, access: &Access) -> Line {
        Line {
            address: address.to_owned(),
            access: access.clone(),
            base: tokio::sync::OnceCell::new(),
            connector: Connector::new(connect(access)),
            auth: Auth::new(address, access),
            state: Mutex::default(),
        }
    }

    /// Looks up who we are to it for a repository, so that nothing need be read or started later.
    pub(super) fn ready(&self, repository: &str) {
        self.auth.ready(repository);
    }

    /// What everybody knows of this server.
    pub(super) fn state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sends a request and gives its answer, if it is one of those that are fine.
    pub(super) async fn request(&self, mut ask: Ask<'_>) -> Result<Answer, Fault> {
        let base = self.base(ask.idle).await?;
        let to = To { base, connector: &self.connector, idle: ask.idle };
        let mut place = match ask.to {
            Where::Path(path) => base.at(path),
            Where::Known(location) => location.clone(),
        };
        let mut authorization = match base.same_origin(&place) {
            true => self.auth.header(&to, ask.scopes).await?,
            false => None,
        };
        let (mut hops, mut challenged) = (0, false);
        loop {
            let own = base.same_origin(&place);
            let said = authorization.as_ref().filter(|_| own);
            let mut response = self.send(&place, own, said, &mut ask).await?;
            let status = response.status();
            if ask.fine.contains(&status.as_u16()) {
                return Ok(Answer { response, location: place, redirected: hops > 0 });
            }
            if status == StatusCode::UNAUTHORIZED && own && !challenged {
                let header = self.auth.challenged(&to, response.headers(), said, ask.scopes).await?;
                if matches!(ask.payload, Payload::Once(_)) {
                    // Like a connection that broke: the upload goes on, with the new one.
                    let what = "the server takes the token no longer, in the middle of an upload";
                    let error = Error::new(Kind::Auth, format!("{}: {what}", place.shown()));
                    return Err(Fault::new(Why::Cut, error));
                }
                (authorization, challenged) = (Some(header), true);
            } else if redirect::leads_on(status) && matches!(ask.method, Method::GET | Method::HEAD) {
                hops += 1;
                place = self.next(&place, &response, said.is_some(), hops)?;
            } else {
                return Err(self.sort(&place, own, said.is_some(), &ask, &mut response).await);
            }
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
        let client = self.connector.get(true, true).map_err(|e| Fault::new(Why::Tls, e))?;
        match within(wait, client.get(tls.at("/v2/").url().clone()).send()).await {
            Some(Ok(_)) => Ok(tls),
            Some(Err(e)) if speaks_no_tls(&e) => Ok(plain),
            Some(Err(e)) => Err(self.unreachable(&tls, e)),
            None => Err(retry::silent(&self.address, "an answer", wait)),
        }
    }

    async fn send(
        &self,
        place: &Location,
        own: bool,
        authorization: Option<&HeaderValue>,
        ask: &mut Ask<'_>,
    ) -> Result<Response, Fault> {
        let client = self.connector.get(place.is_tls(), own).map_err(|e| Fault::new(Why::Tls, e))?;
        let mut request =
            client.request(ask.method.clone(), place.url().clone()).headers(ask.headers.clone());
        // Sizes and offsets are of the bytes themselves, not of a compressed form of them.
        request = request.header(ACCEPT_ENCODING, "identity");
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value.clone());
        }
        request = match &mut ask.payload {
            Payload::Nothing => request,
            Payload::Bytes(bytes) => request.body(bytes.clone()),
            Payload::Once(body) => request.body(body.take().unwrap_or_default()),
        };
        match within(ask.wait, request.send()).await {
            Some(Ok(response)) => Ok(response),
            Some(Err(e)) => Err(self.unreachable(place, e)),
            None => Err(retry::silent(place.shown(), "an answer", ask.wait)),
        }
    }

    fn next(
        &self,
        place: &Location,
        response: &Response,
        said: bool,
        hops: usize,
    ) -> Result<Location, Fault> {
        let target = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let shown = place.shown();
        let odd = |what: String| Fault::because(Why::Odd, what);
        let target = target.ok_or_else(|| {
            odd(format!("{shown}: the server answered {} without saying where to go", response.status()))
        })?;
        let next = REDIRECTS.follow(place, target, said).map_err(|refused| not_followed(&refused))?;
        if hops > redirect::MOST {
            return Err(odd(format!(
                "{shown}: more than {} redirects, the last one to {}",
                redirect::MOST,
                next.shown()
            )));
        }
        tracing::debug!(from = shown, to = next.shown(), "redirected");
        Ok(next)
    }

    fn unreachable(&self, place: &Location, e: reqwest::Error) -> Fault {
        let mut fault = retry::unreachable(format!("{} cannot be reached", self.address), e);
        if fault.why == Why::Tls {
            let hint =
                "name its CA in registries.toml (ca = …), or say insecure or plain-http where that is meant";
            let what = format!("{}: no safe connection could be made; {hint}", place.shown());
            fault.error = Error::failed(what).because(fault.error);
        }
        fault
    }

    /// An answer that is none.
    async fn sort(
        &self,
        place: &Location,
        own: bool,
        said: bool,
        ask: &Ask<'_>,
        response: &mut Response,
    ) -> Fault {
        let status = response.status();
        let detail = match ask.method {
            Method::HEAD => String::new(),
            _ => detail(response, ask.idle.min(Duration::from_secs(5))).await,
        };
        let says = format!("{}: the server answered {status}{detail}", place.shown());
        let address = &self.address;
        let why = Why::of(status);
        let mut fault = match status {
            StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Fault::because(why, format!("{says}; check the proxy's user and password"))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN if !own => {
                Fault::because(why, format!("{says}; {address} sent us there, without credentials"))
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let hint = if said { "the credentials are wrong, or not enough; log in" } else { "log in" };
                Fault::because(why, format!("{says}; {hint}, as with: docker login {address}"))
            }
            StatusCode::TOO_MANY_REQUESTS => {
                let after = retry::after(response.headers());
                let wish = after.map(|after| format!("; it asks for a pause of {} s", seconds(after)));
                Fault::because(why, format!("{says}{}", wish.unwrap_or_default()))
            }
            _ => Fault::because(why, says),
        };
        fault.status = Some(status.as_u16());
        fault.retry_after =
            retry::after(response.headers()).filter(|_| matches!(fault.why, Why::Busy | Why::Broken));
        fault
    }
}

fn connect(access: &Access) -> Connect {
    Connect {
        ca: access.ca.clone(),
        identity: access.client.clone(),
        unchecked: if access.insecure { Unchecked::Origin } else { Unchecked::Nobody },
        timeout: CONNECT,
        kept: usize::MAX,
        hint: "install the system's CA certificates, or name the registry's in registries.toml (ca = …)",
    }
}

/// A redirect that is not followed: there is no other place to ask for this.
pub(super) fn not_followed(refused: &redirect::Refused) -> Fault {
    Fault::new(Why::Odd, Error::refused(refused.to_string()))
}

/// The other side does not know TLS at all. A certificate that is not believed is something else.
fn speaks_no_tls(e: &reqwest::Error) -> bool {
    match retry::find::<rustls::Error>(e) {
        Some(rustls::Error::InvalidMessage(_)) => true,
        Some(_) => false,
        // It closed the connection on our greeting, or nobody listens there for TLS.
        None => e.is_connect() && !e.is_timeout(),
    }
}

/// What the registry says about it, in its own words, made harmless: `; DENIED: no access`.
async fn detail(response: &mut Response, wait: Duration) -> String {
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
    let body = within(wait, retry::body(response, LONGEST_DETAIL, wait, "")).await;
    let errors = body.and_then(Result::ok).and_then(|body| serde_json::from_slice::<Errors>(&body).ok());
    let Some(first) = errors.and_then(|errors| errors.errors.into_iter().next()) else {
        return String::new();
    };
    let text = format!(" ({}: {})", first.code, first.message);
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}
