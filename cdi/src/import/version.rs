//! The version of a job's source, without its bytes, for polls.
//!
//! | source | request | version |
//! |---|---|---|
//! | `registry` | the manifest or index of that name, of the first mirror that has it | its digest |
//! | `http`, `s3` | the first bytes of the file | SHA-256 of the server's headers: a strong ETag, or date and size |
//!
//! virt-controller names versions in the same way in its own polls. Other sources have no version.

use super::{JobSource, job_source};
use crate::permissions::Permissions;
use crate::plan::ConvertOptions;
use crate::source::{SourceSpec, http};
use crate::{Error, Result};
use api::job::{Import, Source, Target};
use container_disk::open::Places;
use sha2::{Digest as _, Sha256};
use std::path::PathBuf;
use std::sync::Arc;

/// Requests the version. `ready` is called when all paths are known and nothing was requested yet, so that a
/// program can confine itself.
pub fn version(
    source: &Source,
    places: Arc<Places>,
    ready: impl FnOnce(&Permissions) -> Result<()>,
) -> Result<String> {
    // Checked first: the requirements of an import are not the problem of a poll.
    if matches!(source, Source::Mounted(_) | Source::Blank | Source::Upload(_) | Source::Clone(_)) {
        return Err(nameless());
    }
    let job = Import {
        source: source.clone(),
        target: Target::File(PathBuf::new()),
        size: None,
        preallocate: false,
    };
    let JobSource { named, options, .. } = job_source(&job, places, ConvertOptions::with_threads(1))?;
    ready(&Permissions::new().source(&named, &options)?)?;
    match &named {
        SourceSpec::Image(name) => {
            let found = options.places.find(name)?;
            Ok(found.place.document(&found.reference)?.digest.to_string())
        }
        SourceSpec::Web(url) => {
            let said = http::version(url, &options)?.ok_or_else(|| {
                let name = crate::source::shown(url);
                Error::refused(format!(
                    "{name}: the server does not name the version: it must send a strong ETag, or Last-Modified and \
                     Content-Length"
                ))
            })?;
            Ok(format!("sha256:{}", hex::encode(Sha256::digest(said.as_bytes()))))
        }
        SourceSpec::Stdin | SourceSpec::Path(_) | SourceSpec::Blank(_) | SourceSpec::Upload(_) => {
            Err(nameless())
        }
    }
}

/// The error for a source without versions.
fn nameless() -> Error {
    Error::refused("only images of registries and files of servers have versions that can be told apart")
}
