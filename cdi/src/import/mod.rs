//! An import job → a conversion, for `coracle run` with a DataVolume, and for an importer pod.
//!
//! ```text
//!  api::job::Import ──request──► Request ──(ready: confine the program)──► convert::prepare ──► Prepared ──run──► Report
//!                       │
//!                       └─ files of Secrets and of certificates are read or listed here     secrets.rs
//!
//!  the same with a folder for its target ──────────────────────────► unpack::prepare ──► Prepared ──run──► Unpacked
//! ```
//!
//! The job's author has decided which sources are allowed (`api::job::check`). Here a job is input of another
//! process. Its values are checked again where they become a name, a header or a digest, and no message
//! repeats a secret.
//!
//! A poll asks only for the version of a source ([`version()`]).
//!
//! An image that the kubelet has mounted is read in place: its only disk is an ordinary file, and may be
//! compressed.

mod secrets;
mod version;

pub use version::version;

use crate::convert::{self, Prepared, Request};
use crate::permissions::Permissions;
use crate::plan::ConvertOptions;
use crate::run::watch::Watch;
use crate::source::{self, FileSource, Options, SourceSpec, Store};
use crate::target::Destination;
use crate::{Error, Result, unpack};
use api::job::{self, Http, Import, Registry, Target};
use container_disk::Name;
use container_disk::locate::mounted;
use container_disk::open::Places;
use container_disk::registry::config::UserSettings;
use disk_format::Format;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the source of a job and plans its conversion. `convert_options`: options that are not part of the job.
/// `ready` is called when all paths of the job are known and none is open yet, so that a program can confine
/// itself.
pub fn prepare(
    job: &Import,
    places: Arc<Places>,
    convert_options: ConvertOptions,
    watch: &Watch,
    ready: impl FnOnce(&Permissions) -> Result<()>,
) -> Result<Prepared> {
    let request = request(job, places, convert_options)?;
    ready(&request.permissions()?)?;
    convert::prepare(request, watch)
}

/// As [`prepare`], for a job whose target is a folder.
pub fn unpack(
    job: &Import,
    places: Arc<Places>,
    convert_options: ConvertOptions,
    watch: &Watch,
    ready: impl FnOnce(&Permissions) -> Result<()>,
) -> Result<unpack::Prepared> {
    let Target::Folder(folder) = &job.target else {
        return Err(Error::refused(
            "an archive is unpacked into a folder, and the target of this job is a disk",
        ));
    };
    let JobSource { named, options, convert_options, .. } = job_source(job, places, convert_options)?;
    let request = unpack::Request { source: named, folder: folder.clone(), options, convert_options };
    ready(&request.permissions()?)?;
    unpack::prepare(&request, watch)
}

/// The name of a job's source without secrets, for messages and files.
pub fn shown(source: &job::Source) -> String {
    match source {
        job::Source::Upload(_) => source::upload::NAME.to_owned(),
        _ => source.address().map_or_else(|| "nothing".to_owned(), source::shown),
    }
}

/// The conversion that a job describes. Its credentials are read now.
fn request(job: &Import, places: Arc<Places>, convert_options: ConvertOptions) -> Result<Request> {
    let target = match &job.target {
        Target::File(path) => Destination::File(path.clone()),
        Target::Device(path) => Destination::Device(path.clone()),
        Target::Folder(path) => {
            let what =
                format!("the target {} is a folder, which takes an archive and no disk", path.display());
            return Err(Error::refused(what));
        }
    };
    let JobSource { named, options, mut convert_options, format } = job_source(job, places, convert_options)?;
    if let Target::Device(path) = &job.target {
        // The device is zeroed from the end of the disk to its own end: the guest must not read data of an
        // earlier user there.
        let size = FileSource::size_of_device(path)?;
        convert_options.resize = convert_options.resize.max(Some(size));
    }
    Ok(Request { source_format: format, ..Request::new(named, target, options, convert_options) })
}

/// The source of a job, with the options that follow from the job.
struct JobSource {
    named: SourceSpec,
    options: Options,
    convert_options: ConvertOptions,
    format: Option<Format>,
}

fn job_source(job: &Import, places: Arc<Places>, convert_options: ConvertOptions) -> Result<JobSource> {
    let mut options = Options {
        places,
        max_connections: convert_options.connections,
        least_rate: convert_options.least_rate,
        decoded: convert_options.decoded.clone(),
        ..Options::default()
    };
    let mut convert_options =
        ConvertOptions { preallocate: job.preallocate, resize: job.size, ..convert_options };
    let mut format = None;
    let named = match &job.source {
        job::Source::Http(http) => {
            let checksum = http.checksum.as_ref().map(|text| text.parse()).transpose()?;
            convert_options.checksum = checksum;
            options = web(http, options)?;
            address(&http.url.0)?
        }
        job::Source::S3(s3) => {
            if let Some(secret) = &s3.login {
                let (id, key) = secrets::login(secret)?;
                options.store = Some(Store::S3 { id, key });
            }
            options.ca_files = certificates(s3.ca.as_deref())?;
            address(&s3.url.0)?
        }
        job::Source::Gcs(gcs) => {
            let key_file = gcs.login.as_ref().map(secrets::key_file).transpose()?;
            options.store = key_file.map(|key_file| Store::Account { key_file });
            address(&object(&gcs.url.0)?)?
        }
        job::Source::Registry(registry) => {
            if let Some(arch) = registry.architecture.clone() {
                options.image = source::image::Options { arch, ..source::image::Options::default() };
            }
            let (name, places) = image(registry, options.places)?;
            options.places = places;
            SourceSpec::Image(name)
        }
        job::Source::Mounted(image) => {
            options.is_named_by_author = true;
            SourceSpec::Path(mounted::disk(&image.folder, &image.url)?)
        }
        job::Source::Blank => {
            let size = job.size.filter(|&size| size > 0);
            let size = size.ok_or_else(|| Error::refused("an empty disk needs a size"))?;
            // The bound is for foreign disks.
            convert_options.max_size = convert_options.max_size.max(size);
            format = Some(Format::Raw);
            SourceSpec::Blank(size)
        }
        job::Source::Upload(upload) => SourceSpec::Upload(upload.bytes),
        job::Source::Clone(clone) => {
            if !clone.url.starts_with("https://") {
                return Err(Error::refused(
                    "the disk of a clone is fetched through TLS: its address begins with https://",
                ));
            }
            options.mutual = Some(secrets::mutual(&clone.tls));
            // The guest chose the first bytes of its disk. They must not be taken for a format or a
            // compression.
            format = Some(Format::Qcow2);
            address(&clone.url)?
        }
    };
    Ok(JobSource { named, options, convert_options, format })
}

/// Options for a web server: headers, login, certificates.
fn web(http: &Http, options: Options) -> Result<Options> {
    let mut headers = vec![];
    for line in &http.headers {
        headers.push(secrets::header(&line.0).ok_or_else(|| {
            Error::refused("a header of extraHeaders is written 'Name: value'; one has no colon")
        })?);
    }
    for secret in &http.secret_headers {
        headers.extend(secrets::headers(secret)?);
    }
    let (user, password) = http.login.as_ref().map(secrets::login).transpose()?.unzip();
    let ca_files = certificates(http.ca.as_deref())?;
    Ok(Options { headers, user, password, ca_files, insecure_tls: http.insecure, ..options })
}

/// A URL of a web server. A path is refused, since it would be a file of this host.
fn address(url: &str) -> Result<SourceSpec> {
    match url.split_once("://") {
        Some(("http" | "https", _)) => Ok(SourceSpec::Web(url.to_owned())),
        _ => Err(Error::refused("the address of a web server begins with http:// or https://")),
    }
}

/// The URL of an object of Google Cloud Storage; `gs://BUCKET/OBJECT` is its short name.
fn object(url: &str) -> Result<String> {
    let Some(rest) = url.strip_prefix("gs://") else { return Ok(url.to_owned()) };
    let wrong = || Error::refused("an object of Google Cloud Storage is named gs://BUCKET/OBJECT");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let (bucket, object) = rest.split_once('/').ok_or_else(wrong)?;
    if bucket.trim_matches('.').is_empty() || !bucket.chars().all(is_plain) || object.is_empty() {
        return Err(wrong());
    }
    // A URL cannot hold these: another object would be requested.
    if object.split('/').any(|part| matches!(part, "." | "..")) || object.contains(['\t', '\n', '\r']) {
        return Err(Error::refused(
            "an object whose name has a part '.' or '..', a tab or a line break cannot be asked for; rename it",
        ));
    }
    let mut url = reqwest::Url::parse("https://storage.googleapis.com/").map_err(|_| wrong())?;
    // Characters with a meaning in URLs are plain letters of an object's name.
    url.path_segments_mut().map_err(|()| wrong())?.clear().push(bucket).extend(object.split('/'));
    Ok(url.into())
}

fn certificates(folder: Option<&Path>) -> Result<Vec<PathBuf>> {
    Ok(folder.map(secrets::certificates).transpose()?.unwrap_or_default())
}

/// The image of a job, and the places with the job's own login and authorities for its registry.
pub(crate) fn image(registry: &Registry, places: Arc<Places>) -> Result<(Name, Arc<Places>)> {
    let name = in_registry(registry)?;
    let login = registry.login.as_ref().map(secrets::registry).transpose()?;
    let own = UserSettings { login, ca: certificates(registry.ca.as_deref())?, insecure: registry.insecure };
    let places = match &name {
        Name::Registry(remote) if own != UserSettings::default() => {
            Arc::new(places.for_user_of(&remote.host, own))
        }
        _ => places,
    };
    Ok((name, places))
}

/// The image, in a registry only: names of other places are files of this host.
fn in_registry(registry: &Registry) -> Result<Name> {
    match Name::with_scheme(&registry.url).transpose()? {
        Some(name @ Name::Registry(_)) => Ok(name),
        _ => Err(Error::refused(format!("{:?} is not an image as docker://HOST/REPO:TAG", registry.url))),
    }
}

#[cfg(test)]
mod tests;
