//! The documents of an image: index, manifest, config. Bounded before they are parsed, kept as the bytes that were
//! signed for by their digest, media types checked against what the bytes say.

use crate::{Digest, Error, Result};
use std::io::Read;

pub use oci_distribution::manifest::{
    IMAGE_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE,
    IMAGE_DOCKER_LAYER_TAR_MEDIA_TYPE, IMAGE_LAYER_GZIP_MEDIA_TYPE, IMAGE_LAYER_MEDIA_TYPE,
    IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, ImageIndexEntry as IndexEntry,
    OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor as Descriptor, OciImageIndex as Index,
    OciImageManifest as Manifest, Platform,
};

/// A layer compressed with zstd; oci-client names none.
pub const IMAGE_LAYER_ZSTD_MEDIA_TYPE: &str = "application/vnd.oci.image.layer.v1.tar+zstd";

/// No manifest, index or config is larger than this.
pub const DOCUMENT_MAX: u64 = 4 << 20;

/// A manifest or an index: its bytes, and what they are.
#[derive(Debug, Clone)]
pub struct Document {
    /// Exactly what was stored; the digest is over these.
    pub bytes: Vec<u8>,
    /// The digest of `bytes`.
    pub digest: Digest,
    /// As the place that holds it and the document itself agree.
    pub media_type: String,
    /// What they mean.
    pub content: Content,
}

/// What a document is.
#[derive(Debug, Clone)]
pub enum Content {
    /// One image.
    Manifest(Box<Manifest>),
    /// Images for several platforms.
    Index(Box<Index>),
}

impl Document {
    /// Parses. `name` is for messages; `said` is the media type the place told, if any: where the document names its
    /// own and they differ, it is refused.
    pub fn parse(name: &str, bytes: Vec<u8>, said: Option<&str>) -> Result<Document> {
        if bytes.len() as u64 > DOCUMENT_MAX {
            return Err(too_large(name));
        }
        let bad = |e: serde_json::Error| Error::refused(format!("{name} is not a manifest")).because(e);
        let own: Own = serde_json::from_slice(&bytes).map_err(bad)?;
        let said = said.map(essence).filter(|said| is_known(said));
        let media_type = match (own.media_type.as_deref(), said) {
            (Some(own), Some(said)) if own != said => {
                let what = format!("{name} calls itself {own} and is served as {said}");
                return Err(Error::refused(what));
            }
            (Some(own), _) => own.to_owned(),
            (None, Some(said)) => said.to_owned(),
            (None, None) if own.manifests.is_some() => OCI_IMAGE_INDEX_MEDIA_TYPE.to_owned(),
            (None, None) => OCI_IMAGE_MEDIA_TYPE.to_owned(),
        };
        let both = own.manifests.is_some() && own.layers.is_some();
        if both {
            return Err(Error::refused(format!("{name} claims to be an index and a manifest at once")));
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

    /// Every descriptor has a size that is not negative, a digest we know, and carries no URL to follow.
    fn check(&self, name: &str) -> Result<()> {
        let found: Vec<&Descriptor> = match &self.content {
            Content::Manifest(m) => std::iter::once(&m.config).chain(&m.layers).collect(),
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
                    "{name} keeps {} elsewhere (urls); foreign layers are never followed",
                    descriptor.digest
                );
                return Err(Error::refused(what));
            }
        }
        Ok(())
    }
}

/// Reads a document and refuses one that is too large, before it is parsed.
pub fn read_bounded(name: &str, from: impl Read) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = from.take(DOCUMENT_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|e| Error::io(format!("cannot read {name}"), e))?;
    if bytes.len() as u64 > DOCUMENT_MAX { Err(too_large(name)) } else { Ok(bytes) }
}

/// What a manifest or an index says of a blob or a document.
pub fn descriptor(media_type: &str, digest: &Digest, size: u64) -> Result<Descriptor> {
    let size =
        i64::try_from(size).map_err(|_| Error::refused(format!("{digest} is too large to be named")))?;
    let (media_type, digest) = (media_type.to_owned(), digest.to_string());
    Ok(Descriptor { media_type, digest, size, ..Descriptor::default() })
}

/// The size a descriptor promises.
pub fn size(name: &str, size: i64) -> Result<u64> {
    u64::try_from(size).map_err(|_| Error::refused(format!("{name} promises a blob of {size} bytes")))
}

/// What tells which kind of document it is.
#[derive(serde::Deserialize)]
struct Own {
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
