//! Disk devices of the guest.

use crate::vmi::FeatureState;
use crate::{object, string_enum};

object! {
    /// Disk device of the guest, backed by the volume of the same name.
    pub struct Disk {
        /// Name of the disk; must equal the name of a volume.
        pub name: String = "name",
        /// Attaches the volume as a hard disk. Default if neither `lun` nor `cdrom` is set.
        pub disk: Option<DiskTarget> = "disk",
        /// Attaches the volume as a SCSI LUN with command passthrough. Requires a PVC or DataVolume.
        pub lun: Option<LunTarget> = "lun",
        /// Attaches the volume as a CD-ROM drive.
        pub cdrom: Option<CdRomTarget> = "cdrom",
        /// Boot order among disks and interfaces, unique, from 1. Unset: not a boot device if any other
        /// device has an order.
        pub boot_order: Option<u32> = "bootOrder",
        /// Serial number of the disk, at most 256 characters of `A-Za-z0-9_.+-`. Unset: none.
        pub serial: Option<String> = "serial",
        /// Gives the disk an IOThread of its own. Requires bus `virtio`. Default: false.
        pub dedicated_io_thread: Option<bool> = "dedicatedIOThread",
        /// Cache mode of the disk on the node. Unset: `none` if the storage supports O_DIRECT, else
        /// `writethrough`.
        pub cache: Option<Cache> = "cache",
        /// Asynchronous I/O mode of QEMU; `native` requires cache `none`. Unset: chosen for the storage.
        pub io: Option<Io> = "io",
        /// Tag of the disk in the device metadata that cloud-init passes to the guest.
        pub tag: Option<String> = "tag",
        /// Block sizes that the disk reports to the guest. Unset: 512 bytes.
        pub block_size: Option<BlockSize> = "blockSize",
        /// Allows several VMIs to write to the disk at the same time. Default: false.
        pub shareable: Option<bool> = "shareable",
        /// Reaction to an I/O error of the volume. Default: `stop`, which pauses the VMI.
        pub error_policy: Option<ErrorPolicy> = "errorPolicy",
        /// Tracks changed blocks for incremental backups. Default: false.
        pub changed_block_tracking: Option<bool> = "changedBlockTracking",
    }
}

object! {
    /// Hard disk device of the guest.
    pub struct DiskTarget {
        /// Bus of the hard disk. Default: `sata` on amd64, `virtio` elsewhere.
        pub bus: Option<Bus> = "bus",
        /// Makes the disk read-only for the guest; not with bus `sata`. Default: false.
        pub readonly: Option<bool> = "readonly",
        /// PCI address of the disk, for example `0000:81:01.0`. Requires bus `virtio`. Unset: assigned by
        /// libvirt.
        pub pci_address: Option<String> = "pciAddress",
    }
}

object! {
    /// SCSI LUN device of the guest with command passthrough.
    pub struct LunTarget {
        /// Bus of the LUN; must be `scsi`.
        pub bus: Option<Bus> = "bus",
        /// Makes the LUN read-only for the guest. Default: false.
        pub readonly: Option<bool> = "readonly",
        /// Passes SCSI persistent reservations of the guest to the storage. Default: false.
        pub reservation: Option<bool> = "reservation",
    }
}

object! {
    /// CD-ROM drive of the guest.
    pub struct CdRomTarget {
        /// Bus of the CD-ROM drive, not `virtio`. Default: `sata` on amd64.
        pub bus: Option<Bus> = "bus",
        /// Makes the medium read-only; must be true. Default: true.
        pub readonly: Option<bool> = "readonly",
        /// State of the drive's tray. Default: `closed`.
        pub tray: Option<Tray> = "tray",
    }
}

object! {
    /// Block sizes that a disk reports to the guest: either custom or those of the volume.
    pub struct BlockSize {
        /// Block sizes in bytes, set explicitly. Excludes `matchVolume`.
        pub custom: Option<CustomBlockSize> = "custom",
        /// Uses the block sizes of the backing volume. Excludes `custom`.
        pub match_volume: Option<FeatureState> = "matchVolume",
    }
}

object! {
    /// Block sizes of a disk in bytes.
    pub struct CustomBlockSize {
        /// Logical block size in bytes, a power of 2 from 512 to 2097152; 512 with bus `sata`.
        pub logical: Option<u64> = "logical",
        /// Physical block size in bytes, a power of 2 from `logical` to 2097152.
        pub physical: Option<u64> = "physical",
        /// Discard granularity in bytes, a multiple of `logical`. Unset: the default of QEMU.
        pub discard_granularity: Option<u64> = "discardGranularity",
    }
}

string_enum! {
    /// Bus that attaches a disk to the guest.
    pub enum Bus {
        Virtio = "virtio",
        Scsi = "scsi",
        Sata = "sata",
        Usb = "usb",
    }
}

string_enum! {
    /// State of the tray of a CD-ROM drive.
    pub enum Tray {
        Open = "open",
        Closed = "closed",
    }
}

string_enum! {
    /// Cache mode of a disk on the node.
    pub enum Cache {
        None = "none",
        WriteThrough = "writethrough",
        WriteBack = "writeback",
    }
}

string_enum! {
    /// Asynchronous I/O mode of QEMU.
    pub enum Io {
        Threads = "threads",
        Native = "native",
    }
}

string_enum! {
    /// Reaction to an I/O error of a volume.
    pub enum ErrorPolicy {
        Stop = "stop",
        Ignore = "ignore",
        Report = "report",
        EnoSpace = "enospace",
    }
}
