//! Volumes: the content of disks and file systems.

use super::firmware::Image;
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub enum Volume {
    /// A disk in a container image; the guest's writes are gone with the VMI.
    ContainerDisk {
        image: Image,
        /// Path of the disk in the image. Unset: the only file of `/disk`.
        path: Option<String>,
    },
    /// A PVC: a file or a block device.
    Claim {
        name: String,
        /// The guest cannot write to it.
        readonly: bool,
    },
    /// The PVC of a DataVolume.
    DataVolume {
        /// Name of the DataVolume, the same as that of its PVC.
        name: String,
    },
    /// A read-only PVC with an overlay; the guest's writes are gone with the VMI.
    Ephemeral { claim: String },
    /// An empty disk that is gone with the VMI.
    Empty { capacity: u64 },
    /// A file of the host.
    Host {
        path: String,
        /// Size in bytes of the file to create, if it does not exist.
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
        name: String,
        /// The ConfigMap need not exist.
        optional: bool,
        /// The label of the ISO image.
        label: Option<String>,
    },
    /// The files of a secret as an ISO image.
    Secret {
        name: String,
        /// The Secret need not exist.
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
    ServiceAccount { name: String },
    /// A folder of the launcher pod that another program has filled. Read-only, and only as a file system.
    ContainerPath { path: String },
    /// Metrics of the node and of the VMI, written by the launcher.
    DownwardMetrics,
    /// An empty CD-ROM drive.
    NoDisc,
    /// Answer files for Windows setup.
    Sysprep {
        /// A config map or a secret.
        source: ConfigMapOrSecret,
    },
}

/// Object with the files of a seed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigMapOrSecret {
    ConfigMap(String),
    Secret(String),
}

/// Cloud-init data; at least one of the two is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudInit {
    pub user_data: Option<Text>,
    pub network_data: Option<Text>,
}

/// A text in the spec, or in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Text {
    /// The text in the spec (base64 is decoded).
    Inline(Vec<u8>),
    /// Name of the Secret.
    Secret(String),
}
