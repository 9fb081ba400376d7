//! The form of a launcher pod: virt-controller makes pods by it, virt-handler finds by it what is where in them, and the
//! admission policies of the installation hold virt-controller to it.

pub use api::launcher::USER;

/// What a container of a launcher's pod may have of root's capabilities; all others are dropped.
pub const CAPABILITIES: [&str; 1] = ["NET_BIND_SERVICE"];
/// The kinds of volumes that a launcher's pod has.
pub const VOLUMES: [&str; 8] = [
    "emptyDir",
    "image",
    "persistentVolumeClaim",
    "secret",
    "configMap",
    "hostPath",
    "downwardAPI",
    "projected",
];
/// The option of a container that serves a file system: the socket on which it does, called like the volume.
pub const VIRTIOFS: &str = "--virtiofs";
/// Annotation of a launcher pod: the image that virt-controller asked for, whatever webhooks of the cluster made of it.
pub const ASKED_IMAGE: &str = "kubevirt.io/launcher-image";
/// Where a launcher sees the image of a kernel.
pub const KERNEL: &str = "/var/run/kubevirt-kernel-boot";
/// What the image of a kernel is held out as.
pub const HELD_KERNEL: &str = "kernel-boot";

/// What the image of a volume is held out as, by the volume's place in the spec.
pub fn held(index: usize) -> String {
    format!("disk_{index}")
}
