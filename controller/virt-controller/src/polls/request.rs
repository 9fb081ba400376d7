//! The one request of a poll. See [`super`] for what it may not do.
//!
//! ```text
//!  image  HEAD /v2/NAME/manifests/TAG ─► Docker-Content-Digest; a registry that does not say it: GET, and the digest of what came
//!  file   HEAD URL ─► a strong ETag, or a date and a size; where HEAD is not served: GET of its first byte
//! ```

use super::{ALL, Answer};
use crate::data_import_cron::Question;
use cluster_model::polls::NoAnswer;
use fetch::authorize::{Authorizer, Credential, Credentials, Headers, RegistryToken, Scopes};
use fetch::body::{self, Wait};
use fetch::{
    Client, Connector, ContentRange, Error, ErrorKind, Fault, FaultKind, Fetched, Location, Messages,
    Payload, Rejected, Request, Silence, UnfollowedRedirect, Validators, is_barred, redirect, retry,
};
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use jiff::SignedDuration;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

/// The largest manifest or index that is hashed.
const DOCUMENT: usize = 4 << 20;
/// Response header with the digest.
const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");
/// Media types of manifests and indexes.
const DOCUMENTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, \
                         application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";
/// The rule of redirects that holds for the image itself.
const REDIRECTS: redirect::Policy = redirect::Policy { may_leave_tls: false, may_name_users: false };

/// Sends the requests for a question. `idle`: longest time without a byte.
pub(super) async fn ask(connector: &Arc<Connector>, question: &Question, idle: Duration) -> Answer {
    let answer = match question {
        Question::Image { host, repository, tag } => image(connector, (host, repository, tag), idle).await,
        Question::File(url) => file(connector, url, idle).await,
    };
    answer
        .map_err(|fault| {
            // The error may contain text of the server.
            tracing::debug!("a poll failed: {}", fault.error.chain());
            let pause = fault.retry_after.and_then(|pause| SignedDuration::try_from(pause).ok());
            (classify(&fault), pause)
        })?
        .ok_or((NoAnswer::Nameless, None))
}

fn classify(fault: &Fault) -> NoAnswer {
    match fault.kind {
        _ if is_barred(&fault.error) => NoAnswer::Barred,
        FaultKind::Unreachable | FaultKind::Cut => NoAnswer::Unreachable,
        FaultKind::Silent | FaultKind::Slow => NoAnswer::Silent,
        FaultKind::Tls if retry::is_plain(&fault.error) => NoAnswer::Plain,
        FaultKind::Tls => NoAnswer::Tls,
        FaultKind::Denied => NoAnswer::Denied,
        FaultKind::Missing => NoAnswer::Missing,
        FaultKind::Busy => NoAnswer::Busy,
        FaultKind::Broken => NoAnswer::Broken,
        FaultKind::Wrong | FaultKind::Changed | FaultKind::NoRanges | FaultKind::Odd => NoAnswer::Odd,
    }
}

// ── An image ────────────────────────────────────────────────────────────────────────────────────────────────────────

async fn image(
    connector: &Arc<Connector>,
    (host, repository, tag): (&str, &str, &str),
    idle: Duration,
) -> Result<Option<String>, Fault> {
    let authorizer = RegistryToken::new(host, Arc::new(NoCredentials));
    let client = Client::over(Arc::clone(connector), REDIRECTS, authorizer, LogMessages);
    let base = base(&client, host, idle).await?;
    let scopes = Scopes::pull(repository);
    let to = base.at(&format!("/v2/{repository}/manifests/{tag}"));
    let accept = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(DOCUMENTS))]);
    let fine = &[200];
    let head = Request { idle, ..request(Method::HEAD, &to, accept.clone(), &scopes, fine) };
    let answer = send(&client, &base, head).await?;
    if let Some(digest) = digest_header(&answer) {
        return Ok(Some(digest));
    }
    let get = Request { idle, ..request(Method::GET, &to, accept, &scopes, fine) };
    let mut answer = send(&client, &base, get).await?;
    let document = body::short(&mut answer.response, DOCUMENT, Wait { idle, all: ALL }, "").await?;
    let digest = ring::digest::digest(&ring::digest::SHA256, &document);
    Ok(Some(format_digest(digest.as_ref())))
}

/// Base URL of a registry, with TLS. On a loopback address, which only tests and a registry on the node have,
/// the protocol is detected.
async fn base(client: &Client<RegistryToken>, host: &str, idle: Duration) -> Result<Location, Fault> {
    let at = |scheme| {
        Location::base(scheme, host).ok_or_else(|| Fault::from_kind(FaultKind::Odd, "not an address"))
    };
    let tls = at("https")?;
    match tls.is_loopback() && !client.speaks_tls(&tls.at("/v2/"), idle).await? {
        true => at("http"),
        false => Ok(tls),
    }
}

/// The digest that a registry says, if that is one.
fn digest_header(answer: &Fetched) -> Option<String> {
    let said = answer.response.headers().get(DIGEST)?.to_str().ok()?.trim();
    crate::data_import_cron::is_image_digest(said).then(|| said.to_owned())
}

/// Client without a login.
struct NoCredentials;

impl Credentials for NoCredentials {
    fn find(&self, _: &str) -> fetch::Result<Option<Credential>> {
        Ok(None)
    }
}

// ── A file ──────────────────────────────────────────────────────────────────────────────────────────────────────────

async fn file(connector: &Arc<Connector>, url: &str, idle: Duration) -> Result<Option<String>, Fault> {
    let client = Client::over(Arc::clone(connector), REDIRECTS, Headers::default(), LogMessages);
    let (to, user) = Location::parse(url)?;
    if user.is_some() {
        return Err(Fault::from_kind(FaultKind::Denied, "the address has a user"));
    }
    let head = Request { idle, ..request(Method::HEAD, &to, HeaderMap::new(), &(), &[200]) };
    let answer = match send(&client, &to, head).await {
        // Some stores sign a GET alone; some servers know no HEAD.
        Err(Fault { status: Some(403 | 405 | 501), .. }) => {
            let first = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static("bytes=0-0"))]);
            let get = Request { idle, ..request(Method::GET, &to, first, &(), &[200, 206]) };
            send(&client, &to, get).await?
        }
        other => other?,
    };
    let headers = answer.response.headers();
    let size = match answer.response.status() {
        StatusCode::PARTIAL_CONTENT => ContentRange::parse(headers).and_then(|range| range.total),
        _ => headers.get(header::CONTENT_LENGTH).and_then(|size| size.to_str().ok()?.parse().ok()),
    };
    let version = Validators::new(headers, size).version();
    Ok(version.map(|version| {
        format_digest(ring::digest::digest(&ring::digest::SHA256, version.as_bytes()).as_ref())
    }))
}

// ── Both ────────────────────────────────────────────────────────────────────────────────────────────────────────────

fn format_digest(digest: &[u8]) -> String {
    digest.iter().fold("sha256:".to_owned(), |mut text, byte| {
        // A text takes everything.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn request<'a, S: ?Sized>(
    method: Method,
    to: &Location,
    headers: HeaderMap,
    scope: &'a S,
    fine: &'a [u16],
) -> Request<'a, S> {
    Request { method, to: to.clone(), headers, payload: Payload::Nothing, scope, fine, idle: ALL, excerpt: 0 }
}

async fn send<A: Authorizer>(
    client: &Client<A>,
    origin: &Location,
    request: Request<'_, A::Scope>,
) -> Result<Fetched, Fault> {
    let mut silence = Silence::new(request.idle);
    client.send(origin, request, &mut silence).await
}

/// Progress listener that writes messages about a server to the log only.
struct LogMessages;

impl Messages for LogMessages {
    fn unreachable(&self, place: &Location, _: FaultKind, e: reqwest::Error) -> Error {
        Error::failed(format!("{} cannot be reached", place.shown())).because(e)
    }

    fn silent(&self, place: &Location, idle: Duration) -> String {
        format!("{}: no answer came for {} s", place.shown(), idle.as_secs())
    }

    fn rejected(&self, rejected: &Rejected<'_>) -> String {
        format!("{}: the server answered {}", rejected.place.shown(), rejected.status)
    }

    fn unfollowed(&self, place: &Location, lost: UnfollowedRedirect<'_>) -> Error {
        Error::new(ErrorKind::Refused, lost.sentence(place.shown()))
    }
}
