//! What the two processes say to each other: an order on the standard input of an attempt, lines on its standard output.
//! Behind the order of an upload its bytes follow (`cdi::source::upload`).

use api::job::{Export, Import, Registry, Source};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A job that attempts are made at.
pub(crate) trait Job: Serialize + DeserializeOwned {
    /// The word that starts an attempt; people do not type it.
    const ATTEMPT: &'static str;

    /// The registry that is asked.
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

/// One attempt. Its standard input stays open behind this line; the end of it asks the attempt to end, unless an upload comes
/// there.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order<J = Import> {
    pub(crate) job: J,
    /// Bytes of memory that it may take.
    pub(crate) memory: u64,
    /// The uid of the PVC: what another one's attempt left on the volume is not gone on with.
    pub(crate) owner: String,
    /// The file with the cluster's settings about registries, where it has any.
    #[serde(default)]
    pub(crate) registries: Option<PathBuf>,
}

/// A line of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Said {
    /// The source is open, and planned.
    Planned,
    /// Bytes are moved: so far, of so many (0: not known).
    Moved {
        done: u64,
        total: u64,
        is_finishing: bool,
        /// Bytes that decompression made.
        decoded: u64,
    },
    /// All bytes came and were in order; what is left is to make the disk durable.
    Whole,
    /// The disk is whole and durable.
    Done(Disk),
    /// There is no disk.
    Failed(Fault),
}

/// A disk that is whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disk {
    pub(crate) size: u64,
    /// Bytes that an earlier attempt had written.
    pub(crate) resumed: u64,
    /// Digest of the image that was made of it.
    #[serde(default)]
    pub(crate) digest: String,
    /// Nothing told how long the disk is: one that was cut short looks the same.
    #[serde(default)]
    pub(crate) length_unknown: bool,
    /// Labels for the PVC.
    pub(crate) labels: BTreeMap<String, String>,
}

/// Why an attempt failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// In one word, for conditions.
    pub(crate) reason: String,
    /// One sentence.
    pub(crate) message: String,
    /// Whether another attempt may mend it.
    pub(crate) may_retry: bool,
    /// Bytes of the disk, where the volume is too small for them.
    #[serde(default)]
    pub(crate) required: Option<u64>,
}
