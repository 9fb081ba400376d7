//! Reader for `oci-archive:FILE[:TAG]`.

use super::contents::Contents;
use crate::layout::blobs::OpenBlob;
use crate::layout::index::{INDEX, Index};
use crate::layout::{OCI_LAYOUT, check_version, checked};
use crate::manifest::{self, Descriptor, Document};
use crate::place::{Blob, Place, Reference};
use crate::tar::quoted;
use crate::{Digest, Error, ErrorKind, Result};
use std::path::Path;
use std::sync::Arc;

/// An image layout in a tar file.
pub struct OciArchive {
    contents: Contents,
    index: Index,
}

impl OciArchive {
    /// Opens the archive and reads its member headers and its index.
    pub fn open(path: &Path) -> Result<OciArchive> {
        OciArchive::from_contents(Contents::open("oci-archive", path)?)
    }

    pub(super) fn from_contents(contents: Contents) -> Result<OciArchive> {
        let name = &contents.name;
        let said = contents.document(OCI_LAYOUT).map_err(|e| no_archive(name, e))?;
        check_version(name, &said)?;
        let index = contents.document(INDEX).map_err(|e| no_archive(name, e))?;
        let index = Index::parse(&format!("{INDEX} of {name}"), &index)?;
        Ok(OciArchive { contents, index })
    }

    /// The reference for a tag that the user gave. Without a tag the archive must hold exactly one image.
    pub fn reference(&self, tag: Option<&str>) -> Result<Reference> {
        self.index.reference(self.name(), tag)
    }
}

impl Place for OciArchive {
    fn name(&self) -> &str {
        &self.contents.name
    }

    fn document(&self, reference: &Reference) -> Result<Document> {
        let (digest, said) = match reference {
            Reference::Digest(digest) => (*digest, None),
            Reference::Tag(tag) => {
                let entry = self.index.find(self.name(), tag)?;
                (entry.digest.parse()?, entry.media_type.as_deref())
            }
        };
        let bytes = self.contents.document(&path(&digest))?;
        checked(&format!("{digest} of {}", self.name()), &digest, bytes, said)
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
        let digest: Digest = descriptor.digest.parse()?;
        let name = format!("the blob {digest} of {}", self.name());
        let Some(bytes) = self.contents.file(&path(&digest))? else {
            return Err(Error::new(ErrorKind::NotFound, format!("{} has no blob {digest}", self.name())));
        };
        let promised = manifest::size(&name, descriptor.size)?;
        if bytes.size() != promised {
            let what = format!("{name} has {} bytes, not the {promised} its manifest promises", bytes.size());
            return Err(Error::refused(what));
        }
        Ok(Arc::new(OpenBlob { name, digest, bytes }))
    }
}

/// Name of a blob's member in the archive.
pub(super) fn path(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm(), digest.hex())
}

fn no_archive(name: &str, e: Error) -> Error {
    match e.kind() {
        ErrorKind::NotFound => {
            let what = format!("{name} is not an OCI archive: {} is missing", quoted(OCI_LAYOUT));
            Error::refused(what).because(e)
        }
        _ => e,
    }
}
