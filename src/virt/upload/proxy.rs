//! Requests to the upload proxy.
//!
//! **Guarantees.** The token goes to this one server: redirects are not followed. Each request has a connection of its own,
//! since a body cannot be sent a second time by itself. What a server says is shown as one line. A question without a body
//! ends within [`PATIENCE`]; a body may take as long as the server takes bytes.

use super::address;
use super::source::Flow;
use cdi::{Error, ErrorKind, Result};
use reqwest::header::{CONTENT_LENGTH, HeaderMap};
use reqwest::{Client, Method, RequestBuilder, Response, Url, redirect};
use std::error::Error as StdError;
use std::time::Duration;
use tokio::time::timeout;

/// The longest that an answer to a question may take: the proxy itself waits some seconds for a pod.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long bytes may be on their way. A server that takes none for a while is waited for: its disk may be slow.
const UNHEARD: Duration = Duration::from_secs(300);
/// The most of an answer that is read.
const MOST: usize = 16 << 10;

/// The upload proxy.
pub(crate) struct Proxy {
    client: Client,
    base: Url,
}

/// What it says.
#[derive(Debug)]
pub(super) struct Answer {
    /// The status.
    pub(super) status: u16,
    /// The headers.
    pub(super) headers: HeaderMap,
    /// The body, in a line.
    pub(super) text: String,
}

impl Proxy {
    /// The one at this address. Nothing is sent yet.
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
            // The trust store is not read for nobody.
            _ => builder.tls_certs_only([]),
        };
        let client = builder.build();
        let client =
            client.map_err(|e| Error::failed("cannot set up TLS for the upload proxy").because(e))?;
        Ok(Proxy { client, base })
    }

    /// Its address.
    pub(super) fn base(&self) -> &Url {
        &self.base
    }

    /// A request with the token.
    pub(super) fn request(&self, method: Method, url: &Url, token: &str) -> RequestBuilder {
        self.client.request(method, url.clone()).bearer_auth(token)
    }

    /// Asks something, without a body.
    pub(super) async fn ask(&self, request: RequestBuilder) -> Result<Answer, String> {
        match timeout(PATIENCE, self.send(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("{} did not answer within {} s", self.base, PATIENCE.as_secs())),
        }
    }

    /// Sends bytes, so many where that is known, and waits for the answer.
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
        // Of a body that the server did not want to the end, no further byte goes out.
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

/// The beginning of a body. A reason that breaks off is still better than none.
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
    /// A header that is a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.headers.get(name)?.to_str().ok()?.parse().ok()
    }

    /// A header that is a text.
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

/// Why a request failed, without the names that libraries have for their own parts, and without the address.
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

/// What to do where the certificate of the proxy is not to be trusted.
pub(super) fn hint(said: &str) -> Option<&'static str> {
    said.to_lowercase().contains("certificate").then_some(
        "is the certificate of the upload proxy one that this computer trusts, and for this name? \
         --insecure accepts any, and others can then read along",
    )
}

/// The error of a server that does not take the token.
pub(super) fn unauthorized(said: &str) -> Error {
    Error::new(ErrorKind::Auth, format!("authentication failed: {said}"))
}
