//! One file on one server: GET requests for its ranges, and the messages about the server's failures.

use super::credentials::FileCredentials;
use crate::source::options::{Mutual, Options};
use bytes::Bytes;
use container_disk::Digest;
use fetch::{
    Attempts, Client, Concurrency, Connect, Error, Fault, FaultKind, Location, Messages, NextPiece, Payload,
    RateJudge, Rejected, Request, Resolved, Result, Retry, Silence, Unchecked, UnfollowedRedirect, redirect,
    retry,
};
use reqwest::header::{self, HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A client for one file on one server.
pub(super) struct RemoteFile {
    client: Client<FileCredentials>,
    origin: Location,
    resolved: Resolved,
    pub(super) options: Options,
    pub(super) concurrency: Concurrency,
    rate: Option<Arc<RateJudge>>,
}

impl RemoteFile {
    pub(super) fn new(url: &str, options: &Options) -> Result<RemoteFile> {
        let (origin, user_info) = Location::parse(url)?;
        let (who, is_private) = FileCredentials::of(options, &origin, user_info)?;
        let words =
            ServerMessages { name: origin.shown().to_owned(), is_private, is_store: options.store.is_some() };
        // A user in a redirect's URL is not used: the user chooses the credentials, not the server.
        let policy = redirect::Policy { may_leave_tls: options.insecure_tls, may_name_users: true };
        Ok(RemoteFile {
            client: Client::new(connect(options), policy, who, words),
            origin,
            resolved: Resolved::default(),
            options: options.clone(),
            rate: options
                .least_rate
                .map(|least| Arc::new(RateJudge::new(least).counts(options.decoded.clone()))),
            concurrency: Concurrency::new(options.max_connections),
        })
    }

    /// The name for messages.
    pub(super) fn name(&self) -> &str {
        self.origin.shown()
    }

    /// A digest of the URL with its query, which can be kept on disk. User and password are left out, since a
    /// weak password could be guessed from a digest.
    pub(super) fn name_digest(&self) -> String {
        Digest::of(self.origin.url().as_str().as_bytes()).to_string()
    }

    pub(super) fn attempts(&self, at: u64) -> Attempts {
        let Options { retries, first_pause, idle_timeout: idle, .. } = self.options;
        Attempts::new(self.name(), Retry { retries, first_pause, idle }, at)
            .with_rate_judge(self.rate.clone())
    }

    /// Sends one GET and follows redirects. Returns 200, 206 and 416; anything else is a fault.
    pub(super) async fn get(
        &self,
        range: Option<Range<u64>>,
        if_range: Option<&HeaderValue>,
        silence: &mut Silence,
    ) -> Result<Response, Fault> {
        let request = Request {
            method: Method::GET,
            to: self.origin.clone(),
            headers: ranged(range.as_ref(), if_range)?,
            payload: Payload::Nothing,
            scope: &(),
            fine: &[200, 206, 416],
            idle: self.options.idle_timeout,
            excerpt: 0,
        };
        match self.client.send_resolved(&self.origin, &self.resolved, request, silence).await {
            Ok(answer) => Ok(answer.response),
            Err(fault) => {
                if fault.status.is_some() && matches!(fault.kind, FaultKind::Busy | FaultKind::Broken) {
                    self.concurrency.overloaded();
                }
                Err(fault)
            }
        }
    }

    /// The next piece of a body; `None` at its end. `wanted` names the awaited bytes in the error.
    pub(super) async fn chunk(
        &self,
        response: &mut Response,
        silence: &mut Silence,
        wanted: impl Fn() -> String,
    ) -> Result<Option<Bytes>, Fault> {
        match silence.piece(response, self.name(), &wanted).await? {
            NextPiece::Bytes(bytes) => Ok(Some(bytes)),
            NextPiece::End => Ok(None),
            // The caller should try another connection.
            NextPiece::Nothing(after) => {
                let after = retry::seconds(after);
                let what = format!("no byte for {after} s while waiting for {}", wanted());
                Err(Fault::new(FaultKind::Cut, self.failed(what)))
            }
        }
    }

    /// An error about this file.
    pub(super) fn failed(&self, what: impl std::fmt::Display) -> Error {
        Error::failed(format!("{}: {what}", self.name()))
    }
}

/// Messages about a web server.
struct ServerMessages {
    name: String,
    /// True if requests carry credentials.
    is_private: bool,
    /// True if these are of an object store.
    is_store: bool,
}

impl Messages for ServerMessages {
    fn unreachable(&self, place: &Location, why: FaultKind, e: reqwest::Error) -> Error {
        let (name, host) = (&self.name, place.url().host_str().unwrap_or("the server"));
        if why == FaultKind::Tls {
            let hint = match retry::find::<rustls::Error>(&e) {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    "; if you trust the server, name a file with its CA: --cacert FILE (an expired or foreign name \
                     needs a new certificate)"
                }
                _ => "",
            };
            return Error::failed(format!("{name}: TLS with {host} failed{hint}")).because(e);
        }
        let verb = if e.is_connect() { "connect to" } else { "get an answer from" };
        Error::failed(format!("{name}: cannot {verb} {host}")).because(e)
    }

    fn silent(&self, _: &Location, idle: Duration) -> String {
        retry::silent(&self.name, "the head of the answer", idle).error.to_string()
    }

    fn rejected(&self, rejected: &Rejected<'_>) -> String {
        let Rejected { place, own, status, .. } = *rejected;
        let at = if own { String::new() } else { format!(" (redirected to {})", place.shown()) };
        let says = format!("{}{at}: the server answered {status}", self.name);
        let hint = match (FaultKind::from_status(status), self.is_private, own) {
            (FaultKind::Denied, ..) if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                "check the proxy's user and password"
            }
            (FaultKind::Denied, true, false) => {
                "credentials are not sent on to another server; use its address directly"
            }
            (FaultKind::Denied, true, true) if self.is_store => {
                "check the key, whether it may read the object, and this host's clock"
            }
            (FaultKind::Denied, true, true) => "check the user, password, token or headers that were given",
            (FaultKind::Denied, false, _) => "give a user and password, or a token",
            (FaultKind::Missing, ..) => "check the link",
            (FaultKind::Busy | FaultKind::Broken, ..) => return says,
            _ => "a disk was expected",
        };
        format!("{says}; {hint}")
    }

    fn unfollowed(&self, _: &Location, lost: UnfollowedRedirect<'_>) -> Error {
        let hint = match &lost {
            UnfollowedRedirect::Forbidden(refused) if refused.leaves_tls => {
                "; use an address that keeps to https, or allow it with --insecure"
            }
            UnfollowedRedirect::TooMany(_) => "; check the link",
            UnfollowedRedirect::NoLocation(_) if self.is_store => {
                "; where the bucket is of another region, use the address of that one: https://s3.REGION.…"
            }
            UnfollowedRedirect::Forbidden(_) | UnfollowedRedirect::NoLocation(_) => "",
        };
        Error::failed(format!("{}{hint}", lost.sentence(&self.name)))
    }
}

/// The headers of a request for a range.
fn ranged(range: Option<&Range<u64>>, if_range: Option<&HeaderValue>) -> Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    if let Some(range) = range {
        // Ranges here are never empty; one that ends at the largest number goes on to the end of the file.
        let last = if range.end == u64::MAX { String::new() } else { (range.end - 1).to_string() };
        let value = HeaderValue::try_from(format!("bytes={}-{last}", range.start));
        headers.insert(
            header::RANGE,
            value.map_err(|e| Error::failed("a range makes no valid header").because(e))?,
        );
        if let Some(validator) = if_range {
            headers.insert(header::IF_RANGE, validator.clone());
        }
    }
    Ok(headers)
}

fn connect(options: &Options) -> Connect {
    let (ca, identity, is_private) = match &options.mutual {
        Some(Mutual { certificate, key, authority }) => {
            (vec![authority.clone()], Some((certificate.clone(), key.clone())), true)
        }
        None => (options.ca_files.clone(), None, false),
    };
    Connect {
        ca,
        identity,
        is_private,
        unchecked: if options.insecure_tls { Unchecked::All } else { Unchecked::None },
        timeout: options.connect_timeout,
        addresses: fetch::Addresses::Any,
        kept: options.max_connections,
        hint: "install the system's CA certificates, or name a file with the server's CA",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fetch::ErrorKind;

    #[test]
    fn a_digest_tells_queries_apart_and_holds_no_password() {
        let digest = |url: &str| RemoteFile::new(url, &Options::default()).unwrap().name_digest();
        let plain = digest("https://host/a?sig=1");
        assert_ne!(plain, digest("https://host/a?sig=2"));
        assert_ne!(plain, digest("https://host/a"));
        assert_eq!(plain, digest("https://me:pw@host/a?sig=1#frag"));
    }

    #[test]
    fn a_redirect_out_of_tls_says_what_allows_it() {
        let parse = |url: &str| Location::parse(url).unwrap().0;
        let strict = redirect::Policy { may_name_users: true, ..redirect::Policy::default() };
        let words = ServerMessages { name: "https://h/".into(), is_private: false, is_store: false };
        let refused = |to: &str| {
            let refused = strict.follow(&parse("https://h/x"), to, redirect::Trail::default()).unwrap_err();
            words.unfollowed(&parse("https://h/x"), UnfollowedRedirect::Forbidden(refused))
        };
        let e = refused("http://h/y?sig=s3cret");
        assert_eq!(e.kind(), ErrorKind::Failed);
        assert!(
            e.to_string().starts_with("https://h/x: the server redirects to http://h/y?…, from TLS"),
            "{e}"
        );
        assert!(e.to_string().ends_with("--insecure"), "{e}");
        let e = refused("ftp://h/y");
        assert!(e.kind() == ErrorKind::Failed && !e.to_string().contains("--insecure"), "{e}");
    }
}
