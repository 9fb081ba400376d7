//! The import of a disk: its source, its target, and its credentials as values or files.

use super::check::ON_BLOCK;
use super::{Confidential, check};
use crate::data_volume::{self, ContentType, DataVolume};
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
    /// Bytes of the disk in the target, at least; a larger source is refused. Unset: those of the source. For
    /// a folder: the most bytes of all files.
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
    /// Object in an S3 store.
    S3(S3),
    /// Object in Google Cloud Storage.
    Gcs(Gcs),
    /// Container image in a registry.
    Registry(Registry),
    /// Container image that the node has pulled and mounted.
    Mounted(MountedImage),
    /// No source: the disk is empty, and the job has its size.
    Blank,
    /// Stream that a client sends to the worker.
    Upload(Upload),
    /// Disk of another PVC, which a worker in the namespace of that PVC serves ([`super::Serve`]).
    Clone(super::Clone),
}

/// Target of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Target {
    /// File of this path, created or replaced at the end of the import.
    File(PathBuf),
    /// Block device of this path.
    Device(PathBuf),
    /// Folder of this path: the source is a tar archive, whose files are unpacked into it.
    Folder(PathBuf),
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

/// Object in an S3 store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct S3 {
    /// Address of the object, `https://HOST/BUCKET/KEY` or `https://BUCKET.HOST/KEY`; it may hold a
    /// signature.
    pub url: Confidential<String>,
    /// Secret with the access key under the keys `accessKeyId` and `secretKey`. Unset: the object is public.
    #[serde(default)]
    pub login: Option<SecretFiles>,
    /// Folder whose files hold certificates (PEM) to trust beside the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
}

/// Object in Google Cloud Storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Gcs {
    /// Address of the object, `gs://BUCKET/OBJECT` or `https://storage.googleapis.com/BUCKET/OBJECT`; it may
    /// hold a signature.
    pub url: Confidential<String>,
    /// Secret with the key file of a service account under the key `credentials.json`. Unset: the object is
    /// public.
    #[serde(default)]
    pub login: Option<SecretFiles>,
}

/// Stream that a client sends to the worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Upload {
    /// Bytes of the stream. Unset: known at its end, or sent by the client to the worker.
    #[serde(default)]
    pub bytes: Option<u64>,
}

/// Container image in a registry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Registry {
    /// Reference of the image: `docker://HOST/NAME:TAG`.
    pub url: String,
    /// Architecture to choose from a multi-platform image. Unset: that of this computer.
    #[serde(default)]
    pub architecture: Option<String>,
    /// Secret with the login: under the keys `accessKeyId` and `secretKey`, or a docker `config.json` under
    /// the key `.dockerconfigjson`. Unset: anonymous access.
    #[serde(default)]
    pub login: Option<SecretFiles>,
    /// Folder whose files hold certificates (PEM) to trust beside the system's.
    #[serde(default)]
    pub ca: Option<PathBuf>,
    /// Skip the verification of the registry's TLS certificate, and speak plain HTTP where the registry has
    /// no TLS.
    #[serde(default)]
    pub insecure: bool,
    /// Settings of the cluster about registries, as files by name: `registries.toml`, and certificates that
    /// it names.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
}

/// Container image that the node has pulled and mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct MountedImage {
    /// Reference of the image, for messages: `docker://HOST/NAME:TAG`.
    pub url: String,
    /// Folder with the image's root.
    pub folder: PathBuf,
}

/// Files of a Secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct SecretFiles {
    /// Name of the Secret, for messages.
    pub secret: String,
    pub files: Files,
}

/// Files of a Secret, by their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub enum Files {
    /// Contents in the job itself.
    Values(BTreeMap<String, Confidential<Vec<u8>>>),
    /// Folder at which the pod mounts a Secret.
    Folder(PathBuf),
}

/// Access to the Secrets and ConfigMaps of a DataVolume: a manifest has their values, virt-controller mounts
/// them.
pub trait References {
    /// Reason why a Secret or a ConfigMap is not available.
    type Error;

    /// Files of a Secret.
    fn secret(&mut self, name: &str) -> Result<Files, Self::Error>;

    /// Folder with the files of a ConfigMap.
    fn config_map(&mut self, name: &str) -> Result<PathBuf, Self::Error>;

    /// Folder at which the node mounts the image of a reference (`HOST/NAME:TAG`), pulled with this Secret.
    /// `None` without such a node: the importer pulls the image itself.
    fn image(&mut self, _reference: &str, _pull_secret: Option<&str>) -> Option<PathBuf> {
        None
    }
}

/// Reason why a DataVolume does not become a job.
#[derive(Debug)]
pub enum Refusal<E> {
    /// Every fault of the DataVolume.
    Faults(Vec<Fault>),
    /// A Secret or a ConfigMap is not available.
    Reference(E),
}

impl Import {
    /// The job that fills the disk of a DataVolume, or its folder if the content is an archive. All faults of
    /// the DataVolume are reported before any reference is read.
    pub fn from_data_volume<R: References>(
        volume: &DataVolume,
        target: Target,
        references: &mut R,
    ) -> Result<Import, Refusal<R::Error>> {
        let mut faults = check(volume);
        let spec = &volume.spec;
        let is_archive = spec.content_type == Some(ContentType::Archive);
        let target = match (is_archive, target) {
            (true, Target::File(disk)) => Target::Folder(disk.parent().unwrap_or(&disk).to_owned()),
            (true, Target::Device(device)) => {
                faults.extend(Some(Fault::new("spec.contentType", Reason::Invalid, ON_BLOCK)));
                Target::Device(device)
            }
            (_, target) => target,
        };
        if !faults.is_empty() {
            return Err(Refusal::Faults(faults));
        }
        let source = spec.source.as_ref();
        let source = match source.map(|source| of_source(source, references)) {
            Some(Ok(Some(source))) => source,
            Some(Err(e)) => return Err(Refusal::Reference(e)),
            Some(Ok(None)) | None => {
                let fault = Fault::new("spec.source", Reason::Required, "Missing Data volume source");
                return Err(Refusal::Faults(vec![fault]));
            }
        };
        let size = spec.size().and_then(|size| size.bytes());
        let preallocate = spec.preallocation == Some(true) && !is_archive;
        Ok(Import { source, target, size, preallocate })
    }
}

impl Source {
    /// Address of the source, which may hold a password or a signature; `None` for an empty disk and for an
    /// upload.
    pub fn address(&self) -> Option<&str> {
        match self {
            Source::Http(http) => Some(&http.url.0),
            Source::S3(s3) => Some(&s3.url.0),
            Source::Gcs(gcs) => Some(&gcs.url.0),
            Source::Registry(registry) => Some(&registry.url),
            Source::Clone(clone) => Some(&clone.url),
            Source::Mounted(image) => Some(&image.url),
            Source::Blank | Source::Upload(_) => None,
        }
    }
}

/// The source of a job; `None` if the DataVolume has no supported source.
fn of_source<R: References>(
    source: &data_volume::Source,
    references: &mut R,
) -> Result<Option<Source>, R::Error> {
    Ok(if let Some(http) = &source.http {
        Some(Source::Http(web(http, references)?))
    } else if let Some(s3) = &source.s3 {
        let login = login(&s3.secret_ref, references)?;
        let ca = non_empty(&s3.cert_config_map).map(|name| references.config_map(name)).transpose()?;
        Some(Source::S3(S3 { url: Confidential(with_small_scheme(&s3.url)), login, ca }))
    } else if let Some(gcs) = &source.gcs {
        let login = login(&gcs.secret_ref, references)?;
        Some(Source::Gcs(Gcs { url: Confidential(with_small_scheme(&gcs.url)), login }))
    } else if let Some(registry) = &source.registry {
        Some(image(registry, references)?)
    } else if source.blank.is_some() {
        Some(Source::Blank)
    } else {
        source.upload.as_ref().map(|_| Source::Upload(Upload::default()))
    })
}

/// Files of the Secret of this name, if the name is set.
fn login<R: References>(name: &Option<String>, references: &mut R) -> Result<Option<SecretFiles>, R::Error> {
    let files = |name: &String| Ok(SecretFiles { secret: name.clone(), files: references.secret(name)? });
    non_empty(name).map(files).transpose()
}

fn web<R: References>(http: &data_volume::Http, references: &mut R) -> Result<Http, R::Error> {
    let mut secret =
        |name: &String| Ok(SecretFiles { secret: name.clone(), files: references.secret(name)? });
    let secret_headers = http.secret_extra_headers.iter().map(&mut secret).collect::<Result<_, _>>()?;
    let login = non_empty(&http.secret_ref).map(secret).transpose()?;
    Ok(Http {
        url: Confidential(with_small_scheme(&http.url)),
        headers: http.extra_headers.iter().cloned().map(Confidential).collect(),
        secret_headers,
        login,
        ca: non_empty(&http.cert_config_map).map(|name| references.config_map(name)).transpose()?,
        checksum: non_empty(&http.checksum).cloned(),
        insecure: http.insecure_skip_verify == Some(true),
    })
}

fn image<R: References>(registry: &data_volume::Registry, references: &mut R) -> Result<Source, R::Error> {
    let url = with_small_scheme(registry.url.as_deref().unwrap_or_default());
    if let Some(reference) = registry.of_node()
        && let Some(folder) = references.image(reference, non_empty(&registry.secret_ref).map(String::as_str))
    {
        return Ok(Source::Mounted(MountedImage { url, folder }));
    }
    Ok(Source::Registry(Registry {
        url,
        architecture: registry.architecture().map(str::to_owned),
        login: login(&registry.secret_ref, references)?,
        ca: non_empty(&registry.cert_config_map).map(|name| references.config_map(name)).transpose()?,
        insecure: false,
        settings: BTreeMap::new(),
    }))
}

/// An address with its scheme in lower case; schemes are case-insensitive.
fn with_small_scheme(url: &str) -> String {
    match url.split_once(':') {
        Some((scheme, rest)) => format!("{}:{rest}", scheme.to_ascii_lowercase()),
        None => url.to_owned(),
    }
}

/// The text; `None` if it is unset or empty.
pub(super) fn non_empty(text: &Option<String>) -> Option<&String> {
    text.as_ref().filter(|text| !text.is_empty())
}
