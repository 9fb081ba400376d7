//! Layout of launcher pods: virt-controller creates pods with it, virt-handler finds paths and containers in
//! them by it, and the admission policies of the installation restrict virt-controller to it.

pub use api::launcher::USER;
use api::launcher::release_socket;
use std::path::Path;
use std::time::Duration;

/// Capabilities of a launcher pod's containers; all others are dropped.
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
/// Annotation of a launcher pod with the image in its manifest, which webhooks of the cluster may have
/// changed.
pub const ASKED_IMAGE: &str = "kubevirt.io/launcher-image";
/// Mount path of the kernel image in the launcher.
pub const KERNEL: &str = "/var/run/kubevirt-kernel-boot";
/// Name of the kernel image among the images that are passed to the launcher.
pub const HELD_KERNEL: &str = "kernel-boot";

/// Time for the source of a migration to connect to the ports of the target, after which they are closed.
pub const SOURCE_CONNECTS: Duration = Duration::from_secs(300);

/// Paths of the sockets of a migration in its two launcher pods. QEMU uses the same path at both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MigrationSocketPaths {
    /// libvirt's own connection: the value of the target's `--receive`.
    pub libvirt: String,
    /// The guest's memory.
    pub memory: String,
    /// The bytes of copied disks.
    pub disks: String,
    /// The source's word that the guest may go on.
    pub release: String,
}

impl MigrationSocketPaths {
    /// Paths beside the launcher's own socket (`--socket`), by the uid of the VirtualMachineInstanceMigration.
    pub fn beside(launcher_socket: &str, migration: &str) -> MigrationSocketPaths {
        let folder = launcher_socket.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = |end: &str| format!("{folder}/migration-{migration}-{end}");
        let libvirt = path("libvirt");
        let release = release_socket(Path::new(&libvirt)).display().to_string();
        MigrationSocketPaths { libvirt, memory: path("memory"), disks: path("disks"), release }
    }
}

/// Name of a volume's image among the images that are passed to the launcher, by the volume's index in the
/// spec.
pub fn held(index: usize) -> String {
    format!("disk_{index}")
}
