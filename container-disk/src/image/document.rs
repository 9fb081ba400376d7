//! Construction of manifests and indexes.

use super::{Config, Recipe};
use crate::manifest::{
    Content, Document, IMAGE_CONFIG_MEDIA_TYPE, IMAGE_DOCKER_CONFIG_MEDIA_TYPE,
    IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE, IMAGE_MANIFEST_LIST_MEDIA_TYPE, IMAGE_MANIFEST_MEDIA_TYPE, Index,
    Manifest, OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, Platform, descriptor,
};
use crate::pack::Compression;
use crate::{Digest, Error, Result};

/// Format of the documents. Container runtimes read both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ManifestFormat {
    /// Format of the Open Container Initiative.
    Oci,
    /// Docker's manifest schema 2. It has neither zstd layers nor annotations.
    Docker,
}

/// Media type of an uncompressed layer in Docker's manifests. Docker specifies none; clients accept this one.
const DOCKER_LAYER: &str = "application/vnd.docker.image.rootfs.diff.tar";

/// The config (as JSON) and the manifest for the image of a recipe.
pub fn manifest(recipe: &Recipe) -> Result<(Vec<u8>, Document)> {
    let (own, config_type) = match recipe.kind {
        ManifestFormat::Oci => (OCI_IMAGE_MEDIA_TYPE, IMAGE_CONFIG_MEDIA_TYPE),
        ManifestFormat::Docker => (IMAGE_MANIFEST_MEDIA_TYPE, IMAGE_DOCKER_CONFIG_MEDIA_TYPE),
    };
    if recipe.kind == ManifestFormat::Docker && !recipe.annotations.is_empty() {
        return Err(Error::usage("a Docker manifest has no annotations; use labels, or an OCI manifest"));
    }
    let config = Config::from_recipe(recipe).bytes();
    let mut layers = vec![];
    for layer in &recipe.layers {
        let media_type = layer_type(recipe.kind, layer.compression)?;
        layers.push(descriptor(media_type, &layer.digest, layer.size)?);
    }
    let manifest = Manifest {
        media_type: Some(own.to_owned()),
        config: descriptor(config_type, &Digest::of(&config), config.len() as u64)?,
        layers,
        annotations: (!recipe.annotations.is_empty()).then(|| recipe.annotations.clone()),
        ..Manifest::default()
    };
    Ok((config, document(&manifest)?))
}

/// An index of one image.
pub fn index(manifest: &Document, architecture: &str, variant: Option<&str>) -> Result<Document> {
    let media_type = match manifest.media_type.as_str() {
        IMAGE_MANIFEST_MEDIA_TYPE => IMAGE_MANIFEST_LIST_MEDIA_TYPE,
        _ => OCI_IMAGE_INDEX_MEDIA_TYPE,
    };
    let empty = Index {
        schema_version: 2,
        media_type: Some(media_type.to_owned()),
        manifests: vec![],
        artifact_type: None,
        annotations: None,
    };
    joined(empty, manifest, architecture, variant)
}

/// The index with this image added. An image for the same architecture and variant is replaced. Entries are
/// sorted, so the order of calls does not change the digest.
pub fn join(
    index: &Document,
    manifest: &Document,
    architecture: &str,
    variant: Option<&str>,
) -> Result<Document> {
    match &index.content {
        Content::Index(index) => joined((**index).clone(), manifest, architecture, variant),
        Content::Manifest(_) => {
            let what =
                format!("{} is a single image, not an index to which images can be added", index.digest);
            Err(Error::usage(what))
        }
    }
}

fn joined(
    mut index: Index,
    manifest: &Document,
    architecture: &str,
    variant: Option<&str>,
) -> Result<Document> {
    if !matches!(manifest.content, Content::Manifest(_)) {
        return Err(Error::usage(format!(
            "{} is an index; only an image can be added to another index",
            manifest.digest
        )));
    }
    let d = descriptor(&manifest.media_type, &manifest.digest, manifest.bytes.len() as u64)?;
    let platform = Platform {
        architecture: architecture.into(),
        os: "linux".into(),
        os_version: None,
        os_features: None,
        variant: variant.map(str::to_owned),
        features: None,
    };
    let same = |p: &Platform| {
        p.os.to_string() == "linux"
            && p.architecture == platform.architecture
            && p.variant == platform.variant
    };
    index.manifests.retain(|entry| !entry.platform.as_ref().is_some_and(same));
    index.manifests.push(crate::manifest::IndexEntry {
        media_type: d.media_type,
        digest: d.digest,
        size: d.size,
        platform: Some(platform),
        annotations: None,
        artifact_type: None,
    });
    index.manifests.sort_by_key(|entry| {
        let platform = entry.platform.as_ref();
        let text = platform.map(|p| (p.os.to_string(), p.architecture.to_string(), p.variant.clone()));
        (text, entry.digest.clone())
    });
    document(&index)
}

fn layer_type(kind: ManifestFormat, compression: Compression) -> Result<&'static str> {
    match (kind, compression) {
        (ManifestFormat::Oci, compression) => Ok(compression.media_type()),
        (ManifestFormat::Docker, Compression::None) => Ok(DOCKER_LAYER),
        (ManifestFormat::Docker, Compression::Gzip) => Ok(IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE),
        (ManifestFormat::Docker, Compression::Zstd) => {
            Err(Error::usage("a Docker manifest cannot name a zstd layer; use gzip, or an OCI manifest"))
        }
    }
}

fn document(value: &impl serde::Serialize) -> Result<Document> {
    let bytes = serde_json::to_vec(value).expect("text keys and values can be written");
    Document::parse("the new document", bytes, None)
}
