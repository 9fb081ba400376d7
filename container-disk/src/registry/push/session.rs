//! The requests of an upload. Each is made once.

use super::{header, same_digest};
use crate::Digest;
use crate::registry::repository::{Mirror, Repository};
use crate::registry::server_connection::{
    REDIRECTS, RequestTarget, ServerConnection, ServerRequest, not_followed,
};
use bytes::Bytes;
use fetch::Location;
use fetch::authorize::Scopes;
use fetch::{Fault, FaultKind};
use fetch::{Fetched, Payload};
use reqwest::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderName, LOCATION, RANGE};
use reqwest::{Body, Method};
use std::sync::Arc;
use std::time::Duration;

/// Header with the registry's minimum size of a chunk, the last one excepted.
const MIN_CHUNK: HeaderName = HeaderName::from_static("oci-chunk-min-length");

const BYTES: &str = "application/octet-stream";

/// Factor for the timeout of storing a blob. Some registries copy or hash the blob then.
const COMMIT: u32 = 10;

/// An upload that was started at the registry.
#[derive(Clone)]
pub(super) struct Session {
    server: Arc<ServerConnection>,
    scopes: Scopes,
    location: Location,
    idle: Duration,
    /// The registry's minimum size of a chunk.
    pub(super) least: u64,
}

impl Session {
    /// Starts an upload at the registry.
    pub(super) async fn open(repository: &Repository, mirror: &Mirror) -> Result<Session, Fault> {
        let (path, scopes) = (mirror.path("blobs/uploads/"), Scopes::push(&mirror.repository));
        let ask = ServerRequest::new(
            Method::POST,
            RequestTarget::Path(&path),
            &scopes,
            &[202],
            repository.terms.idle,
        )
        .payload(Payload::Bytes(Bytes::new()));
        let answer = mirror.server.request(ask).await?;
        Session::from_response(repository, &answer)
    }

    /// The upload that a response with status 202 has started.
    pub(super) fn from_response(repository: &Repository, answer: &Fetched) -> Result<Session, Fault> {
        let (_, mirror) = repository.origin().map_err(|e| Fault::new(FaultKind::Odd, e))?;
        let least = header(answer, &MIN_CHUNK).and_then(|least| least.trim().parse().ok()).unwrap_or(0);
        let mut session = Session {
            server: Arc::clone(&mirror.server),
            scopes: Scopes::push(&mirror.repository),
            location: answer.location.clone(),
            idle: repository.terms.idle,
            least,
        };
        if header(answer, &LOCATION).is_none() {
            let what =
                format!("{}: the response to a started upload has no Location", answer.location.shown());
            return Err(Fault::from_kind(FaultKind::Odd, what));
        }
        session.moved(answer)?;
        Ok(session)
    }

    /// The address of the upload, for messages.
    pub(super) fn shown(&self) -> &str {
        self.location.shown()
    }

    /// Sends a body of unknown length. Returns the session with the location of the next request.
    pub(super) async fn stream(mut self, body: Body) -> Result<Session, Fault> {
        let ask = self.ask(Method::PATCH, &self.location, &[202, 204]).header(CONTENT_TYPE, BYTES)?;
        let answer = self.server.request(ask.patient(FOREVER).payload(Payload::Once(Some(body)))).await?;
        self.moved(&answer)?;
        Ok(self)
    }

    /// Sends one chunk that starts at offset `at`.
    pub(super) async fn chunk(&mut self, at: u64, bytes: Bytes) -> Result<(), Fault> {
        let last = at + (bytes.len() as u64).saturating_sub(1);
        let ask = self
            .ask(Method::PATCH, &self.location, &[202, 204])
            .header(CONTENT_TYPE, BYTES)?
            .header(CONTENT_RANGE, &format!("{at}-{last}"))?
            .patient(self.idle.saturating_mul(COMMIT))
            .payload(Payload::Bytes(bytes));
        let answer = self.server.request(ask).await?;
        self.moved(&answer)
    }

    /// Sends the whole blob together with its digest.
    pub(super) async fn whole(self, digest: Digest, body: Body) -> Result<Session, Fault> {
        let location = self.location.with("digest", &digest.to_string());
        let ask = self.ask(Method::PUT, &location, &[201, 204]).header(CONTENT_TYPE, BYTES)?;
        let answer = self.server.request(ask.patient(FOREVER).payload(Payload::Once(Some(body)))).await?;
        same_digest(&answer, &digest)?;
        Ok(self)
    }

    /// Asks the registry for the number of bytes it has.
    pub(super) async fn offset(&mut self) -> Result<u64, Fault> {
        let ask = self.ask(Method::GET, &self.location, &[200, 202, 204]);
        let answer = self.server.request(ask).await?;
        self.moved(&answer)?;
        // Some registries report `0-0` for no bytes, which also means one byte. That byte is sent again, or
        // rejected.
        let range = header(&answer, &RANGE).unwrap_or("0-0");
        let last = range
            .trim()
            .trim_start_matches("bytes=")
            .strip_prefix("0-")
            .and_then(|last| last.parse::<u64>().ok());
        let last = last.ok_or_else(|| {
            let range = printable::text(range, 80);
            let what = format!(
                "{}: the registry reports an invalid offset of the upload (Range: {range})",
                self.shown()
            );
            Fault::from_kind(FaultKind::Odd, what)
        })?;
        Ok(if last == 0 { 0 } else { last.saturating_add(1) })
    }

    /// Completes the blob under its digest.
    pub(super) async fn commit(&self, digest: &Digest) -> Result<(), Fault> {
        let location = self.location.with("digest", &digest.to_string());
        let ask = self.ask(Method::PUT, &location, &[200, 201, 204]).header(CONTENT_TYPE, BYTES)?;
        let ask = ask.patient(self.idle.saturating_mul(COMMIT)).payload(Payload::Bytes(Bytes::new()));
        same_digest(&self.server.request(ask).await?, digest)
    }

    /// Cancels the upload. A registry may still write the bytes of a cut connection, so this asks whether the
    /// upload is gone, and tries again. A failure does no harm, since registries remove old uploads.
    pub(super) async fn cancel(mut self) {
        for pause in [0, 50, 250] {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let ask = self.ask(Method::DELETE, &self.location, &[200, 202, 204]);
            match self.server.request(ask.patient(self.idle.min(Duration::from_secs(5)))).await {
                Ok(_) => {}
                Err(fault) if fault.kind == FaultKind::Missing => return,
                Err(fault) => {
                    tracing::debug!(upload = self.shown(), error = %fault.error, "an upload cannot be cancelled");
                    return;
                }
            }
            if self.offset().await.is_err() {
                return;
            }
        }
    }

    fn ask<'a>(&'a self, method: Method, to: &'a Location, fine: &'a [u16]) -> ServerRequest<'a> {
        ServerRequest::new(method, RequestTarget::Known(to), &self.scopes, fine, self.idle)
    }

    /// Updates the location of the next request from a response.
    fn moved(&mut self, answer: &Fetched) -> Result<(), Fault> {
        if let Some(target) = header(answer, &LOCATION) {
            self.location = REDIRECTS
                .follow_upload(&answer.location, target)
                .map_err(|refused| not_followed(&refused))?;
        }
        Ok(())
    }
}

/// Timeout of a streamed request. A stream has no fixed duration; a stalled one is detected where it is
/// written.
const FOREVER: Duration = Duration::from_secs(30 * 86_400);
