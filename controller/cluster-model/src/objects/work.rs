//! Work of worker pods, and the names of a pod that does it.
//!
//! | | pod | label `cdi.kubevirt.io` | container |
//! |---|---|---|---|
//! | import | `importer-PVC` | `importer` | `importer` |
//! | upload | `cdi-upload-PVC` | `cdi-upload-server` | `cdi-upload-server` |
//! | export | `exporter-PVC` | `exporter` | `exporter` |
//! | serve | `clone-source-UID` of the PVC that is filled | `cdi-clone-source` | `cdi-clone-source` |

use super::names;
use crate::worker::{CONTAINER, EXPORT, WORK};
use crate::{clones, uploads};
use api::meta::ObjectMeta;

/// Work of a worker pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Fetches the disk from a source.
    Import,
    /// Receives the disk from a client.
    Upload,
    /// Reads the disk and pushes it as an image to a registry.
    Export,
    /// Serves the disk of a PVC to the importer pod of a clone. Writes nothing.
    Serve,
}

impl Work {
    /// All kinds of work.
    pub const ALL: [Work; 4] = [Work::Import, Work::Upload, Work::Export, Work::Serve];
    /// Work that writes to the PVC.
    pub const FILLS: [Work; 2] = [Work::Import, Work::Upload];

    /// The work of a pod, by its label.
    pub fn from_pod(pod: &ObjectMeta) -> Option<Work> {
        let label = pod.labels.get(WORK.0)?;
        Work::ALL.into_iter().find(|work| work.label() == label)
    }

    /// Value of the label for this work.
    pub const fn label(self) -> &'static str {
        match self {
            Work::Import => WORK.1,
            Work::Upload => uploads::WORK,
            Work::Export => EXPORT,
            Work::Serve => clones::WORK,
        }
    }

    /// Name of the container in its pods.
    pub const fn container(self) -> &'static str {
        match self {
            Work::Import => CONTAINER,
            Work::Upload => uploads::CONTAINER,
            Work::Export => EXPORT,
            Work::Serve => clones::CONTAINER,
        }
    }

    /// Subcommand on the command line of its pods.
    pub const fn verb(self) -> &'static str {
        match self {
            Work::Import => "import",
            Work::Upload => "upload",
            Work::Export => "export",
            Work::Serve => "serve",
        }
    }

    /// Name of its pod for the PVC of a name. A pod that serves a clone has the uid of the target PVC
    /// instead.
    pub fn pod(self, claim: &str) -> String {
        match self {
            Work::Import => names::importer(claim),
            Work::Upload => names::uploader(claim),
            Work::Export => names::exporter(claim),
            Work::Serve => names::cloner(claim),
        }
    }
}
