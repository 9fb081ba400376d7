//! Choice of one image from an index, by architecture.

use crate::manifest::{Content, Document, Index, IndexEntry};
use crate::place::{Place, Reference};
use crate::{Error, ErrorKind, Result};

/// Maximum nesting of indexes.
const DEPTH: usize = 4;

/// The manifest of the image for `architecture` (`amd64`, or `arm64/v8`). A reference to a single image
/// returns that image, whatever its architecture.
pub fn manifest(place: &dyn Place, reference: &Reference, architecture: &str) -> Result<Document> {
    below(place, place.document(reference)?, architecture)
}

/// Like `manifest`, for a document that was read already.
pub(crate) fn below(place: &dyn Place, mut document: Document, architecture: &str) -> Result<Document> {
    for _ in 0..DEPTH {
        let Content::Index(index) = &document.content else { return Ok(document) };
        let entry = fitting(place.name(), index, architecture)?;
        let next = place.document(&Reference::Digest(entry.digest.parse()?))?;
        if next.bytes.len() as u64 != crate::manifest::size(place.name(), entry.size)? {
            let what =
                format!("an index of {} promises {} bytes for {}", place.name(), entry.size, entry.digest);
            return Err(Error::refused(what));
        }
        document = next;
    }
    Err(Error::refused(format!("{} has indexes in indexes, more than {DEPTH} deep", place.name())))
}

/// The first entry for the architecture. Entries without a platform match any architecture, with lower
/// priority.
pub(crate) fn fitting<'a>(name: &str, index: &'a Index, architecture: &str) -> Result<&'a IndexEntry> {
    let (wanted, variant) = match architecture.split_once('/') {
        Some((wanted, variant)) => (wanted, Some(variant)),
        None => (architecture, None),
    };
    let fits = |entry: &&IndexEntry| {
        entry.platform.as_ref().is_some_and(|p| {
            p.os.to_string() == "linux"
                && p.architecture.to_string() == wanted
                && variant.is_none_or(|v| p.variant.as_deref() == Some(v))
        })
    };
    let found = index.manifests.iter().find(fits);
    let found = found.or_else(|| index.manifests.iter().find(|entry| entry.platform.is_none()));
    found.ok_or_else(|| {
        let known: Vec<String> = index.manifests.iter().filter_map(platform).take(16).collect();
        let what = format!("{name} has no image for {architecture}; it has {}", known.join(", "));
        Error::new(ErrorKind::NotFound, what)
    })
}

/// The platform as text, such as `arm64/v8`. `None` if the entry has no platform.
pub(crate) fn platform(entry: &IndexEntry) -> Option<String> {
    let p = entry.platform.as_ref()?;
    Some(match &p.variant {
        Some(variant) => format!("{}/{variant}", p.architecture),
        None => p.architecture.to_string(),
    })
}
