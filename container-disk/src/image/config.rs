//! The config of an image: architecture, labels, environment, and the digests of the uncompressed layers.
//! Parsing is lenient, since other tools write `null` for absent values. Writing omits empty values.

use super::{ManifestFormat, Recipe, time};
use crate::manifest::{self, DOCUMENT_MAX, Manifest};
use crate::place::Place;
use crate::{Digest, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum bytes of a date or the name of a platform. Lists of images keep them.
const SHORT_MAX: usize = 256;

/// An OCI or Docker image config.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// Creation date, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Architecture in Go's spelling, such as `amd64`.
    #[serde(default)]
    pub architecture: String,
    /// Variant of the architecture, such as `v8`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Operating system. Always `linux`, since a Linux container transports the disk.
    #[serde(default)]
    pub os: String,
    /// Labels, environment and entrypoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Runtime>,
    /// Digests of the uncompressed layers.
    #[serde(default)]
    pub rootfs: RootFs,
    /// Origin of each layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<History>>,
}

/// Settings for a container runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Runtime {
    /// Environment variables, as `NAME=VALUE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// Program of the container. A containerDisk has none to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// Digests of the uncompressed layers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFs {
    /// The value `layers`, which the specification requires.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The digest of each layer's tar, lowest first.
    #[serde(default)]
    pub diff_ids: Vec<String>,
}

/// Origin of one layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Date of the layer, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// Command that made the layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// True for a step that made no layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_layer: Option<bool>,
}

impl Config {
    /// The config for the image of a recipe.
    pub fn from_recipe(recipe: &Recipe) -> Config {
        // Docker requires a date. The epoch stands for an unknown one.
        let seconds = recipe.created.or((recipe.kind == ManifestFormat::Docker).then_some(0));
        let created = seconds.map(time::rfc3339);
        let env: Vec<String> = recipe.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let history =
            History { created: created.clone(), created_by: Some("coracle".into()), empty_layer: None };
        Config {
            architecture: recipe.architecture.clone(),
            variant: recipe.variant.clone(),
            os: "linux".into(),
            config: Some(Runtime {
                env: (!env.is_empty()).then_some(env),
                // Some runtimes refuse an image without an entrypoint, although it is never run.
                entrypoint: Some(vec!["no-entrypoint".into()]),
                labels: (!recipe.labels.is_empty()).then(|| recipe.labels.clone()),
            }),
            rootfs: RootFs {
                kind: "layers".into(),
                diff_ids: recipe.layers.iter().map(|layer| layer.diff_id.to_string()).collect(),
            },
            history: Some(vec![history; recipe.layers.len()]),
            created,
        }
    }

    /// The config as JSON.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text keys and values can be written")
    }

    /// Parses a config; `name` is for messages.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Config> {
        let config: Config = serde_json::from_slice(bytes)
            .map_err(|e| Error::refused(format!("{name} is not the config of an image")).because(e))?;
        for (field, text) in [
            ("created", config.created.as_deref().unwrap_or_default()),
            ("architecture", &config.architecture),
            ("variant", config.variant.as_deref().unwrap_or_default()),
            ("os", &config.os),
        ] {
            if text.len() > SHORT_MAX {
                let what = format!(
                    "{name} is refused: its {field} has {} bytes, not at most {SHORT_MAX}",
                    text.len()
                );
                return Err(Error::refused(what));
            }
        }
        Ok(config)
    }

    /// Reads the config of an image and verifies its digest.
    pub fn read(place: &dyn Place, manifest: &Manifest) -> Result<Config> {
        let name = format!("the config {} of {}", manifest.config.digest, place.name());
        if manifest::size(&name, manifest.config.size)? > DOCUMENT_MAX {
            return Err(Error::refused(format!("{name} claims {} bytes", manifest.config.size)));
        }
        let blob = place.blob(&manifest.config)?;
        Config::parse(&name, &manifest::read_bounded(&name, blob.stream(0)?)?)
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.config.as_ref()?.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// The diff-id of layer `at`: the digest of its uncompressed tar.
    pub fn diff_id(&self, at: usize) -> Result<Digest> {
        let told = self.rootfs.diff_ids.get(at);
        let told =
            told.ok_or_else(|| Error::refused(format!("the config has no diff-id for layer {}", at + 1)))?;
        told.parse()
    }
}
