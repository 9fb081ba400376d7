//! An import job → a conversion: what `coracle run` does for a DataVolume, and what an importer pod does.
//!
//! ```text
//!  api::job::Import ──request──► Request ──(ready: give up the rest)──► convert::prepare ──► Prepared ──run──► Report
//!                       │
//!                       └─ files of Secrets and of certificates are read or listed here     secrets.rs
//! ```
//!
//! Which sources are served was decided when the job was made (`api::job::check`). Here a job is what another process wrote:
//! what it says is checked again where it becomes a name, a header or a digest, and no message repeats a secret.

mod secrets;

use crate::convert::{self, Prepared, Request};
use crate::plan::Wishes;
use crate::reach::Reach;
use crate::run::watch::Watch;
use crate::source::{self, Named, Options, image};
use crate::target::Destination;
use crate::{Error, Result};
use api::job::{Http, Import, Registry, Source, Target};
use container_disk::Name;
use container_disk::open::Places;
use disk_format::Format;
use std::sync::Arc;

/// Opens the source of a job and plans its conversion. `wishes`: what the job does not say. `ready` is called when all that
/// the job uses is known and nothing of it is open yet: there a program gives up the rest.
pub fn prepare(
    job: &Import,
    places: Arc<Places>,
    wishes: Wishes,
    watch: &Watch,
    ready: impl FnOnce(&Reach) -> Result<()>,
) -> Result<Prepared> {
    let request = request(job, places, wishes)?;
    ready(&request.reach()?)?;
    convert::prepare(request, watch)
}

/// The name of a job's source as it may be shown and kept: without what is secret in it.
pub fn shown(source: &Source) -> String {
    match source {
        Source::Upload(_) => source::upload::NAME.to_owned(),
        _ => source.address().map_or_else(|| "nothing".to_owned(), source::shown),
    }
}

/// The conversion that a job asks for. Its credentials are read now.
fn request(job: &Import, places: Arc<Places>, wishes: Wishes) -> Result<Request> {
    let target = match &job.target {
        Target::File(path) => Destination::File(path.clone()),
        Target::Device(path) => Destination::Device(path.clone()),
    };
    let mut options = Options { places, max_connections: wishes.connections, ..Options::default() };
    let mut wishes = Wishes { preallocate: job.preallocate, resize: job.size, ..wishes };
    let mut format = None;
    let source = match &job.source {
        Source::Http(http) => {
            let checksum = http.checksum.as_ref().map(|text| text.parse()).transpose()?;
            wishes.checksum = checksum;
            options = web(http, options)?;
            address(http)?
        }
        Source::Registry(registry) => {
            if let Some(arch) = registry.architecture.clone() {
                options.image = image::Options { arch, ..image::Options::default() };
            }
            Named::Image(in_registry(registry)?)
        }
        Source::Blank => {
            let size = job.size.filter(|&size| size > 0);
            let size = size.ok_or_else(|| Error::refused("an empty disk must say its size"))?;
            // The bound is for what others made.
            wishes.max_size = wishes.max_size.max(size);
            format = Some(Format::Raw);
            Named::Blank(size)
        }
        Source::Upload(upload) => Named::Upload(upload.bytes),
    };
    Ok(Request { source_format: format, ..Request::new(source, target, options, wishes) })
}

/// How a web server is asked, and how it is believed.
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
    let ca_files = http.ca.as_deref().map(secrets::certificates).transpose()?.unwrap_or_default();
    Ok(Options { headers, user, password, ca_files, insecure_tls: http.insecure, ..options })
}

/// The address, of a web server alone: a path would be a file of this host.
fn address(http: &Http) -> Result<Named> {
    let url = &http.url.0;
    match url.split_once("://") {
        Some(("http" | "https", _)) => Ok(Named::Web(url.clone())),
        _ => Err(Error::refused("the address of a web server begins with http:// or https://")),
    }
}

/// The image, in a registry alone: the names of other places are files of this host.
fn in_registry(registry: &Registry) -> Result<Name> {
    match Name::with_scheme(&registry.url).transpose()? {
        Some(name @ Name::Registry(_)) => Ok(name),
        _ => Err(Error::refused(format!("{:?} is not an image as docker://HOST/REPO:TAG", registry.url))),
    }
}

#[cfg(test)]
mod tests;
