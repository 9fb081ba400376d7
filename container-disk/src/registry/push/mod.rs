//! Writing to a repository: always to the host itself, never to a mirror.
//!
//! ```text
//!   has(blob)  HEAD; else, where there are siblings, POST …?mount=DIGEST&from=SIBLING: 201 is here, 202 is not
//!   begin()    Upload ──► recent bytes ──► Session: POST, then                              upload.rs, recent.rs
//!                                            stream   PATCH with all bytes as they come, PUT ?digest=    session.rs
//!                                            chunks   PATCH after PATCH, PUT ?digest=
//!                                            whole    PUT ?digest= with all bytes (the digest must be known)
//!   put()      PUT manifests/TAG
//! ```
//!
//! The manner is the one that is set, and the next one where a registry refuses that. There is one server, and yet a
//! [`Journey`]: it has the same patience as a pull, and what it learns of that server the next pull knows.
//!
//! The last few MiB that went out are kept, so an upload that breaks goes on by itself at the byte that the registry
//! reports, unless it has lost more than that. Then whoever writes is told the byte, and may give it again from there
//! ([`crate::place::BlobWriter::rewind`]).

mod feed;
mod recent;
mod session;
mod upload;

use super::counters::count;
use super::document::{self, DIGEST};
use super::journey::Journey;
use super::repository::{Mirror, Repository};
use super::server_connection::{Ask, Where};
use crate::manifest::{self, Descriptor, Document};
use crate::place::Which;
use crate::{Digest, Error, Result};
use bytes::Bytes;
use fetch::authorize::Scopes;
use fetch::{Fault, Why};
use fetch::{Fetched, Payload};
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use reqwest::{Method, StatusCode};
use session::Session;
use std::sync::{Arc, PoisonError};
pub use upload::MEMORY as UPLOAD_MEMORY;
pub(super) use upload::Upload;

/// Whether the blob is there; it is brought there from a sibling where that is possible.
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

/// Stores a document, under its tag if it has one.
pub(super) async fn put(repository: &Arc<Repository>, document: &Document, tag: Option<&str>) -> Result<()> {
    let which = tag.map_or(Which::Digest(document.digest), |tag| Which::Tag(tag.to_owned()));
    let what = document::name(repository, &which);
    let reference = tag.map_or_else(|| document.digest.to_string(), str::to_owned);
    let bytes = Bytes::copy_from_slice(&document.bytes);
    at_origin(repository, &what, async |mirror| {
        let scopes = Scopes::push(&mirror.repository);
        let path = mirror.path(&format!("manifests/{reference}"));
        let ask = Ask::new(Method::PUT, Where::Path(&path), &scopes, &[200, 201, 202], repository.terms.idle)
            .header(CONTENT_TYPE, &document.media_type)?
            .payload(Payload::Bytes(bytes.clone()));
        same_digest(&mirror.server.request(ask).await?, &document.digest)
    })
    .await?;
    if let Some(tag) = tag {
        // Whoever asks for the tag from now on means what we have put there.
        let mut tags = repository.tags.lock().unwrap_or_else(PoisonError::into_inner);
        tags.insert(tag.to_owned(), document.digest);
    }
    Ok(())
}

/// Asks the host itself, again where that may help.
async fn at_origin<T>(
    repository: &Arc<Repository>,
    what: &str,
    ask: impl AsyncFn(&Mirror) -> Result<T, Fault>,
) -> Result<T> {
    let (index, origin) = repository.origin()?;
    let mut journey = Journey::new(repository, what.to_owned(), None).only(|mirror| mirror == index);
    journey.start().await?;
    loop {
        match ask(origin).await {
            Ok(value) => {
                journey.well_done();
                return Ok(value);
            }
            Err(fault) => journey.failed(fault, 0, 0).await?,
        };
    }
}

async fn head(repository: &Repository, mirror: &Mirror, digest: &Digest, size: u64) -> Result<bool, Fault> {
    let (path, scopes) = (mirror.path(&format!("blobs/{digest}")), Scopes::push(&mirror.repository));
    let ask = Ask::new(Method::HEAD, Where::Path(&path), &scopes, &[200, 404], repository.terms.idle);
    let answer = mirror.server.request(ask).await?;
    if answer.response.status() == StatusCode::NOT_FOUND {
        return Ok(false);
    }
    let length = header(&answer, &CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    match length {
        Some(length) if length != size => {
            let what =
                format!("{}: blob {digest} has {length} bytes there, and {size} here", repository.name);
            Err(Fault::because(Why::Wrong, what))
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
    let ask = Ask::new(Method::POST, Where::Path(&path), &scopes, &[201, 202], repository.terms.idle)
        .payload(Payload::Bytes(Bytes::new()));
    let answer = match mirror.server.request(ask).await {
        Ok(answer) => answer,
        // Not allowed to read there, or no such repository: then it is sent.
        Err(fault) if matches!(fault.why, Why::Denied | Why::Missing) => return Ok(false),
        Err(fault) => return Err(fault),
    };
    if answer.response.status() == StatusCode::CREATED {
        return Ok(true);
    }
    // It has begun an upload instead, which nobody wants.
    if let Ok(session) = Session::of(repository, &answer) {
        session.cancel().await;
    }
    Ok(false)
}

/// What the registry says it has stored must be what it was sent.
fn same_digest(answer: &Fetched, digest: &Digest) -> Result<(), Fault> {
    match header(answer, &DIGEST).and_then(|said| said.parse::<Digest>().ok()) {
        Some(said) if said.algorithm() == digest.algorithm() && said != *digest => {
            let what =
                format!("{}: it was sent {digest}, and says that it has {said}", answer.location.shown());
            Err(Fault::new(Why::Wrong, Error::refused(what)))
        }
        _ => Ok(()),
    }
}

fn header<'a>(answer: &'a Fetched, name: &HeaderName) -> Option<&'a str> {
    answer.response.headers().get(name)?.to_str().ok()
}
