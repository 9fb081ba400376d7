//! Requests to the upload proxy.
//!
//! **Guarantees.** The token goes to this one server: redirects are not followed. Each request has a
//! connection of its own, since a body cannot be sent a second time automatically. A message of the server is
//! shown as one line. A request without a body ends within [`PATIENCE`]; one with a body takes as long as the
//! server accepts bytes.

use super::address;
use super::source::Flow;
use crate::error::{Error, ErrorKind, Result};
use reqwest::header::{CONTENT_LENGTH, HeaderMap};
use reqwest::{Client, Method, RequestBuilder, Response, Url, redirect};
use std::error::Error as StdError;
use std::time::Duration;
use tokio::time::timeout;

/// Timeout of a request without a body: the proxy itself waits some seconds for a pod.
const PATIENCE: Duration = Duration::from_secs(60);
/// Timeout of unacknowledged bytes. A server that accepts none for a while is waited for: its disk may be
/// slow.
const UNHEARD: Duration = Duration::from_secs(300);
/// Maximum number of bytes that are read of an answer.
const MOST: usize = 16 << 10;

/// Client of the upload proxy.
pub(crate) struct Proxy {
    client: Client,
    base: Url,
}

/// Response of the upload proxy.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// The body as one line.
    pub(super) text: String,
}

impl Proxy {
    /// A client for this address. Nothing is sent yet.
    pub(crate) fn new(address: &str, accepts_any_certificate: bool) -> Result<Proxy> {
        let base = address::parsed(address)?;
        let mut builder = Client::builder()
            .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")))
            .http1_only()
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0)
            .tcp_user_timeout(UNHEARD)
            .connect_timeout(PATIENCE)
            .referer(false);
        builder = match (base.scheme(), accepts_any_certificate) {
            ("https", true) => builder.tls_danger_accept_invalid_certs(true),
            ("https", false) => builder,
            // Without TLS the trust store is not needed, and reading it takes time.
            _ => builder.tls_certs_only([]),
        };
        let client = builder.build();
        let client =
            client.map_err(|e| Error::failed("cannot set up TLS for the upload proxy").because(e))?;
        Ok(Proxy { client, base })
    }

    /// Address of the proxy.
    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    /// A request with the token.
    pub(super) fn request(&self, method: Method, url: &Url, token: &str) -> RequestBuilder {
        self.client.request(method, url.clone()).bearer_auth(token)
    }

    /// Sends a request without a body.
    pub(super) async fn ask(&self, request: RequestBuilder) -> Result<Answer, String> {
        match timeout(PATIENCE, self.send(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("{} did not answer within {} s", self.base, PATIENCE.as_secs())),
        }
    }

    /// Sends a request with a body, of this length if it is known.
    pub(super) async fn pour(
        &self,
        request: RequestBuilder,
        (body, flow): (reqwest::Body, Flow),
        length: Option<u64>,
    ) -> Result<Answer, String> {
        let request = match length {
            Some(length) => request.header(CONTENT_LENGTH, length),
            None => request,
        };
        let answer = self.send(request.body(body)).await;
        // The server may have answered before the end of the body: stop sending.
        drop(flow);
        answer
    }

    async fn send(&self, request: RequestBuilder) -> Result<Answer, String> {
        let lost = |e: reqwest::Error| format!("{}: {}", self.base, reason(&e));
        let mut response = request.send().await.map_err(lost)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let body = timeout(PATIENCE, text(&mut response)).await.unwrap_or_default();
        Ok(Answer { status, headers, text: body })
    }
}

/// The beginning of a body. An incomplete message is better than none.
async fn text(response: &mut Response) -> String {
    let mut body = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await {
        body.extend_from_slice(&piece);
        if body.len() >= MOST {
            break;
        }
    }
    printable::line(String::from_utf8_lossy(&body).trim())
}

impl Answer {
    /// A header as a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.headers.get(name)?.to_str().ok()?.parse().ok()
    }

    /// A header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

#[cfg(test)]
impl Answer {
    /// An answer without headers.
    pub(super) fn of(status: u16, text: &str) -> Answer {
        Answer { status, headers: HeaderMap::new(), text: text.to_owned() }
    }
}

/// Cause of a failed request, without the wrapper errors of the client library, and without the address.
fn reason(e: &(dyn StdError + 'static)) -> String {
    let is_ours = |text: &str| {
        !["error sending request", "client error (", "request or response body"]
            .iter()
            .any(|theirs| text.starts_with(theirs))
    };
    let all = std::iter::once(e).chain(error_core::causes(e));
    match all.into_iter().find(|cause| is_ours(&cause.to_string())) {
        Some(cause) => error_core::chain(cause),
        None => e.to_string(),
    }
}

/// Hint for an untrusted certificate of the proxy.
pub(super) fn hint(said: &str) -> Option<&'static str> {
    said.to_lowercase().contains("certificate").then_some(
        "is the certificate of the upload proxy one that this computer trusts, and for this name? \
         --insecure accepts any, and others can then read along",
    )
}

/// The error of a server that does not accept the token.
pub(super) fn unauthorized(said: &str) -> Error {
    Error::new(ErrorKind::Auth, format!("authentication failed: {said}"))
}
