//! The version of a job's source, without its bytes: what a poll asks for.
//!
//! | source | asked | version |
//! |---|---|---|
//! | `registry` | the manifest or index that the name leads to, of the first mirror that has it | its digest |
//! | `http`, `s3` | the first bytes of the file | SHA-256 of what its server says: a strong ETag, or its date and its size |
//!
//! virt-controller names versions alike where it asks itself. Every other source has none.

use super::{Wanted, wanted};
use crate::plan::Wishes;
use crate::reach::Reach;
use crate::source::{Named, http};
use crate::{Error, Result};
use api::job::{Import, Source, Target};
use container_disk::open::Places;
use sha2::{Digest as _, Sha256};
use std::path::PathBuf;
use std::sync::Arc;

/// Asks for the version. `ready` is called when all that is used is known and nobody was asked yet: there a program gives up the
/// rest.
pub fn version(
    source: &Source,
    places: Arc<Places>,
    ready: impl FnOnce(&Reach) -> Result<()>,
) -> Result<String> {
    // Before anything else: what an import would want of them is not what is wrong with a poll.
    if matches!(source, Source::Mounted(_) | Source::Blank | Source::Upload(_) | Source::Clone(_)) {
        return Err(nameless());
    }
    let job = Import {
        source: source.clone(),
        target: Target::File(PathBuf::new()),
        size: None,
        preallocate: false,
    };
    let Wanted { named, options, .. } = wanted(&job, places, Wishes::of_threads(1))?;
    ready(&Reach::new().source(&named, &options)?)?;
    match &named {
        Named::Image(name) => {
            let found = options.places.find(name)?;
            Ok(found.place.document(&found.which)?.digest.to_string())
        }
        Named::Web(url) => {
            let said = http::version(url, &options)?.ok_or_else(|| {
                let name = crate::source::shown(url);
                Error::refused(format!(
                    "{name}: the server does not name the version: it must send a strong ETag, or Last-Modified and \
                     Content-Length"
                ))
            })?;
            Ok(format!("sha256:{}", hex::encode(Sha256::digest(said.as_bytes()))))
        }
        Named::Stdin | Named::Path(_) | Named::Blank(_) | Named::Upload(_) => Err(nameless()),
    }
}

/// The source has no version.
fn nameless() -> Error {
    Error::refused("only images of registries and files of servers have versions that can be told apart")
}
