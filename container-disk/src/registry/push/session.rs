//! One upload at the registry: the requests of it, each made once.

use super::{header, same_digest};
use crate::Digest;
use crate::registry::repository::{Mirror, Repository};
use crate::registry::server_connection::{Ask, REDIRECTS, ServerConnection, Where, not_followed};
use bytes::Bytes;
use fetch::Location;
use fetch::authorize::Scopes;
use fetch::{Fault, Why};
use fetch::{Fetched, Payload};
use reqwest::header::{CONTENT_RANGE, CONTENT_TYPE, HeaderName, LOCATION, RANGE};
use reqwest::{Body, Method};
use std::sync::Arc;
use std::time::Duration;

/// The least a chunk may have, but the last one.
const MIN_CHUNK: HeaderName = HeaderName::from_static("oci-chunk-min-length");

const BYTES: &str = "application/octet-stream";

/// How much longer than for anything else a registry may take to put a blob in its place: some copy or hash it then.
const COMMIT: u32 = 10;

/// An upload that has begun.
#[derive(Clone)]
pub(super) struct Session {
    server: Arc<ServerConnection>,
    scopes: Scopes,
    location: Location,
    idle: Duration,
    /// The least that the registry takes at once.
    pub(super) least: u64,
}

impl Session {
    /// Begins one.
    pub(super) async fn open(repository: &Repository, mirror: &Mirror) -> Result<Session, Fault> {
        let (path, scopes) = (mirror.path("blobs/uploads/"), Scopes::push(&mirror.repository));
        let ask = Ask::new(Method::POST, Where::Path(&path), &scopes, &[202], repository.terms.idle)
            .payload(Payload::Bytes(Bytes::new()));
        let answer = mirror.server.request(ask).await?;
        Session::of(repository, &answer)
    }

    /// The one that an answer of 202 has begun.
    pub(super) fn of(repository: &Repository, answer: &Fetched) -> Result<Session, Fault> {
        let (_, mirror) = repository.origin().map_err(|e| Fault::new(Why::Odd, e))?;
        let least = header(answer, &MIN_CHUNK).and_then(|least| least.trim().parse().ok()).unwrap_or(0);
        let mut session = Session {
            server: Arc::clone(&mirror.server),
            scopes: Scopes::push(&mirror.repository),
            location: answer.location.clone(),
            idle: repository.terms.idle,
            least,
        };
        if header(answer, &LOCATION).is_none() {
            let what = format!("{}: it began an upload without saying where", answer.location.shown());
            return Err(Fault::because(Why::Odd, what));
        }
        session.moved(answer)?;
        Ok(session)
    }

    /// For people.
    pub(super) fn shown(&self) -> &str {
        self.location.shown()
    }

    /// Sends a body that may end whenever it does. Gives where it goes on.
    pub(super) async fn stream(mut self, body: Body) -> Result<Session, Fault> {
        let ask = self.ask(Method::PATCH, &self.location, &[202, 204]).header(CONTENT_TYPE, BYTES)?;
        let answer = self.server.request(ask.patient(FOREVER).payload(Payload::Once(Some(body)))).await?;
        self.moved(&answer)?;
        Ok(self)
    }

    /// Sends the bytes from `at` on.
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

    /// Sends everything at once, with its digest.
    pub(super) async fn whole(self, digest: Digest, body: Body) -> Result<Session, Fault> {
        let location = self.location.with("digest", &digest.to_string());
        let ask = self.ask(Method::PUT, &location, &[201, 204]).header(CONTENT_TYPE, BYTES)?;
        let answer = self.server.request(ask.patient(FOREVER).payload(Payload::Once(Some(body)))).await?;
        same_digest(&answer, &digest)?;
        Ok(self)
    }

    /// How much of it the registry has.
    pub(super) async fn offset(&mut self) -> Result<u64, Fault> {
        let ask = self.ask(Method::GET, &self.location, &[200, 202, 204]);
        let answer = self.server.request(ask).await?;
        self.moved(&answer)?;
        // Nothing at all is `0-0` for some, and so is one byte: then that byte is sent again, or refused.
        let range = header(&answer, &RANGE).unwrap_or("0-0");
        let last = range
            .trim()
            .trim_start_matches("bytes=")
            .strip_prefix("0-")
            .and_then(|last| last.parse::<u64>().ok());
        let last = last.ok_or_else(|| {
            let range = printable::text(range, 80);
            let what = format!("{}: it does not say how much it has (Range: {range})", self.shown());
            Fault::because(Why::Odd, what)
        })?;
        Ok(if last == 0 { 0 } else { last.saturating_add(1) })
    }

    /// Gives the blob its name.
    pub(super) async fn commit(&self, digest: &Digest) -> Result<(), Fault> {
        let location = self.location.with("digest", &digest.to_string());
        let ask = self.ask(Method::PUT, &location, &[200, 201, 204]).header(CONTENT_TYPE, BYTES)?;
        let ask = ask.patient(self.idle.saturating_mul(COMMIT)).payload(Payload::Bytes(Bytes::new()));
        same_digest(&self.server.request(ask).await?, digest)
    }

    /// Gives it up. A registry that was cut off may still write what it has of it, so it is looked whether it is gone.
    /// That this fails is no harm: registries clean up by themselves.
    pub(super) async fn cancel(mut self) {
        for pause in [0, 50, 250] {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let ask = self.ask(Method::DELETE, &self.location, &[200, 202, 204]);
            match self.server.request(ask.patient(self.idle.min(Duration::from_secs(5)))).await {
                Ok(_) => {}
                Err(fault) if fault.why == Why::Missing => return,
                Err(fault) => {
                    tracing::debug!(upload = self.shown(), error = %fault.error, "an upload is not given up");
                    return;
                }
            }
            if self.offset().await.is_err() {
                return;
            }
        }
    }

    fn ask<'a>(&'a self, method: Method, to: &'a Location, fine: &'a [u16]) -> Ask<'a> {
        Ask::new(method, Where::Known(to), &self.scopes, fine, self.idle)
    }

    /// Each answer may say where the next request goes.
    fn moved(&mut self, answer: &Fetched) -> Result<(), Fault> {
        if let Some(target) = header(answer, &LOCATION) {
            self.location = REDIRECTS
                .follow_upload(&answer.location, target)
                .map_err(|refused| not_followed(&refused))?;
        }
        Ok(())
    }
}

/// A stream may take as long as it lasts; that it stands still is seen where it is fed.
const FOREVER: Duration = Duration::from_secs(30 * 86_400);
