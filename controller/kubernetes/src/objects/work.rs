//! What a worker pod does, and how a pod that does it is called.
//!
//! | | pod | label `cdi.kubevirt.io` | container |
//! |---|---|---|---|
//! | import | `importer-PVC` | `importer` | `importer` |
//! | upload | `cdi-upload-PVC` | `cdi-upload-server` | `cdi-upload-server` |

use super::names;
use crate::uploads;
use crate::worker::{CONTAINER, WORK};
use api::meta::ObjectMeta;

/// What a worker pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It fetches the disk.
    Import,
    /// It takes the disk from a client.
    Upload,
}

impl Work {
    /// All kinds of work.
    pub const ALL: [Work; 2] = [Work::Import, Work::Upload];

    /// The work of a pod, by its label.
    pub fn of(pod: &ObjectMeta) -> Option<Work> {
        let label = pod.labels.get(WORK.0)?;
        Work::ALL.into_iter().find(|work| work.label() == label)
    }

    /// The value of the label that says it.
    pub const fn label(self) -> &'static str {
        match self {
            Work::Import => WORK.1,
            Work::Upload => uploads::WORK,
        }
    }

    /// The container of its pods.
    pub const fn container(self) -> &'static str {
        match self {
            Work::Import => CONTAINER,
            Work::Upload => uploads::CONTAINER,
        }
    }

    /// What its pods are told on their command line.
    pub const fn verb(self) -> &'static str {
        match self {
            Work::Import => "import",
            Work::Upload => "upload",
        }
    }

    /// The name of its pod for the PVC of a name.
    pub fn pod(self, claim: &str) -> String {
        match self {
            Work::Import => names::importer(claim),
            Work::Upload => names::uploader(claim),
        }
    }
}
