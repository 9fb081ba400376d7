//! Download of manifests and indexes. Each is read completely and verified before it is used. A wrong one
//! counts as a failure of the mirror, and the next is asked.

use super::config::MirrorUse;
use super::mirror_session::MirrorSession;
use super::push;
use super::repository::{Mirror, Repository};
use super::server_connection::{RequestTarget, ServerRequest};
use crate::manifest::{
    DOCUMENT_MAX, Document, IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE,
    OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE,
};
use crate::place::Reference;
use crate::{Digest, Error, Result};
use fetch::authorize::Scopes;
use fetch::body::{self, Wait};
use fetch::{Fault, FaultKind, Fetched};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName};
use reqwest::{Method, StatusCode};
use std::sync::{Arc, PoisonError};

const KINDS: [&str; 4] = [
    OCI_IMAGE_MEDIA_TYPE,
    OCI_IMAGE_INDEX_MEDIA_TYPE,
    IMAGE_MANIFEST_MEDIA_TYPE,
    IMAGE_MANIFEST_LIST_MEDIA_TYPE,
];

/// Header with the registry's own statement of the digest.
pub(super) const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// Fetches a document. A tag is resolved once; later requests use the digest from then.
pub(super) async fn get(repository: &Arc<Repository>, reference: &Reference) -> Result<Document> {
    let known = match reference {
        Reference::Digest(_) => None,
        Reference::Tag(tag) => {
            repository.tags.lock().unwrap_or_else(PoisonError::into_inner).get(tag).copied()
        }
    };
    let by = known.map_or_else(|| reference.clone(), Reference::Digest);
    let name = name(repository, reference);
    let mut mirror_session = MirrorSession::new(repository, name.clone(), None).only(|mirror| {
        let asks = repository.mirrors.get(mirror).map(|mirror| mirror.asks);
        !matches!(
            (asks, &by),
            (Some(MirrorUse::Digests), Reference::Tag(_)) | (Some(MirrorUse::Tags), Reference::Digest(_))
        )
    });
    let mut at = mirror_session.start().await?;
    loop {
        let Some(mirror) = repository.mirrors.get(at) else { return Err(Error::failed(name)) };
        match once(repository, mirror, &by, &name).await {
            Ok(document) => {
                mirror_session.well_done();
                if let Reference::Tag(tag) = reference {
                    let mut tags = repository.tags.lock().unwrap_or_else(PoisonError::into_inner);
                    tags.entry(tag.clone()).or_insert(document.digest);
                }
                return Ok(document);
            }
            Err(fault) => at = mirror_session.failed(fault, 0, 0).await?,
        }
    }
}

/// The document's name for messages: `docker://h/r:t`, `docker://h/r@sha256:…`.
pub(super) fn name(repository: &Repository, reference: &Reference) -> String {
    match reference {
        Reference::Tag(tag) => format!("{}:{tag}", repository.name),
        Reference::Digest(digest) => format!("{}@{digest}", repository.name),
    }
}

/// Asks the host itself, and no mirror, for the present document of a tag, also if the tag was resolved
/// before. `None` if the host says that the tag does not exist.
pub(super) async fn at_origin(repository: &Arc<Repository>, tag: &str) -> Result<Option<Document>> {
    let by = Reference::Tag(tag.to_owned());
    let name = name(repository, &by);
    push::at_origin(repository, &name, async |origin| {
        let scopes = Scopes::push(&origin.repository);
        let answer = request(repository, origin, &by, &scopes, &[200, 404]).await?;
        if answer.response.status() == StatusCode::NOT_FOUND {
            return missing(&name, &answer).map(|()| None);
        }
        read(repository, origin, &by, &name, answer).await.map(Some)
    })
    .await
}

/// Fails if another server, to which the host redirected, gave the 404: the host itself has the tag.
fn missing(name: &str, answer: &Fetched) -> Result<(), Fault> {
    if !answer.redirected {
        return Ok(());
    }
    let what = format!("{name}: the registry redirected to {}, which lacks it", answer.location.shown());
    Err(Fault::from_kind(FaultKind::Odd, what))
}

async fn once(
    repository: &Repository,
    mirror: &Mirror,
    by: &Reference,
    name: &str,
) -> Result<Document, Fault> {
    let answer = request(repository, mirror, by, &Scopes::pull(&mirror.repository), &[200]).await?;
    read(repository, mirror, by, name, answer).await
}

async fn request(
    repository: &Repository,
    mirror: &Mirror,
    by: &Reference,
    scopes: &Scopes,
    fine: &[u16],
) -> Result<Fetched, Fault> {
    let reference = match by {
        Reference::Tag(tag) => tag.clone(),
        Reference::Digest(digest) => digest.to_string(),
    };
    let path = mirror.path(&format!("manifests/{reference}"));
    let target = RequestTarget::Path(&path);
    let ask = ServerRequest::new(Method::GET, target, scopes, fine, repository.terms.idle);
    mirror.server.request(ask.header(ACCEPT, &KINDS.join(", "))?).await
}

/// Reads a document from its response and verifies it.
async fn read(
    repository: &Repository,
    mirror: &Mirror,
    by: &Reference,
    name: &str,
    mut answer: Fetched,
) -> Result<Document, Fault> {
    let from = format!("{name} from {}", mirror.server.address);
    let wait = Wait::with_idle(repository.terms.idle);
    let body = body::short(&mut answer.response, DOCUMENT_MAX as usize, wait, &from).await?;
    let header =
        |name: &HeaderName| answer.response.headers().get(name).and_then(|value| value.to_str().ok());
    let wrong = |digest: &Digest, what: &str| {
        Fault::from_kind(FaultKind::Wrong, format!("{from} has the digest {digest}, not {what}"))
    };
    let document =
        Document::parse(&from, body, header(&CONTENT_TYPE)).map_err(|e| Fault::new(FaultKind::Wrong, e))?;
    if let Reference::Digest(wanted) = by
        && !matches(wanted, &document)
    {
        return Err(wrong(&document.digest, &wanted.to_string()));
    }
    // The digest header, if it has a known algorithm, must be right as well.
    match header(&DIGEST).and_then(|said| said.parse::<Digest>().ok()) {
        Some(said) if !matches(&said, &document) => {
            Err(wrong(&document.digest, &format!("{said}, as its Docker-Content-Digest header claims")))
        }
        _ => Ok(match by {
            Reference::Digest(wanted) => document.listed_as(*wanted),
            Reference::Tag(_) => document,
        }),
    }
}

fn matches(wanted: &Digest, document: &Document) -> bool {
    let mut hash = crate::digest::Hasher::like(wanted);
    hash.update(&document.bytes);
    hash.finish() == *wanted
}
