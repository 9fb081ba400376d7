//! The documents of an image: index, manifest, config. Their size is limited before they are parsed, their
//! original bytes are kept for the digest, and their media type must match their content.

use crate::{Digest, Error, Result};
use std::io::Read;

pub use oci_distribution::manifest::{
    IMAGE_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE,
    IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE, IMAGE_LAYER_GZIP_MEDIA_TYPE, IMAGE_LAYER_MEDIA_TYPE,
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, ImageIndexEntry as IndexEntry,
    OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor as Descriptor, OciImageIndex as Index,
    OciImageManifest as Manifest, Platform,
};

/// Media type of a zstd layer, which oci-client lacks.
pub const IMAGE_LAYER_ZSTD_MEDIA_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+zstd";

/// Maximum size of a manifest, index or config.
pub const DOCUMENT_MAX: u64 = 4 << 20;
/// Maximum number of layers. Container runtimes accept no more. Each costs a read, even if all are one blob.
pub const LAYERS_MAX: usize = 128;

/// A parsed manifest or index, with its original bytes.
#[derive(Debug, Clone)]
pub struct Document {
    /// The stored bytes, over which the digest is computed.
    pub bytes: Vec<u8>,
    /// The digest of `bytes`: the one by which its place lists it, else by SHA-256.
    pub digest: Digest,
    /// The media type. The place that holds the document and the document itself must agree on it.
    pub media_type: String,
    pub content: Content,
}

/// The kinds of documents.
#[derive(Debug, Clone)]
pub enum Content {
    Manifest(Box<Manifest>),
    Index(Box<Index>),
}

impl Document {
    /// Parses a document. `name` is for messages. `said` is the media type that the place reports, if any. A
    /// document with a different type in its own `mediaType` field is refused.
    pub fn parse(name: &str, bytes: Vec<u8>, said: Option<&str>) -> Result<Document> {
        if bytes.len() as u64 > DOCUMENT_MAX {
            return Err(too_large(name));
        }
        let bad = |e: serde_json::Error| Error::refused(format!("{name} is not a manifest")).because(e);
        let own: KindFields = serde_json::from_slice(&bytes).map_err(bad)?;
        let said = said.map(essence).filter(|said| is_known(said));
        let media_type = match (own.media_type.as_deref(), said) {
            (Some(own), Some(said)) if own != said => {
                let what = format!("{name} has the mediaType {own}, but is served as {said}");
                return Err(Error::refused(what));
            }
            (Some(own), _) => own.to_owned(),
            (None, Some(said)) => said.to_owned(),
            (None, None) if own.manifests.is_some() => OCI_IMAGE_INDEX_MEDIA_TYPE.to_owned(),
            (None, None) => OCI_IMAGE_MEDIA_TYPE.to_owned(),
        };
        let both = own.manifests.is_some() && own.layers.is_some();
        if both {
            return Err(Error::refused(format!("{name} has the fields of an index and of a manifest")));
        }
        let content = match media_type.as_str() {
            OCI_IMAGE_INDEX_MEDIA_TYPE | IMAGE_MANIFEST_LIST_MEDIA_TYPE => {
                Content::Index(serde_json::from_slice(&bytes).map_err(bad)?)
            }
            OCI_IMAGE_MEDIA_TYPE | IMAGE_MANIFEST_MEDIA_TYPE => {
                Content::Manifest(serde_json::from_slice(&bytes).map_err(bad)?)
            }
            other => return Err(Error::refused(format!("{name} is a {other}, not an image"))),
        };
        let document = Document { digest: Digest::of(&bytes), bytes, media_type, content };
        document.check(name)?;
        Ok(document)
    }

    /// The same document by a digest of another algorithm, which is that of its bytes.
    pub(crate) fn listed_as(self, digest: Digest) -> Document {
        Document { digest, ..self }
    }

    /// The descriptor of the document.
    pub(crate) fn descriptor(&self) -> Result<Descriptor> {
        descriptor(&self.media_type, &self.digest, self.bytes.len() as u64)
    }

    /// Fails if there are too many layers, or if a descriptor has a negative size, an unknown digest algorithm,
    /// or URLs of another place.
    fn check(&self, name: &str) -> Result<()> {
        let found: Vec<&Descriptor> = match &self.content {
            Content::Manifest(m) => {
                few_layers(name, m.layers.len())?;
                std::iter::once(&m.config).chain(&m.layers).collect()
            }
            Content::Index(i) => {
                for entry in &i.manifests {
                    entry.digest.parse::<Digest>().map_err(|e| within(name, &e))?;
                    size(name, entry.size)?;
                }
                vec![]
            }
        };
        for descriptor in found {
            descriptor.digest.parse::<Digest>().map_err(|e| within(name, &e))?;
            size(name, descriptor.size)?;
            if descriptor.urls.as_ref().is_some_and(|urls| !urls.is_empty()) {
                let what = format!(
                    "{name} refers to {} by URLs; such foreign layers are not supported",
                    descriptor.digest
                );
                return Err(Error::refused(what));
            }
        }
        Ok(())
    }
}

/// Fails if an image has too many layers.
pub(crate) fn few_layers(name: &str, count: usize) -> Result<()> {
    if count <= LAYERS_MAX {
        return Ok(());
    }
    Err(Error::refused(format!("{name} has {count} layers; at most {LAYERS_MAX} are allowed")))
}

/// Reads a document into memory. A document over the limit is refused before it is parsed.
pub fn read_bounded(name: &str, from: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(DOCUMENT_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|e| Error::io(format!("cannot read {name}"), e))?;
    if bytes.len() as u64 > DOCUMENT_MAX { Err(too_large(name)) } else { Ok(bytes) }
}

/// The descriptor of a blob or document.
pub fn descriptor(media_type: &str, digest: &Digest, size: u64) -> Result<Descriptor> {
    let size =
        i64::try_from(size).map_err(|_| Error::refused(format!("{digest} is too large for a descriptor")))?;
    let (media_type, digest) = (media_type.to_owned(), digest.to_string());
    Ok(Descriptor { media_type, digest, size, ..Descriptor::default() })
}

/// The size in a descriptor, which must not be negative.
pub fn size(name: &str, size: i64) -> Result<u64> {
    u64::try_from(size).map_err(|_| Error::refused(format!("{name} has a descriptor with the size {size}")))
}

/// The fields that distinguish a manifest from an index.
#[derive(serde::Deserialize)]
struct KindFields {
    #[serde(rename = "mediaType")]
    media_type: Option<String>,
    manifests: Option<serde::de::IgnoredAny>,
    layers: Option<serde::de::IgnoredAny>,
}

fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

fn is_known(media_type: &str) -> bool {
    [
        OCI_IMAGE_INDEX_MEDIA_TYPE,
        IMAGE_MANIFEST_LIST_MEDIA_TYPE,
        OCI_IMAGE_MEDIA_TYPE,
        IMAGE_MANIFEST_MEDIA_TYPE,
    ]
    .contains(&media_type)
}

fn too_large(name: &str) -> Error {
    Error::refused(format!("{name} is larger than the {} MiB any manifest may have", DOCUMENT_MAX >> 20))
}

fn within(name: &str, e: &Error) -> Error {
    Error::refused(format!("{name}: {e}"))
}
