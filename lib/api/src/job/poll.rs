//! Job of a poll pod: finds the current version of an image.
//!
//! ```text
//!  DataImportCron ──Import::from_data_volume──► Source ──► Poll { source } ──JSON──► cdi-worker poll ──► Report { stage: Done, digest }
//! ```

use super::Source;
use serde::{Deserialize, Serialize};

/// Source whose version is polled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Poll {
    /// Image of a registry, file of a web server, or object of an S3 store.
    pub source: Source,
}
