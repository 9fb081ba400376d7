//! The protocol of the two processes: an order on the standard input of an attempt, lines on its standard
//! output. Behind the order of an upload come its bytes (`cdi::source::upload`).

use api::job::{Export, Import, Registry, Source};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A kind of job, for attempts.
pub(crate) trait Job: Serialize + DeserializeOwned {
    /// The internal subcommand that starts an attempt.
    const ATTEMPT: &'static str;

    /// The registry of the job.
    fn registry(&self) -> Option<&Registry>;
}

impl Job for Import {
    const ATTEMPT: &'static str = "attempt";

    fn registry(&self) -> Option<&Registry> {
        match &self.source {
            Source::Registry(registry) => Some(registry),
            _ => None,
        }
    }
}

impl Job for Export {
    const ATTEMPT: &'static str = "attempt-export";

    fn registry(&self) -> Option<&Registry> {
        Some(&self.target)
    }
}

/// The longest line that is read.
pub(crate) const LONGEST: u64 = 64 << 10;

/// The order of an attempt. Its standard input stays open behind this line; the end of it asks the attempt to
/// end, unless an upload comes there.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order<J = Import> {
    pub(crate) job: J,
    /// Memory of the attempt, in bytes.
    pub(crate) memory: u64,
    /// The uid of the PVC: files of another PVC's attempt on the volume are not continued.
    pub(crate) owner: String,
    /// The file with the cluster's settings of registries, if there are any.
    #[serde(default)]
    pub(crate) registries: Option<PathBuf>,
}

/// A line of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ProgressLine {
    /// The source is open, and planned.
    Planned,
    /// Progress in bytes: so far, and in total (0: not known).
    Moved {
        done: u64,
        total: u64,
        is_finishing: bool,
        /// Bytes that decompression made.
        decoded: u64,
    },
    /// All bytes came and were valid; the rest of the work makes the disk durable.
    Whole,
    /// The disk is complete and durable.
    Done(Disk),
    Failed(Fault),
}

/// The complete disk that an attempt reports at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disk {
    pub(crate) size: u64,
    /// Bytes that an earlier attempt had written.
    pub(crate) resumed: u64,
    /// Digest of the image that was made of it.
    #[serde(default)]
    pub(crate) digest: String,
    /// True if the source stated no length: a disk that was cut short looks the same.
    #[serde(default)]
    pub(crate) length_unknown: bool,
    /// Labels for the PVC.
    pub(crate) labels: BTreeMap<String, String>,
}

/// The reason why an attempt failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// A single word for the reason, for conditions.
    pub(crate) reason: String,
    pub(crate) message: String,
    /// True if another attempt may succeed.
    pub(crate) may_retry: bool,
    /// Bytes of the disk, if the volume is too small for them.
    #[serde(default)]
    pub(crate) required: Option<u64>,
}
