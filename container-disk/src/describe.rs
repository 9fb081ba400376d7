//! What an image says of itself: its documents and nothing else are read.

use crate::image::{Config, choose};
use crate::locate::{Boot, boot};
use crate::manifest::{self, Content, Document};
use crate::open::FoundImage;
use crate::{ErrorKind, Result};
use serde::Serialize;
use std::collections::BTreeMap;

/// An image, or an index of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImageFacts {
    /// What the name stands for.
    pub digest: String,
    /// Of that document.
    pub media_type: String,
    /// The architectures that are to be had.
    pub architectures: Vec<String>,
    /// The image for the architecture that was asked for, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
}

/// One image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Chosen {
    /// Of its manifest.
    pub manifest: String,
    /// As Go calls it.
    pub architecture: String,
    /// When it was made, as it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Labels of its config.
    pub labels: BTreeMap<String, String>,
    /// Environment of its config.
    pub env: Vec<String>,
    /// Lowest first.
    pub layers: Vec<Layer>,
    /// The kernel, where it brings one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot: Option<Boot>,
}

/// One layer, as the manifest tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// Of the blob.
    pub digest: String,
    /// Bytes of the blob.
    pub size: u64,
    /// Of the blob.
    pub media_type: String,
}

/// Reads the documents. An index that has no image for `architecture` is described without one.
pub fn describe(found: &FoundImage, architecture: &str) -> Result<ImageFacts> {
    let place = &*found.place;
    let top = place.document(&found.which)?;
    let chosen = match choose::manifest(place, &crate::place::Which::Digest(top.digest), architecture) {
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
