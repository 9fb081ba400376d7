//! The config of an image: what it is for, and the digests of its layers' contents. Read leniently (others write `null`
//! where they mean nothing), written without what is empty.

use super::{ManifestFormat, Recipe, time};
use crate::manifest::{self, DOCUMENT_MAX, Manifest};
use crate::place::Place;
use crate::{Digest, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A config.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// As Go calls it.
    #[serde(default)]
    pub architecture: String,
    /// `v8` and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// `linux`: disks have no other, since a Linux container brings them.
    #[serde(default)]
    pub os: String,
    /// Labels and environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Runtime>,
    /// The layers' contents.
    #[serde(default)]
    pub rootfs: RootFs,
    /// How the layers came about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<History>>,
}

/// What a runtime would go by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Runtime {
    /// `NAME=VALUE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// A containerDisk has nothing to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<Vec<String>>,
    /// Names and values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

/// The layers' contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootFs {
    /// `layers`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The digest of each layer's tar, lowest first.
    #[serde(default)]
    pub diff_ids: Vec<String>,
}

/// How a layer came about.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// The command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    /// It made no layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub empty_layer: Option<bool>,
}

impl Config {
    /// The config of a recipe.
    pub fn of(recipe: &Recipe) -> Config {
        // Docker wants a date, and means by this one that there is none.
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
                // Some runtimes refuse an image without one, though nothing of it is ever run.
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

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("text keys and values can be written")
    }

    /// Parses; `name` is for messages.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Config> {
        serde_json::from_slice(bytes)
            .map_err(|e| Error::refused(format!("{name} is not the config of an image")).because(e))
    }

    /// The config of an image, its digest checked.
    pub fn read(place: &dyn Place, manifest: &Manifest) -> Result<Config> {
        let name = format!("the config {} of {}", manifest.config.digest, place.name());
        if manifest::size(&name, manifest.config.size)? > DOCUMENT_MAX {
            return Err(Error::refused(format!("{name} claims {} bytes", manifest.config.size)));
        }
        let blob = place.blob(&manifest.config)?;
        Config::parse(&name, &manifest::read_bounded(&name, blob.stream(0)?)?)
    }

    /// A label, if it has that one.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.config.as_ref()?.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// The digest of the tar in layer `at`.
    pub fn diff_id(&self, at: usize) -> Result<Digest> {
        let told = self.rootfs.diff_ids.get(at);
        let told =
            told.ok_or_else(|| Error::refused(format!("the config tells no diff-id for layer {}", at + 1)))?;
        told.parse()
    }
}
