//! The import of a disk: its source, its target, and its credentials as values or files.

use super::{Confidential, check};
use crate::datavolume::{self, DataVolume};
use crate::fault::{Fault, Reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A disk to be filled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Import {
    /// Source of the disk.
    pub source: Source,
    /// Target of the disk, which is raw there.
    pub target: Target,
    /// Bytes of the disk in the target, at least; a larger source is refused. Unset: those of the source.
    #[serde(default)]
    pub size: Option<u64>,
    /// Allocate all blocks of the target.
    #[serde(default)]
    pub preallocate: bool,
}

/// Source of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Source {
    /// File on a web server.
    Http(Http),
    /// Container image in a registry.
    Registry(Registry),
    /// Nothing: the disk is empty, and the job says its size.
    Blank,
    /// Stream that a client sends to the worker.
    Upload(Upload),
}

/// Target of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Target {
    /// File of this path, made or replaced when the disk is whole.
    File(PathBuf),
    /// Block device of this path.
    Device(PathBuf),
}

/// File on a web server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Http {
    /// Address of the file; it may hold a password or a signature.
    pub url: Confidential<String>,
    /// Request headers, each `NAME: VALUE`.
    #[serde(default)]
    pub headers: Vec<Confidential<String>>,
    /// Secrets whose files are request headers, each `NAME: VALUE`.
    #[serde(default)]
    pub secret_headers: Vec<SecretFiles>,
    /// Secret with the login under the keys `accessKeyId` and `secretKey`.
    #[serde(default)]
    pub login: Option<SecretFiles>,
    /// Folder whose files hold certificates (PEM) to trust beside the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// Checksum of the file, `sha256:HEX` or `sha512:HEX`.
    #[serde(default)]
    pub checksum: Option<String>,
    /// Skip the verification of the server's TLS certificate.
    #[serde(default)]
    pub insecure: bool,
}

/// Stream that a client sends to the worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Upload {
    /// Bytes of the stream. Unset: known at its end, or told by the client to the worker.
    #[serde(default)]
    pub bytes: Option<u64>,
}

/// Container image in a registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Registry {
    /// Reference of the image: `docker://HOST/NAME:TAG`.
    pub url: String,
    /// Architecture to choose from a multi-platform image. Unset: that of this computer.
    #[serde(default)]
    pub architecture: Option<String>,
}

/// Files of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SecretFiles {
    /// Name of the Secret, for messages.
    pub secret: String,
    /// Its files.
    pub files: Files,
}

/// Files by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Files {
    /// In the job itself.
    Values(BTreeMap<String, Confidential<Vec<u8>>>),
    /// In this folder, where a pod has a Secret mounted.
    Folder(PathBuf),
}

/// Where the Secrets and ConfigMaps of a DataVolume are: a manifest has their values, virt-controller mounts them.
pub trait References {
    /// Why one cannot be had.
    type Error;

    /// Files of a Secret.
    fn secret(&mut self, name: &str) -> Result<Files, Self::Error>;

    /// Folder with the files of a ConfigMap.
    fn config_map(&mut self, name: &str) -> Result<PathBuf, Self::Error>;
}

/// Why a DataVolume does not become a job.
#[derive(Debug)]
pub enum Refusal<E> {
    /// Every fault of the DataVolume.
    Faults(Vec<Fault>),
    /// A Secret or a ConfigMap cannot be had.
    Reference(E),
}

impl Import {
    /// The job that fills the disk of a DataVolume. All faults of the DataVolume are told before any reference is followed.
    pub fn of<R: References>(
        volume: &DataVolume,
        target: Target,
        references: &mut R,
    ) -> Result<Import, Refusal<R::Error>> {
        let faults = check(volume);
        if !faults.is_empty() {
            return Err(Refusal::Faults(faults));
        }
        let spec = &volume.spec;
        let source = spec.source.as_ref();
        let source = match source.map(|source| (&source.http, &source.registry, &source.blank)) {
            Some((Some(http), None, None)) => {
                Source::Http(web(http, references).map_err(Refusal::Reference)?)
            }
            Some((None, Some(registry), None)) => Source::Registry(image(registry)),
            Some((None, None, Some(_))) => Source::Blank,
            _ => {
                let fault = Fault::new("spec.source", Reason::Required, "Missing Data volume source");
                return Err(Refusal::Faults(vec![fault]));
            }
        };
        let size = spec.size().and_then(|size| size.bytes());
        Ok(Import { source, target, size, preallocate: spec.preallocation == Some(true) })
    }
}

impl Source {
    /// Address of the source, which may hold a password or a signature; nothing for an empty disk and for an upload.
    pub fn address(&self) -> Option<&str> {
        match self {
            Source::Http(http) => Some(&http.url.0),
            Source::Registry(registry) => Some(&registry.url),
            Source::Blank | Source::Upload(_) => None,
        }
    }
}

fn web<R: References>(http: &datavolume::Http, references: &mut R) -> Result<Http, R::Error> {
    let mut secret =
        |name: &String| Ok(SecretFiles { secret: name.clone(), files: references.secret(name)? });
    let secret_headers = http.secret_extra_headers.iter().map(&mut secret).collect::<Result<_, _>>()?;
    let login = said(&http.secret_ref).map(secret).transpose()?;
    Ok(Http {
        url: Confidential(http.url.clone()),
        headers: http.extra_headers.iter().cloned().map(Confidential).collect(),
        secret_headers,
        login,
        ca: said(&http.cert_config_map).map(|name| references.config_map(name)).transpose()?,
        checksum: said(&http.checksum).cloned(),
        insecure: http.insecure_skip_verify == Some(true),
    })
}

fn image(registry: &datavolume::Registry) -> Registry {
    let platform = registry.platform.as_ref();
    Registry {
        url: registry.url.clone().unwrap_or_default(),
        architecture: platform.and_then(|platform| said(&platform.architecture)).cloned(),
    }
}

/// A text that is set and not empty: an empty one is as good as none.
pub(super) fn said(text: &Option<String>) -> Option<&String> {
    text.as_ref().filter(|text| !text.is_empty())
}
