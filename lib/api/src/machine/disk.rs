//! A disk: the device by which the guest sees a volume.

use super::network::PciAddress;
use super::volume::Volume;

#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// Name of the disk, the same as that of its volume.
    pub name: String,
    /// Source of the disk's content.
    pub volume: Volume,
    /// Kind of device that the guest sees.
    pub target: Target,
    pub bus: Bus,
    /// The guest cannot write to it.
    pub readonly: bool,
    /// Position in the boot order, from 1; unique among disks and interfaces.
    pub boot_order: Option<u32>,
    /// Serial number that the guest reads: `[A-Za-z0-9_.+-]`, at most 256 characters.
    pub serial: Option<String>,
    /// Tag of the disk in the config drive.
    pub tag: Option<String>,
    /// A dedicated thread does the disk's I/O (virtio only).
    pub dedicated_io_thread: bool,
    /// Cache mode. `None`: chosen by the capabilities of the file.
    pub cache: Option<Cache>,
    /// I/O mode. `None`: chosen by cache and file.
    pub io: Option<Io>,
    /// Action on an I/O error. Default: stop.
    pub error_policy: ErrorPolicy,
    /// Block sizes that the guest sees.
    pub block_size: Option<BlockSize>,
    /// Several VMIs may write to the disk at once.
    pub shareable: bool,
    /// PCI address (virtio only).
    pub pci_address: Option<PciAddress>,
}

impl Disk {
    /// True for a disk that a live migration may copy into another PVC: the guest alone writes to it, and the whole PVC is this disk.
    pub fn has_movable_claim(&self) -> bool {
        self.unmovable_reason().is_none()
    }

    /// The reason why a live migration does not copy the disk into another PVC, to follow its name: "is a CD-ROM".
    pub fn unmovable_reason(&self) -> Option<&'static str> {
        match (&self.volume, self.target) {
            (_, Target::CdRom { .. }) => Some("is a CD-ROM"),
            (_, Target::Lun) => Some("is a LUN"),
            (Volume::Ephemeral { .. }, Target::Disk) => Some("is ephemeral"),
            _ if self.shareable => Some("is shareable"),
            (Volume::Claim { readonly: true, .. }, Target::Disk) => Some("is read-only"),
            _ if self.readonly => Some("is read-only"),
            (Volume::Claim { .. } | Volume::DataVolume { .. }, Target::Disk) => None,
            (_, Target::Disk) => Some("is not a PVC"),
        }
    }
}

/// Access modes of a PVC whose volume is used by one node at a time, but by no other node.
pub fn is_of_one_node(access_modes: &[String]) -> bool {
    let has = |wanted: &[&str]| access_modes.iter().any(|mode| wanted.contains(&mode.as_str()));
    has(&["ReadWriteOnce", "ReadWriteOncePod"]) && !has(&["ReadWriteMany"])
}

/// Kind of device that the guest sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Disk,
    /// A device that is passed through SCSI command by command.
    Lun,
    CdRom {
        /// The tray is open.
        open: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bus {
    Virtio,
    Sata,
    Scsi,
    Usb,
}

/// Cache mode of a disk on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    None,
    WriteThrough,
    WriteBack,
}

/// Mode of QEMU's I/O (`io` of libvirt's disk driver).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    Native,
    Threads,
}

/// Action when the host cannot read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPolicy {
    Stop,
    Ignore,
    /// Report the error to the guest.
    Report,
    /// Pause the VMI if the host has no space, else report the error to the guest.
    EnoSpace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// Powers of two from 512 to 2 MiB, logical at most physical.
    Custom {
        /// Logical block size, the unit of addresses.
        logical: u32,
        /// Physical block size, the unit of writes.
        physical: u32,
        /// Unit of discards, in bytes.
        discard_granularity: Option<u32>,
    },
    /// Block sizes of the volume.
    MatchVolume,
}
