//! The line to one server: sends a request, follows redirects, sorts answers into usable, worth another try, and final.

use super::gate::Gate;
use crate::source::options::Options;
use bytes::Bytes;
use container_disk::Digest;
use fetch::{
    Attempts, Connect, Connector, Error, Fault, Kind, Location, Result, Retry, Silence, TooQuiet, Unchecked,
    UserInfo, Why, redirect, retry,
};
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode};
use std::ops::Range;
use std::sync::RwLock;

/// Headers that say how the bytes travel; they are ours to set.
const OURS: [&str; 8] = [
    "range",
    "if-range",
    "accept-encoding",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "te",
];

/// A way to one file on one server.
pub(super) struct Line {
    connector: Connector,
    origin: Location,
    /// Where redirects led; asked first, until it refuses (links to object stores expire).
    resolved: RwLock<Option<Location>>,
    /// What only the origin may see: credentials and the user's own headers.
    private: HeaderMap,
    pub(super) options: Options,
    pub(super) gate: Gate,
}

impl Line {
    pub(super) fn new(url: &str, options: &Options) -> Result<Line> {
        let (origin, user_info) = Location::parse(url)?;
        let private = private_headers(options, user_info.as_ref())?;
        Ok(Line {
            connector: Connector::new(connect(options)),
            origin,
            resolved: RwLock::new(None),
            private,
            options: options.clone(),
            gate: Gate::new(options.max_connections),
        })
    }

    /// The name for people.
    pub(super) fn name(&self) -> &str {
        self.origin.shown()
    }

    /// A digest of the name that was typed, query included, that can be kept on disk. A user and a password are no part
    /// of it: from a digest a weak password could be guessed.
    pub(super) fn name_digest(&self) -> String {
        Digest::of(self.origin.url().as_str().as_bytes()).to_string()
    }

    pub(super) fn attempts(&self, at: u64) -> Attempts {
        let Options { retries, first_pause, idle_timeout: idle, .. } = self.options;
        Attempts::new(self.name(), Retry { retries, first_pause, idle }, at)
    }

    /// One GET, redirects followed. Gives 200, 206 and 416; anything else is a fault.
    pub(super) async fn get(
        &self,
        range: Option<Range<u64>>,
        if_range: Option<&HeaderValue>,
        silence: &mut Silence,
    ) -> Result<Response, Fault> {
        let shortcut = self.resolved.read().ok().and_then(|known| known.clone());
        let answer = self.get_from(shortcut.as_ref(), range, if_range, silence).await;
        if answer.is_err() && shortcut.is_some() {
            // Perhaps it is only the place the redirect led to; the next try may be sent to another.
            self.remember(None);
        }
        answer
    }

    async fn get_from(
        &self,
        shortcut: Option<&Location>,
        range: Option<Range<u64>>,
        if_range: Option<&HeaderValue>,
        silence: &mut Silence,
    ) -> Result<Response, Fault> {
        let mut place = shortcut.unwrap_or(&self.origin).clone();
        let mut hops = 0;
        loop {
            let response = self.send(&place, range.as_ref(), if_range, silence).await?;
            let status = response.status();
            if redirect::leads_on(status) {
                let next = self.next_place(&place, &response)?;
                hops += 1;
                if hops > redirect::MOST {
                    let most = redirect::MOST;
                    let what = format!("{}: more than {most} redirects, the last one", self.name());
                    return Err(Error::failed(format!("{what} to {}; check the link", next.shown())).into());
                }
                tracing::debug!(from = place.shown(), to = next.shown(), "redirected");
                place = next;
            } else if matches!(
                status,
                StatusCode::OK | StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE
            ) {
                let redirected = (place != self.origin).then_some(place);
                if redirected.as_ref() != shortcut {
                    self.remember(redirected);
                }
                return Ok(response);
            } else if status.is_client_error() && hops == 0 && shortcut.is_some() && place != self.origin {
                // The place the redirect led to refuses now: perhaps the link has expired. Ask for a new one.
                self.remember(None);
                place = self.origin.clone();
            } else {
                return Err(self.sort(&place, &response));
            }
        }
    }

    /// The next piece of a body; `None` at its end. `wanted` says what the piece belongs to, for the error.
    pub(super) async fn chunk(
        &self,
        response: &mut Response,
        silence: &mut Silence,
        wanted: impl Fn() -> String,
    ) -> Result<Option<Bytes>, Fault> {
        match silence.body(response.chunk()).await {
            Ok(Ok(Some(bytes))) => {
                silence.broken();
                Ok(Some(bytes))
            }
            Ok(Ok(None)) => Ok(None),
            Ok(Err(e)) => {
                let what = format!("{}: the connection broke while reading {}", self.name(), wanted());
                Err(Fault::new(Why::Cut, Error::failed(what).because(e.without_url())))
            }
            Err(quiet) => Err(self.too_quiet(quiet, &wanted())),
        }
    }

    /// An error about this file.
    pub(super) fn failed(&self, what: impl std::fmt::Display) -> Error {
        Error::failed(format!("{}: {what}", self.name()))
    }

    async fn send(
        &self,
        place: &Location,
        range: Option<&Range<u64>>,
        if_range: Option<&HeaderValue>,
        silence: &mut Silence,
    ) -> Result<Response, Fault> {
        let own = self.origin.same_origin(place);
        let client = self.connector.get(place.is_tls(), own)?;
        let mut request: RequestBuilder = client.get(place.url().clone());
        // Offsets are offsets of the file itself, not of a compressed form of it.
        request = request.header(header::ACCEPT_ENCODING, "identity");
        if own {
            request = request.headers(self.private.clone());
        }
        if let Some(range) = range {
            // Ranges here are never empty; one that ends at the largest number goes on to the end of the file.
            let last = if range.end == u64::MAX { String::new() } else { (range.end - 1).to_string() };
            request = request.header(header::RANGE, format!("bytes={}-{last}", range.start));
            if let Some(validator) = if_range {
                request = request.header(header::IF_RANGE, validator);
            }
        }
        match silence.head(request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(e)) => Err(self.unreachable(place, e)),
            Err(quiet) => Err(self.too_quiet(quiet, "the head of the answer")),
        }
    }

    fn next_place(&self, place: &Location, response: &Response) -> Result<Location, Fault> {
        let target = response.headers().get(header::LOCATION).and_then(|v| v.to_str().ok());
        let target = target.ok_or_else(|| {
            self.failed(format!("the server answered {} without saying where to go", response.status()))
        })?;
        // A user in the address is not used: who we are is the user's word, not the server's.
        let policy = redirect::Policy { may_leave_tls: self.options.insecure_tls, may_name_users: true };
        let authorized = self.origin.same_origin(place) && !self.private.is_empty();
        policy.follow(place, target, authorized).map_err(|refused| not_followed(&refused))
    }

    fn remember(&self, place: Option<Location>) {
        if let Ok(mut known) = self.resolved.write() {
            *known = place;
        }
    }

    /// An answer that carries no bytes of the file.
    fn sort(&self, place: &Location, response: &Response) -> Fault {
        let status = response.status();
        let elsewhere = !self.origin.same_origin(place);
        let at = if elsewhere { format!(" (redirected to {})", place.shown()) } else { String::new() };
        let says = format!("{}{at}: the server answered {status}", self.name());
        let why = Why::of(status);
        let hint = match (why, status) {
            (Why::Denied, StatusCode::PROXY_AUTHENTICATION_REQUIRED) => "check the proxy's user and password",
            (Why::Denied, _) => match (self.private.is_empty(), elsewhere) {
                (false, true) => "credentials are not sent on to another server; use its address directly",
                (false, false) => "check the user, password, token or headers that were given",
                (true, _) => "give a user and password, or a token",
            },
            (Why::Missing, _) => "check the link",
            (Why::Busy | Why::Broken, _) => {
                self.gate.overloaded();
                let fault = Fault::because(why, says);
                return Fault { retry_after: retry::after(response.headers()), ..fault };
            }
            _ => "a disk was expected",
        };
        Fault::because(why, format!("{says}; {hint}"))
    }

    fn unreachable(&self, place: &Location, e: reqwest::Error) -> Fault {
        let e = e.without_url();
        if let Some(tls) = retry::find::<rustls::Error>(&e) {
            let what = format!("{}: TLS with {} failed", self.name(), host(place));
            let hint = match tls {
                rustls::Error::InvalidCertificate(_) => {
                    "; if you trust the server, name a file with its CA: --cacert FILE (an expired or foreign name \
                     needs a new certificate)"
                }
                _ => "",
            };
            return Fault::new(Why::Tls, Error::failed(format!("{what}{hint}")).because(e));
        }
        let verb = if e.is_connect() { "connect to" } else { "get an answer from" };
        let error = Error::failed(format!("{}: cannot {verb} {}", self.name(), host(place)));
        Fault::new(Why::Unreachable, error.because(e))
    }

    fn too_quiet(&self, quiet: TooQuiet, wanted: &str) -> Fault {
        match quiet {
            TooQuiet::TryAnother(after) => {
                let after = after.as_secs_f64();
                let what = format!("no byte for {after} s while waiting for {wanted}");
                Fault::new(Why::Cut, self.failed(what))
            }
            TooQuiet::Timeout(idle) => {
                let idle = idle.as_secs_f64();
                let what = format!(
                    "no byte came for {idle} s while waiting for {wanted}; the server or the network stalled \
                     (this is the idle timeout)"
                );
                Fault::new(Why::Silent, self.failed(what))
            }
        }
    }
}

fn not_followed(refused: &redirect::Refused) -> Fault {
    let hint = match refused.leaves_tls {
        true => "; use an address that keeps to https, or allow it with --insecure",
        false => "",
    };
    Fault::because(Why::Odd, format!("{refused}{hint}"))
}

fn host(place: &Location) -> &str {
    place.url().host_str().unwrap_or("the server")
}

fn connect(options: &Options) -> Connect {
    Connect {
        ca: options.ca_files.clone(),
        identity: None,
        unchecked: if options.insecure_tls { Unchecked::Everybody } else { Unchecked::Nobody },
        timeout: options.connect_timeout,
        kept: options.max_connections,
        hint: "install the system's CA certificates, or name a file with the server's CA",
    }
}

fn private_headers(options: &Options, from_url: Option<&UserInfo>) -> Result<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in &options.headers {
        let header = HeaderName::try_from(name.as_str());
        let header =
            header.map_err(|e| usage(format!("\"{name}\" is not the name of a header")).because(e))?;
        if OURS.contains(&header.as_str()) {
            return Err(usage(format!("the header \"{name}\" cannot be given: it is set for each request")));
        }
        map.append(header, secret(value, &format!("the value of the header \"{name}\""))?);
    }
    let basic = match (&options.user, from_url) {
        (Some(user), _) => Some((user.as_str(), options.password.as_deref().unwrap_or_default())),
        (None, Some(info)) => Some((info.user.as_str(), info.password.as_str())),
        (None, None) => None,
    };
    if let Some(token) = &options.bearer {
        map.insert(header::AUTHORIZATION, secret(&format!("Bearer {token}"), "the bearer token")?);
    } else if let Some((user, password)) = basic {
        if user.contains(':') {
            return Err(usage("a user for basic authentication cannot hold a colon".into()));
        }
        let value = format!("Basic {}", base64(format!("{user}:{password}").as_bytes()));
        map.insert(header::AUTHORIZATION, secret(&value, "the user and password")?);
    }
    Ok(map)
}

fn secret(value: &str, what: &str) -> Result<HeaderValue> {
    let value = HeaderValue::try_from(value);
    let mut value = value.map_err(|_| usage(format!("{what} holds a character that no header may carry")))?;
    value.set_sensitive(true);
    Ok(value)
}

fn usage(what: String) -> Error {
    Error::new(Kind::Usage, what)
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word =
            group.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for i in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= group.len() { letter.into() } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_the_usual_one() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("user:p\u{e4}", "dXNlcjpww6Q=")]
        {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn a_digest_tells_queries_apart_and_holds_no_password() {
        let digest = |url: &str| Line::new(url, &Options::default()).unwrap().name_digest();
        let plain = digest("https://host/a?sig=1");
        assert_ne!(plain, digest("https://host/a?sig=2"));
        assert_ne!(plain, digest("https://host/a"));
        assert_eq!(plain, digest("https://me:pw@host/a?sig=1#frag"));
    }

    #[test]
    fn a_redirect_out_of_tls_says_what_allows_it() {
        let parse = |url: &str| Location::parse(url).unwrap().0;
        let strict = redirect::Policy { may_name_users: true, ..redirect::Policy::default() };
        let refused = |to: &str| {
            let refused = strict.follow(&parse("https://h/x"), to, false).unwrap_err();
            not_followed(&refused).error
        };
        let e = refused("http://h/y?sig=s3cret");
        assert_eq!(e.kind(), Kind::Failed);
        assert!(
            e.to_string().starts_with("https://h/x: the server redirects to http://h/y?…, from TLS"),
            "{e}"
        );
        assert!(e.to_string().ends_with("--insecure"), "{e}");
        let e = refused("ftp://h/y");
        assert!(e.kind() == Kind::Failed && !e.to_string().contains("--insecure"), "{e}");
    }

    #[test]
    fn given_headers_are_checked_and_their_values_kept_secret() {
        let with = |name: &str, value: &str| {
            private_headers(
                &Options { headers: vec![(name.into(), value.into())], ..Options::default() },
                None,
            )
        };
        assert_eq!(with("X-Key", "v").unwrap()["x-key"], "v");
        assert!(with("X-Key", "v").unwrap()["x-key"].is_sensitive());
        for (name, value) in [("Range", "bytes=0-1"), ("no name", "v"), ("X-Key", "topsecret\n")] {
            let error = with(name, value).unwrap_err();
            assert_eq!(error.kind(), Kind::Usage);
            assert!(!format!("{error:?}").contains("topsecret"), "{error:?}");
        }
    }
}
