//! Volumes of a VMI.

use crate::meta::{Empty, LocalReference};
use crate::pod::FactFile;
use crate::quantity::Quantity;
use crate::{object, string_enum};
use serde_json::Value;

object! {
    /// Volume of a VMI with exactly one source, for example `containerDisk`.
    pub struct Volume {
        /// Name of the volume, a DNS label; must equal the name of a disk or filesystem.
        pub name: String = "name",
        /// Disk image file on the node. Requires the feature gate `HostDisk`.
        pub host_disk: Option<HostDisk> = "hostDisk",
        /// PersistentVolumeClaim (PVC) with a disk image or a block device.
        pub persistent_volume_claim: Option<ClaimSource> = "persistentVolumeClaim",
        /// NoCloud data source for cloud-init, as a disk labelled `cidata`.
        pub cloud_init_no_cloud: Option<CloudInit> = "cloudInitNoCloud",
        /// Config drive data source for cloud-init, as a disk labelled `config-2`.
        pub cloud_init_config_drive: Option<CloudInit> = "cloudInitConfigDrive",
        /// Answer files for Windows setup, as a CD-ROM.
        pub sysprep: Option<Sysprep> = "sysprep",
        /// Disk image in a container image. Writes are lost when the VMI stops.
        pub container_disk: Option<ContainerDisk> = "containerDisk",
        /// Copy-on-write overlay of a PersistentVolumeClaim. Writes are lost when the VMI stops.
        pub ephemeral: Option<Ephemeral> = "ephemeral",
        /// Empty disk that is deleted when the VMI stops.
        pub empty_disk: Option<EmptyDisk> = "emptyDisk",
        /// PersistentVolumeClaim of a DataVolume. The VMI starts after the import.
        pub data_volume: Option<DataVolumeSource> = "dataVolume",
        /// Files of a ConfigMap, as a read-only filesystem image.
        pub config_map: Option<ConfigMapSource> = "configMap",
        /// Files of a Secret, as a read-only filesystem image.
        pub secret: Option<SecretSource> = "secret",
        /// Fields of the VMI, as files of a read-only filesystem image.
        pub downward_api: Option<DownwardApi> = "downwardAPI",
        /// Token of a ServiceAccount, as a read-only filesystem image.
        pub service_account: Option<ServiceAccount> = "serviceAccount",
        /// Metrics of the node, as a disk (vhostmd).
        pub downward_metrics: Option<Empty> = "downwardMetrics",
        /// PersistentVolumeClaim that receives a dump of the guest memory. Not attached to the guest.
        pub memory_dump: Option<MemoryDump> = "memoryDump",
        /// Directory of the launcher pod, shared with the guest through virtiofs. Requires a filesystem.
        pub container_path: Option<ContainerPath> = "containerPath",
    }
}

object! {
    /// Disk image file on the node.
    pub struct HostDisk {
        /// Absolute path of the disk image on the node.
        pub path: String = "path",
        /// Type of the host disk: `DiskOrCreate` creates a missing image, `Disk` requires the image to exist.
        pub r#type: HostDiskType = "type",
        /// Size of an image to create. Required with type `DiskOrCreate`, refused with `Disk`.
        pub capacity: Option<Quantity> = "capacity",
        /// Allows several VMIs to use the image at the same time. Default: false.
        pub shared: Option<bool> = "shared",
    }
}

object! {
    /// Reference to a PersistentVolumeClaim (PVC) in the namespace of the VMI.
    pub struct ClaimSource {
        /// Name of the PersistentVolumeClaim in the namespace of the VMI.
        pub claim_name: String = "claimName",
        /// Mounts the PersistentVolumeClaim read-only. Default: false.
        pub read_only: Option<bool> = "readOnly",
        /// Allows unplugging the volume while the VMI runs. Default: false.
        pub hotpluggable: Option<bool> = "hotpluggable",
    }
}

object! {
    /// Data source for cloud-init with user data, network data or both, each from one source.
    pub struct CloudInit {
        /// Reference to a Secret with the user data in key `userdata`.
        pub secret_ref: Option<LocalReference> = "secretRef",
        /// User data of cloud-init, base64-encoded, at most 2048 bytes decoded.
        pub user_data_base64: Option<String> = "userDataBase64",
        /// User data of cloud-init as plain text, at most 2048 bytes.
        pub user_data: Option<String> = "userData",
        /// Reference to a Secret with the network data in key `networkdata`.
        pub network_data_secret_ref: Option<LocalReference> = "networkDataSecretRef",
        /// Network data of cloud-init, base64-encoded, at most 2048 bytes decoded.
        pub network_data_base64: Option<String> = "networkDataBase64",
        /// Network data of cloud-init as plain text, at most 2048 bytes.
        pub network_data: Option<String> = "networkData",
    }
}

object! {
    /// Answer files for Windows setup from either a Secret or a ConfigMap.
    pub struct Sysprep {
        /// Secret with the answer files, for example `autounattend.xml`. Excludes `configMap`.
        pub secret: Option<LocalReference> = "secret",
        /// ConfigMap with the answer files, for example `autounattend.xml`. Excludes `secret`.
        pub config_map: Option<LocalReference> = "configMap",
    }
}

object! {
    /// Disk image in a container image.
    pub struct ContainerDisk {
        /// Reference of the container image with the disk image.
        pub image: String = "image",
        /// Name of the image pull Secret for the registry. Unset: anonymous access.
        pub image_pull_secret: Option<String> = "imagePullSecret",
        /// Absolute path of the disk image in the container image. Default: the only file in `/disk`.
        pub path: Option<String> = "path",
        /// Image pull policy: `Always`, `IfNotPresent` or `Never`. Default: `Always` for tag `latest` or no
        /// tag, else `IfNotPresent`.
        pub image_pull_policy: Option<String> = "imagePullPolicy",
    }
}

object! {
    /// Copy-on-write overlay of a PersistentVolumeClaim. Writes are lost when the VMI stops.
    pub struct Ephemeral {
        /// PersistentVolumeClaim under the overlay, never written to. Required.
        pub persistent_volume_claim: Option<ClaimSource> = "persistentVolumeClaim",
    }
}

object! {
    /// Empty disk that is deleted when the VMI stops.
    pub struct EmptyDisk {
        /// Size of the disk, for example `10Gi`, rounded up to 512 bytes.
        pub capacity: Quantity = "capacity",
    }
}

object! {
    /// Reference to the PersistentVolumeClaim of a DataVolume.
    pub struct DataVolumeSource {
        /// Name of the DataVolume and of its PersistentVolumeClaim in the namespace of the VMI.
        pub name: String = "name",
        /// Allows unplugging the volume while the VMI runs. Default: false.
        pub hotpluggable: Option<bool> = "hotpluggable",
    }
}

object! {
    /// Files of a ConfigMap as a filesystem image.
    pub struct ConfigMapSource {
        /// Name of the ConfigMap in the namespace of the VMI.
        pub name: Option<String> = "name",
        /// Starts the VMI even if the ConfigMap is missing. Default: false.
        pub optional: Option<bool> = "optional",
        /// Filesystem label of the image, at most 32 characters. Unset: the default label.
        pub volume_label: Option<String> = "volumeLabel",
    }
}

object! {
    /// Files of a Secret as a filesystem image.
    pub struct SecretSource {
        /// Name of the Secret in the namespace of the VMI.
        pub secret_name: Option<String> = "secretName",
        /// Starts the VMI even if the Secret is missing. Default: false.
        pub optional: Option<bool> = "optional",
        /// Filesystem label of the image, at most 32 characters. Unset: the default label.
        pub volume_label: Option<String> = "volumeLabel",
    }
}

object! {
    /// Fields of the VMI as files of a filesystem image.
    pub struct DownwardApi {
        /// Files to create, each from a field of the launcher pod, which has the labels and annotations of
        /// the VMI. Resource fields name the container `compute`.
        pub fields: Vec<Value> = "fields" as Vec<FactFile>,
        /// Filesystem label of the image. Unset: the default label.
        pub volume_label: Option<String> = "volumeLabel",
    }
}

object! {
    /// Token of a ServiceAccount as a filesystem image.
    pub struct ServiceAccount {
        /// Name of the ServiceAccount in the namespace of the VMI.
        pub service_account_name: Option<String> = "serviceAccountName",
    }
}

object! {
    /// PersistentVolumeClaim that receives a dump of the guest memory.
    pub struct MemoryDump {
        /// Name of the PersistentVolumeClaim in the namespace of the VMI.
        pub claim_name: String = "claimName",
        /// Mounts the PersistentVolumeClaim read-only. Default: false.
        pub read_only: Option<bool> = "readOnly",
        /// Allows unplugging the volume while the VMI runs. Default: false.
        pub hotpluggable: Option<bool> = "hotpluggable",
    }
}

object! {
    /// Directory of the launcher pod, shared with the guest.
    pub struct ContainerPath {
        /// Absolute path of the directory in the launcher pod, not below `/proc`, `/sys`, `/dev`, `/etc`,
        /// `/usr`, `/lib`, `/run` or the folders of KubeVirt.
        pub path: String = "path",
        /// Shares the directory read-only; must be true. Default: true.
        pub read_only: Option<bool> = "readOnly",
    }
}

string_enum! {
    /// Type of a host disk.
    pub enum HostDiskType {
        DiskOrCreate = "DiskOrCreate",
        Disk = "Disk",
    }
}
