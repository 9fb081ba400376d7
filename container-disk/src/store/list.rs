//! List of the images in the store. An image that cannot be read is listed with the error.

use crate::image::contents::{Contents, RawDocument};
use crate::layout::{Layout, index};
use crate::manifest::Content;
use crate::place::{Place, Reference};
use crate::{Digest, Result, image};

/// A named image in the store.
#[derive(Debug)]
pub struct Listed {
    /// The image's name, as `NAME:TAG`.
    pub name: String,
    /// Digest of its manifest or index.
    pub digest: Digest,
    /// Facts about the image, or the error of reading it.
    pub facts: Result<ListedFacts>,
}

/// Facts about a listed image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFacts {
    /// Total size of all its documents and blobs in bytes, each counted once.
    pub size: u64,
    /// Architectures from its configs, in the order of the index.
    pub architectures: Vec<String>,
    /// The first creation date among its configs, in its original form.
    pub created: Option<String>,
}

pub(super) fn list(layout: &Layout) -> Result<Vec<Listed>> {
    let mut listed = vec![];
    for entry in index::read(&layout.top)?.manifests {
        let Some(name) = entry.tag() else { continue };
        let digest: Digest = entry.digest.parse()?;
        listed.push(Listed { name: name.to_owned(), digest, facts: facts(layout, &digest) });
    }
    listed.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(listed)
}

fn facts(place: &dyn Place, digest: &Digest) -> Result<ListedFacts> {
    let Contents { documents, blobs } = Contents::below(place, place.document(&Reference::Digest(*digest))?)?;
    let blobs = blobs.iter().filter_map(|blob| u64::try_from(blob.size).ok());
    let sizes = documents.iter().map(RawDocument::size).chain(blobs);
    let size = sizes.fold(0, u64::saturating_add);
    let mut facts = ListedFacts { size, architectures: vec![], created: None };
    for document in documents {
        let Content::Manifest(manifest) = document.parse(place.name())?.content else { continue };
        let config = image::Config::read(place, &manifest)?;
        facts.created = facts.created.or(config.created);
        facts.architectures.push(config.architecture);
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::{image_of, store};
    use crate::manifest::{self, Descriptor, Document};
    use crate::place::Blob;
    use serde_json::json;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A place that counts reads of documents.
    struct Counted(Layout, AtomicUsize);

    impl Place for Counted {
        fn name(&self) -> &str {
            self.0.name()
        }

        fn document(&self, reference: &Reference) -> Result<Document> {
            self.1.fetch_add(1, Relaxed);
            self.0.document(reference)
        }

        fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
            self.0.blob(descriptor)
        }
    }

    #[test]
    fn a_document_that_an_index_lists_many_times_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::create(folder.path()).unwrap();
        let image = image_of(&layout, &[]);
        let entry = json!({
            "mediaType": manifest::OCI_IMAGE_MEDIA_TYPE,
            "digest": image.digest.to_string(), "size": image.bytes.len(),
        });
        let index = json!({
            "schemaVersion": 2, "mediaType": manifest::OCI_IMAGE_INDEX_MEDIA_TYPE, "manifests": vec![entry; 300],
        });
        let index = store(&layout, "x", index.to_string().as_bytes());
        let place = Counted(layout, AtomicUsize::new(0));
        let facts = facts(&place, &index.digest.parse().unwrap()).unwrap();
        assert_eq!(facts.architectures, ["amd64"]);
        assert_eq!(place.1.into_inner(), 2);
    }
}
