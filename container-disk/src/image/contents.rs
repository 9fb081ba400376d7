//! The documents and blobs of an image, or of all images of an index.
//!
//! A parsed document takes many times the memory of its bytes. So only the bytes are kept, within a bound, and
//! a document is parsed again when it is needed.

use crate::manifest::{self, Content, Descriptor, Document};
use crate::place::{Place, Reference};
use crate::{Digest, Error, Result};
use std::collections::BTreeMap;

/// Maximum nesting of indexes.
const DEEPEST: u32 = 3;
const MOST_DOCUMENTS: usize = 256;
/// Maximum size of all documents together.
const MOST_BYTES: usize = 32 << 20;
/// Maximum number of blobs: an image has some dozens at most.
const MOST_BLOBS: usize = 1 << 14;

/// Everything below a document, and the document itself.
pub(crate) struct Contents {
    /// Leaves first, each once.
    pub(crate) documents: Vec<RawDocument>,
    /// Each blob once.
    pub(crate) blobs: Vec<Descriptor>,
}

/// The bytes of a document that was parsed once without an error.
pub(crate) struct RawDocument {
    bytes: Vec<u8>,
    media_type: String,
    digest: Digest,
}

impl Contents {
    pub(crate) fn below(from: &dyn Place, top: Document) -> Result<Contents> {
        let seen = [(top.digest, top.bytes.len() as u64)].into();
        let mut walk = Walk { from, documents: vec![], held: 0, blobs: BTreeMap::new(), seen };
        walk.add(top, 0)?;
        Ok(Contents { documents: walk.documents, blobs: walk.blobs.into_values().collect() })
    }
}

impl RawDocument {
    pub(crate) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(crate) fn parse(&self, name: &str) -> Result<Document> {
        Ok(Document::parse(name, self.bytes.clone(), Some(&self.media_type))?.listed_as(self.digest))
    }
}

struct Walk<'a> {
    from: &'a dyn Place,
    documents: Vec<RawDocument>,
    /// Bytes of the documents so far.
    held: usize,
    blobs: BTreeMap<Digest, Descriptor>,
    /// Documents that were read, and their sizes.
    seen: BTreeMap<Digest, u64>,
}

impl Walk<'_> {
    fn add(&mut self, document: Document, depth: u32) -> Result<()> {
        self.bound(&document, depth)?;
        let Document { mut bytes, media_type, content, digest } = document;
        bytes.shrink_to_fit();
        match content {
            Content::Manifest(manifest) => {
                for blob in std::iter::once(&manifest.config).chain(&manifest.layers) {
                    self.blob(blob)?;
                }
            }
            Content::Index(index) => {
                let entries = index.manifests.iter().map(|entry| {
                    let digest = entry.digest.parse::<Digest>();
                    digest.map(|digest| (digest, entry.size))
                });
                let entries = entries.collect::<Result<Vec<_>>>()?;
                drop(index);
                for (digest, size) in entries {
                    if let Some(inner) = self.inner(digest, size)? {
                        self.add(inner, depth + 1)?;
                    }
                }
            }
        }
        self.documents.push(RawDocument { bytes, media_type, digest });
        Ok(())
    }

    fn bound(&mut self, document: &Document, depth: u32) -> Result<()> {
        let name = self.from.name();
        self.held = self.held.saturating_add(document.bytes.len());
        if depth > DEEPEST || self.seen.len() > MOST_DOCUMENTS {
            let what = format!(
                "{name}: its indexes hold more than {MOST_DOCUMENTS} documents, or are nested deeper than"
            );
            return Err(Error::refused(format!("{what} {DEEPEST} levels")));
        }
        if self.held > MOST_BYTES {
            let most = MOST_BYTES >> 20;
            return Err(Error::refused(format!(
                "{name}: its indexes and manifests have more than {most} MiB"
            )));
        }
        Ok(())
    }

    fn blob(&mut self, blob: &Descriptor) -> Result<()> {
        let (name, digest) = (self.from.name(), blob.digest.parse::<Digest>()?);
        match self.blobs.get(&digest) {
            Some(known) if known.size != blob.size => {
                let (a, b) = (known.size, blob.size);
                let what = format!("{name} lists the blob {digest} with two sizes, {a} and {b} bytes");
                Err(Error::refused(what))
            }
            Some(_) => Ok(()),
            None if self.blobs.len() == MOST_BLOBS => {
                Err(Error::refused(format!("{name}: its manifests list more than {MOST_BLOBS} blobs")))
            }
            None => {
                let size = manifest::size(name, blob.size)?;
                // Without annotations, which may be large.
                self.blobs.insert(digest, manifest::descriptor(&blob.media_type, &digest, size)?);
                Ok(())
            }
        }
    }

    /// A document that an index lists. `None` if it was read before: an index may list one document for
    /// several platforms.
    fn inner(&mut self, digest: Digest, size: i64) -> Result<Option<Document>> {
        let (is, inner) = match self.seen.get(&digest) {
            Some(is) => (*is, None),
            None => {
                let inner = self.from.document(&Reference::Digest(digest))?;
                (inner.bytes.len() as u64, Some(inner))
            }
        };
        let name = self.from.name();
        if is != manifest::size(name, size)? {
            let what = format!("{name}: the manifest {digest} has {is} bytes, but its index lists {size}");
            return Err(Error::refused(what));
        }
        self.seen.insert(digest, is);
        Ok(inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::place::Blob;
    use serde_json::{Value, json};
    use std::collections::HashMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A place with documents alone, and the number of reads.
    struct Documents(HashMap<Digest, Vec<u8>>, AtomicUsize);

    impl Place for Documents {
        fn name(&self) -> &str {
            "oci:x"
        }

        fn document(&self, reference: &Reference) -> Result<Document> {
            let Reference::Digest(digest) = reference else { unreachable!("an index lists digests") };
            self.1.fetch_add(1, Relaxed);
            Document::parse("oci:x", self.0[digest].clone(), None)
        }

        fn blob(&self, _: &Descriptor) -> Result<Arc<dyn Blob>> {
            unreachable!("only documents are read")
        }
    }

    fn part(digest: &str, size: usize) -> Value {
        json!({ "mediaType": "application/octet-stream", "digest": digest, "size": size })
    }

    fn blob(number: usize) -> Value {
        part(&Digest::of(&number.to_le_bytes()).to_string(), 10)
    }

    /// A manifest with these layers, and `fill` bytes more.
    fn manifest(layers: &[Value], number: usize, fill: usize) -> Vec<u8> {
        let fill = format!("{number}{}", "x".repeat(fill));
        let manifest = json!({
            "schemaVersion": 2, "mediaType": manifest::OCI_IMAGE_MEDIA_TYPE,
            "config": blob(0), "layers": layers, "annotations": { "a": fill },
        });
        manifest.to_string().into_bytes()
    }

    /// The contents of an index of these manifests.
    fn of_index(manifests: Vec<Vec<u8>>) -> Result<Contents> {
        of_index_counted(manifests).map(|(contents, _)| contents)
    }

    /// The contents of an index of these manifests, and the number of reads.
    fn of_index_counted(manifests: Vec<Vec<u8>>) -> Result<(Contents, usize)> {
        let entries: Vec<Value> = manifests
            .iter()
            .map(|bytes| {
                let mut entry = part(&Digest::of(bytes).to_string(), bytes.len());
                entry["mediaType"] = manifest::OCI_IMAGE_MEDIA_TYPE.into();
                entry
            })
            .collect();
        let index = json!({
            "schemaVersion": 2, "mediaType": manifest::OCI_IMAGE_INDEX_MEDIA_TYPE, "manifests": entries,
        });
        let top = Document::parse("oci:x", index.to_string().into_bytes(), None)?;
        let documents = manifests.into_iter().map(|bytes| (Digest::of(&bytes), bytes)).collect();
        let from = Documents(documents, AtomicUsize::new(0));
        let contents = Contents::below(&from, top)?;
        Ok((contents, from.1.into_inner()))
    }

    #[test]
    fn documents_come_leaves_first_and_each_blob_once() {
        let manifests = vec![manifest(&[blob(1)], 1, 0), manifest(&[blob(1), blob(2)], 2, 0)];
        let found = of_index(manifests.clone()).unwrap();
        let bytes: Vec<Vec<u8>> =
            found.documents.iter().map(|document| document.parse("x").unwrap().bytes).collect();
        assert_eq!((&bytes[..2], bytes.len(), found.blobs.len()), (&manifests[..], 3, 3));
    }

    #[test]
    fn documents_and_blobs_are_bounded_together() {
        let of_mebibytes = |count| (0..count).map(|number| manifest(&[], number, 1 << 20)).collect();
        assert_eq!(of_index(of_mebibytes(31)).unwrap().documents.len(), 32);
        let e = of_index(of_mebibytes(32)).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains("more than 32 MiB"), "{e}");

        // As many layers as a manifest may have, in as many manifests as are needed.
        let layers = |count| -> Vec<Vec<u8>> {
            let blobs: Vec<Value> = (1..count).map(blob).collect();
            blobs.chunks(128).enumerate().map(|(at, layers)| manifest(layers, at, 0)).collect()
        };
        assert_eq!(of_index(layers(MOST_BLOBS)).unwrap().blobs.len(), MOST_BLOBS);
        let e = of_index(layers(MOST_BLOBS + 1)).err().unwrap();
        assert!(e.to_string().contains("more than 16384 blobs"), "{e}");
        let many = (0..MOST_DOCUMENTS).map(|number| manifest(&[], number, 0)).collect();
        assert!(of_index(many).err().unwrap().to_string().contains("more than 256 documents"));
    }

    #[test]
    fn a_document_that_is_listed_many_times_is_read_once() {
        let (contents, reads) = of_index_counted(vec![manifest(&[blob(1)], 1, 0); 300]).unwrap();
        assert_eq!((contents.documents.len(), contents.blobs.len(), reads), (2, 2, 1));
    }

    #[test]
    fn a_blob_with_two_sizes_is_refused() {
        let mut other = blob(1);
        other["size"] = 11.into();
        let e = of_index(vec![manifest(&[blob(1), other], 0, 0)]).err().unwrap();
        assert!(e.to_string().contains("with two sizes, 10 and 11 bytes"), "{e}");
    }
}
