//! Writes to a repository. They always go to the host itself, never to a mirror.
//!
//! ```text
//!   has(blob)  HEAD; else, with sibling repositories, POST …?mount=DIGEST&from=SIBLING: 201 mounted, 202 not
//!   begin()    Upload ──► recent bytes ──► Session: POST, then                              upload.rs, recent.rs
//!                                            stream   PATCH with all bytes as they come, PUT ?digest=    session.rs
//!                                            chunks   PATCH after PATCH, PUT ?digest=
//!                                            whole    PUT ?digest= with all bytes (the digest must be known)
//!   put()      PUT manifests/TAG
//! ```
//!
//! The upload method is the configured one, or the next one if a registry rejects it. A push also uses a
//! [`MirrorSession`], although there is a single server: it retries like a pull, and shares the server's
//! health with later pulls.
//!
//! The last few MiB that were sent are kept, so an interrupted upload is resumed at the byte that the
//! registry reports. If the registry has lost more than that, the writer reports the position, and the caller
//! may write the bytes again from there ([`crate::place::BlobWriter::rewind`]).

mod feed;
mod recent;
mod session;
mod upload;

use super::counters::count;
use super::document::{self, DIGEST};
use super::mirror_session::MirrorSession;
use super::repository::{Mirror, Repository};
use super::server_connection::{RequestTarget, ServerRequest};
use crate::manifest::{self, Descriptor, Document};
use crate::place::Reference;
use crate::{Digest, Error, Result};
use bytes::Bytes;
use fetch::authorize::Scopes;
use fetch::{Fault, FaultKind};
use fetch::{Fetched, Payload};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use reqwest::{Method, StatusCode};
use session::Session;
use std::sync::{Arc, PoisonError};
pub use upload::MEMORY as UPLOAD_MEMORY;
pub(super) use upload::Upload;

/// True if the registry has the blob, or could mount it from a sibling repository.
pub(super) async fn has(repository: &Arc<Repository>, descriptor: &Descriptor) -> Result<bool> {
    let digest: Digest = descriptor.digest.parse()?;
    let size = manifest::size(&repository.name, descriptor.size)?;
    let what = format!("{}: blob {digest}", repository.name);
    let there =
        at_origin(repository, &what, async |mirror| head(repository, mirror, &digest, size).await).await?;
    if there {
        count(&repository.counters.skipped);
        return Ok(true);
    }
    let siblings = repository.siblings.lock().unwrap_or_else(PoisonError::into_inner).clone();
    for sibling in siblings {
        if at_origin(repository, &what, async |mirror| mount(repository, mirror, &digest, &sibling).await)
            .await?
        {
            count(&repository.counters.mounted);
            return Ok(true);
        }
    }
    Ok(false)
}

/// Stores a document, with a tag if one is given.
pub(super) async fn put(repository: &Arc<Repository>, document: &Document, tag: Option<&str>) -> Result<()> {
    let reference = tag.map_or(Reference::Digest(document.digest), |tag| Reference::Tag(tag.to_owned()));
    let what = document::name(repository, &reference);
    let reference = tag.map_or_else(|| document.digest.to_string(), str::to_owned);
    let bytes = Bytes::copy_from_slice(&document.bytes);
    at_origin(repository, &what, async |mirror| {
        let scopes = Scopes::push(&mirror.repository);
        let path = mirror.path(&format!("manifests/{reference}"));
        let ask = ServerRequest::new(
            Method::PUT,
            RequestTarget::Path(&path),
            &scopes,
            &[200, 201, 202],
            repository.terms.idle,
        )
        .header(CONTENT_TYPE, &document.media_type)?
        .payload(Payload::Bytes(bytes.clone()));
        let answer = mirror.server.request(ask).await.map_err(passing)?;
        same_digest(&answer, &document.digest)
    })
    .await?;
    if let Some(tag) = tag {
        // Later requests for the tag mean the document that was stored here.
        let mut tags = repository.tags.lock().unwrap_or_else(PoisonError::into_inner);
        tags.insert(tag.to_owned(), Digest::of(&document.bytes));
    }
    Ok(())
}

/// The fault of a document that was refused for its digest, as one that may pass. The digest is that of the bytes that
/// were sent, and distribution answers so while another client links a blob of the document: it reads an empty file.
fn passing(fault: Fault) -> Fault {
    match fault.status {
        Some(400) if fault.error.to_string().contains("DIGEST_INVALID") => {
            Fault { kind: FaultKind::Broken, ..fault }
        }
        _ => fault,
    }
}

/// Sends a request to the host itself, and repeats it after errors that may pass.
pub(super) async fn at_origin<T>(
    repository: &Arc<Repository>,
    what: &str,
    ask: impl AsyncFn(&Mirror) -> Result<T, Fault>,
) -> Result<T> {
    let (index, origin) = repository.origin()?;
    let mut mirror_session =
        MirrorSession::new(repository, what.to_owned(), None).only(|mirror| mirror == index);
    mirror_session.start().await?;
    loop {
        match ask(origin).await {
            Ok(value) => {
                mirror_session.well_done();
                return Ok(value);
            }
            Err(fault) => mirror_session.failed(fault, 0, 0).await?,
        };
    }
}

async fn head(repository: &Repository, mirror: &Mirror, digest: &Digest, size: u64) -> Result<bool, Fault> {
    let (path, scopes) = (mirror.path(&format!("blobs/{digest}")), Scopes::push(&mirror.repository));
    let ask = ServerRequest::new(
        Method::HEAD,
        RequestTarget::Path(&path),
        &scopes,
        &[200, 404],
        repository.terms.idle,
    );
    let answer = mirror.server.request(ask).await?;
    if answer.response.status() == StatusCode::NOT_FOUND {
        return Ok(false);
    }
    let length = header(&answer, &CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    match length {
        Some(length) if length != size => {
            let what = format!(
                "{}: blob {digest} has {length} bytes at the registry, but {size} bytes here",
                repository.name
            );
            Err(Fault::from_kind(FaultKind::Wrong, what))
        }
        _ => Ok(true),
    }
}

async fn mount(
    repository: &Arc<Repository>,
    mirror: &Mirror,
    digest: &Digest,
    from: &str,
) -> Result<bool, Fault> {
    let path = mirror.path(&format!("blobs/uploads/?mount={digest}&from={from}"));
    let scopes = Scopes::mount(&mirror.repository, from);
    let ask = ServerRequest::new(
        Method::POST,
        RequestTarget::Path(&path),
        &scopes,
        &[201, 202],
        repository.terms.idle,
    )
    .payload(Payload::Bytes(Bytes::new()));
    let answer = match mirror.server.request(ask).await {
        Ok(answer) => answer,
        // The sibling does not exist or may not be read: the blob must be uploaded.
        Err(fault) if matches!(fault.kind, FaultKind::Denied | FaultKind::Missing) => return Ok(false),
        Err(fault) => return Err(fault),
    };
    if answer.response.status() == StatusCode::CREATED {
        return Ok(true);
    }
    // The registry has started an upload instead, which is not needed.
    if let Ok(session) = Session::from_response(repository, &answer) {
        session.cancel().await;
    }
    Ok(false)
}

/// Compares the digest that the registry reports with the one that was sent.
fn same_digest(answer: &Fetched, digest: &Digest) -> Result<(), Fault> {
    match header(answer, &DIGEST).and_then(|said| said.parse::<Digest>().ok()) {
        Some(said) if said.algorithm() == digest.algorithm() && said != *digest => {
            let what = format!(
                "{}: the blob {digest} was sent, but the registry reports {said}",
                answer.location.shown()
            );
            Err(Fault::new(FaultKind::Wrong, Error::refused(what)))
        }
        _ => Ok(()),
    }
}

fn header<'a>(answer: &'a Fetched, name: &HeaderName) -> Option<&'a str> {
    answer.response.headers().get(name)?.to_str().ok()
}
