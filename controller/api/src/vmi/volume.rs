//! Where the bytes of a disk are.

use crate::meta::{Empty, LocalReference};
use crate::pod::FactFile;
use crate::quantity::Quantity;
use crate::{object, words};
use serde_json::Value;

object! {
    /// Where the bytes of a disk are; exactly one source.
    pub struct Volume {
        /// Its name, which its disk has too.
        pub name: String = "name",
        /// A file of the host.
        pub host_disk: Option<HostDisk> = "hostDisk",
        /// A claim.
        pub persistent_volume_claim: Option<ClaimSource> = "persistentVolumeClaim",
        /// A seed for cloud-init in the form NoCloud.
        pub cloud_init_no_cloud: Option<CloudInit> = "cloudInitNoCloud",
        /// A seed for cloud-init in the form of a config drive.
        pub cloud_init_config_drive: Option<CloudInit> = "cloudInitConfigDrive",
        /// Answers for the setup of Windows.
        pub sysprep: Option<Sysprep> = "sysprep",
        /// A disk in an image.
        pub container_disk: Option<ContainerDisk> = "containerDisk",
        /// A claim that is only read.
        pub ephemeral: Option<Ephemeral> = "ephemeral",
        /// An empty disk.
        pub empty_disk: Option<EmptyDisk> = "emptyDisk",
        /// A DataVolume's claim.
        pub data_volume: Option<DataVolumeSource> = "dataVolume",
        /// The files of a config map.
        pub config_map: Option<ConfigMapSource> = "configMap",
        /// The files of a secret.
        pub secret: Option<SecretSource> = "secret",
        /// Facts of the object.
        pub downward_api: Option<DownwardApi> = "downwardAPI",
        /// The token of a service account.
        pub service_account: Option<ServiceAccount> = "serviceAccount",
        /// Figures of the host.
        pub downward_metrics: Option<Empty> = "downwardMetrics",
        /// A claim that holds the guest's memory.
        pub memory_dump: Option<MemoryDump> = "memoryDump",
        /// A folder of the pod.
        pub container_path: Option<ContainerPath> = "containerPath",
    }
}

object! {
    /// A file of the host.
    pub struct HostDisk {
        /// Where it is.
        pub path: String = "path",
        /// Whether it is made.
        pub r#type: HostDiskType = "type",
        /// Of which size it is made.
        pub capacity: Option<Quantity> = "capacity",
        /// Several machines may use it at once.
        pub shared: Option<bool> = "shared",
    }
}

object! {
    /// A claim.
    pub struct ClaimSource {
        /// The claim's name.
        pub claim_name: String = "claimName",
        /// Nobody writes to it.
        pub read_only: Option<bool> = "readOnly",
        /// It may be taken out while the machine runs.
        pub hotpluggable: Option<bool> = "hotpluggable",
    }
}

object! {
    /// What cloud-init is told; the same for NoCloud and for the config drive.
    pub struct CloudInit {
        /// The secret that holds the user's instructions.
        pub secret_ref: Option<LocalReference> = "secretRef",
        /// The user's instructions in base64.
        pub user_data_base64: Option<String> = "userDataBase64",
        /// The user's instructions.
        pub user_data: Option<String> = "userData",
        /// The secret that holds the network's.
        pub network_data_secret_ref: Option<LocalReference> = "networkDataSecretRef",
        /// The network's in base64.
        pub network_data_base64: Option<String> = "networkDataBase64",
        /// The network's.
        pub network_data: Option<String> = "networkData",
    }
}

object! {
    /// Answers for the setup of Windows.
    pub struct Sysprep {
        /// A secret's files.
        pub secret: Option<LocalReference> = "secret",
        /// A config map's files.
        pub config_map: Option<LocalReference> = "configMap",
    }
}

object! {
    /// A disk in an image.
    pub struct ContainerDisk {
        /// Its reference.
        pub image: String = "image",
        /// The secret that opens the registry.
        pub image_pull_secret: Option<String> = "imagePullSecret",
        /// The disk's path in it; not said is the only file of `/disk`.
        pub path: Option<String> = "path",
        /// `Always`, `IfNotPresent` or `Never`.
        pub image_pull_policy: Option<String> = "imagePullPolicy",
    }
}

object! {
    /// A claim that is only read, and what is written on top of it is gone with the machine.
    pub struct Ephemeral {
        /// The claim.
        pub persistent_volume_claim: Option<ClaimSource> = "persistentVolumeClaim",
    }
}

object! {
    /// An empty disk that is gone with the machine.
    pub struct EmptyDisk {
        /// Its size.
        pub capacity: Quantity = "capacity",
    }
}

object! {
    /// A DataVolume's claim.
    pub struct DataVolumeSource {
        /// The DataVolume's name, which is its claim's.
        pub name: String = "name",
        /// It may be taken out while the machine runs.
        pub hotpluggable: Option<bool> = "hotpluggable",
    }
}

object! {
    /// The files of a config map as a disc.
    pub struct ConfigMapSource {
        /// The config map.
        pub name: Option<String> = "name",
        /// It need not exist.
        pub optional: Option<bool> = "optional",
        /// The label of the disc.
        pub volume_label: Option<String> = "volumeLabel",
    }
}

object! {
    /// The files of a secret as a disc.
    pub struct SecretSource {
        /// The secret.
        pub secret_name: Option<String> = "secretName",
        /// It need not exist.
        pub optional: Option<bool> = "optional",
        /// The label of the disc.
        pub volume_label: Option<String> = "volumeLabel",
    }
}

object! {
    /// Facts of the object as a disc.
    pub struct DownwardApi {
        /// The facts, each a file, as in a pod: `DownwardAPIVolumeFile`.
        pub fields: Vec<Value> = "fields" as Vec<FactFile>,
        /// The label of the disc.
        pub volume_label: Option<String> = "volumeLabel",
    }
}

object! {
    /// The token of a service account as a disc.
    pub struct ServiceAccount {
        /// The account.
        pub service_account_name: Option<String> = "serviceAccountName",
    }
}

object! {
    /// A claim that holds the guest's memory.
    pub struct MemoryDump {
        /// The claim's name.
        pub claim_name: String = "claimName",
        /// Nobody writes to it.
        pub read_only: Option<bool> = "readOnly",
        /// It may be taken out while the machine runs.
        pub hotpluggable: Option<bool> = "hotpluggable",
    }
}

object! {
    /// A folder of the pod.
    pub struct ContainerPath {
        /// Where it is in the pod.
        pub path: String = "path",
        /// Nobody writes to it.
        pub read_only: Option<bool> = "readOnly",
    }
}

words! {
    /// Whether a file of the host is made.
    #[allow(missing_docs)]
    pub enum HostDiskType {
        DiskOrCreate = "DiskOrCreate",
        Disk = "Disk",
    }
}
