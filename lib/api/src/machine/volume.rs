//! Where the bytes of a disk are.

use super::firmware::Image;
use serde_json::Value;

/// A volume.
#[derive(Clone, Debug, PartialEq)]
pub enum Volume {
    /// A disk in an image; what the guest writes is gone with the VMI.
    ContainerDisk {
        /// The image.
        image: Image,
        /// The disk's path in it; else the only file of `/disk`.
        path: Option<String>,
    },
    /// A PVC: a file or a block device.
    Claim {
        /// The PVC's name.
        name: String,
        /// The guest cannot write to it.
        readonly: bool,
    },
    /// A DataVolume's PVC.
    DataVolume {
        /// The DataVolume's name, which is its PVC's.
        name: String,
    },
    /// A PVC that is only read; what the guest writes is gone with the VMI.
    Ephemeral {
        /// The PVC's name.
        claim: String,
    },
    /// An empty disk that is gone with the VMI.
    Empty {
        /// In bytes.
        capacity: u64,
    },
    /// A file of the host.
    Host {
        /// Where it is.
        path: String,
        /// Make it of this size where it does not exist, in bytes.
        create: Option<u64>,
        /// Several VMIs may use it at once.
        shared: bool,
    },
    /// A seed for cloud-init in the form NoCloud.
    NoCloud(CloudInit),
    /// A seed for cloud-init in the form of a config drive.
    ConfigDrive(CloudInit),
    /// The files of a config map as an ISO image.
    ConfigMap {
        /// The config map.
        name: String,
        /// It need not exist.
        optional: bool,
        /// The label of the ISO image.
        label: Option<String>,
    },
    /// The files of a secret as an ISO image.
    Secret {
        /// The secret.
        name: String,
        /// It need not exist.
        optional: bool,
        /// The label of the ISO image.
        label: Option<String>,
    },
    /// Fields of the VMI as the files of an ISO image.
    DownwardApi {
        /// The files, in the form of a pod's `downwardAPI` volume.
        fields: Vec<Value>,
        /// The label of the ISO image.
        label: Option<String>,
    },
    /// The token of a service account as an ISO image.
    ServiceAccount {
        /// The service account.
        name: String,
    },
    /// A folder of the launcher pod, into which somebody else has put something. Only read, and only as a file system.
    ContainerPath {
        /// Where it is.
        path: String,
    },
    /// Metrics of the node and of the VMI, which the launcher writes.
    DownwardMetrics,
    /// Nothing: a CD-ROM drive without media.
    NoDisc,
    /// Answers for the setup of Windows.
    Sysprep {
        /// A config map or a secret.
        source: Named,
    },
}

/// Where the files of a seed come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// The config map of this name.
    ConfigMap(String),
    /// The secret of this name.
    Secret(String),
}

/// What cloud-init is told. At least one of the two is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudInit {
    /// The user's instructions.
    pub user_data: Option<Text>,
    /// The network's.
    pub network_data: Option<Text>,
}

/// A text of a spec, or of a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// Written out in the spec (or there in base64, and decoded here).
    Inline(Vec<u8>),
    /// In the secret of this name.
    Secret(String),
}
