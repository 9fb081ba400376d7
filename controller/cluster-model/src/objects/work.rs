//! What a worker pod does, and how a pod that does it is called.
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

/// What a worker pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// It fetches the disk.
    Import,
    /// It takes the disk from a client.
    Upload,
    /// It reads the disk, and makes an image of it in a registry.
    Export,
    /// It shows the disk of a PVC to the importer pod of a clone, and writes nothing.
    Serve,
}

impl Work {
    /// All kinds of work.
    pub const ALL: [Work; 4] = [Work::Import, Work::Upload, Work::Export, Work::Serve];
    /// Those that write to the PVC.
    pub const FILLS: [Work; 2] = [Work::Import, Work::Upload];

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
            Work::Export => EXPORT,
            Work::Serve => clones::WORK,
        }
    }

    /// The container of its pods.
    pub const fn container(self) -> &'static str {
        match self {
            Work::Import => CONTAINER,
            Work::Upload => uploads::CONTAINER,
            Work::Export => EXPORT,
            Work::Serve => clones::CONTAINER,
        }
    }

    /// What its pods are told on their command line.
    pub const fn verb(self) -> &'static str {
        match self {
            Work::Import => "import",
            Work::Upload => "upload",
            Work::Export => "export",
            Work::Serve => "serve",
        }
    }

    /// The name of its pod for the PVC of a name; of the pod that serves a clone, for the PVC of a uid.
    pub fn pod(self, claim: &str) -> String {
        match self {
            Work::Import => names::importer(claim),
            Work::Upload => names::uploader(claim),
            Work::Export => names::exporter(claim),
            Work::Serve => names::cloner(claim),
        }
    }
}
