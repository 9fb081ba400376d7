//! Description of an image from its documents. No layer is read.

use crate::image::{Config, choose};
use crate::locate::{Boot, boot};
use crate::manifest::{self, Content, Document};
use crate::open::FoundImage;
use crate::{ErrorKind, Result};
use serde::Serialize;
use std::collections::BTreeMap;

/// Facts about an image, or about an index of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageFacts {
    /// Digest of the document that the name refers to.
    pub digest: String,
    /// Media type of that document.
    pub media_type: String,
    /// Architectures for which an image exists.
    pub architectures: Vec<String>,
    /// The image for the requested architecture. Absent if the index has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
}

/// The image for one architecture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chosen {
    /// Digest of the manifest.
    pub manifest: String,
    /// Architecture in Go's spelling, such as `amd64`.
    pub architecture: String,
    /// Creation date from the config.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Labels of its config.
    pub labels: BTreeMap<String, String>,
    /// Environment of its config.
    pub env: Vec<String>,
    /// Layers in the order of the manifest, lowest first.
    pub layers: Vec<Layer>,
    /// The kernel, if the image has one for a direct kernel boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<Boot>,
}

/// A layer, as the manifest describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// Digest of the blob.
    pub digest: String,
    /// Size of the blob in bytes.
    pub size: u64,
    /// Media type of the blob.
    pub media_type: String,
}

/// Reads the documents of an image. An index without an image for `architecture` is described with `chosen`
/// empty.
pub fn describe(found: &FoundImage, architecture: &str) -> Result<ImageFacts> {
    let place = &*found.place;
    let top = place.document(&found.reference)?;
    let chosen = match choose::manifest(place, &crate::place::Reference::Digest(top.digest), architecture) {
        Ok(document) => chosen(found, &document)?,
        Err(e) if e.kind() == ErrorKind::NotFound && matches!(top.content, Content::Index(_)) => None,
        Err(e) => return Err(e),
    };
    let architectures = match &top.content {
        Content::Index(index) => index.manifests.iter().filter_map(choose::platform).collect(),
        Content::Manifest(_) => chosen.iter().map(|image| image.architecture.clone()).collect(),
    };
    Ok(ImageFacts { digest: top.digest.to_string(), media_type: top.media_type, architectures, chosen })
}

fn chosen(found: &FoundImage, document: &Document) -> Result<Option<Chosen>> {
    let Content::Manifest(manifest) = &document.content else { return Ok(None) };
    let config = Config::read(&*found.place, manifest)?;
    let layers = manifest.layers.iter().map(|layer| {
        Ok(Layer {
            digest: layer.digest.clone(),
            size: manifest::size(found.place.name(), layer.size)?,
            media_type: layer.media_type.clone(),
        })
    });
    let boot = boot(&config);
    let runtime = config.config.unwrap_or_default();
    Ok(Some(Chosen {
        manifest: document.digest.to_string(),
        layers: layers.collect::<Result<_>>()?,
        boot,
        architecture: config.architecture,
        created: config.created,
        labels: runtime.labels.unwrap_or_default(),
        env: runtime.env.unwrap_or_default(),
    }))
}
