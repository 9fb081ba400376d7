//! How the guest sees a volume.

use crate::vmi::FeatureState;
use crate::{object, words};

object! {
    /// How the guest sees a volume.
    pub struct Disk {
        /// Its name, which is its volume's.
        pub name: String = "name",
        /// A hard disk.
        pub disk: Option<DiskTarget> = "disk",
        /// A device that is passed through SCSI command by command.
        pub lun: Option<LunTarget> = "lun",
        /// A disc.
        pub cdrom: Option<CdRomTarget> = "cdrom",
        /// The place in the order of boot devices, from 1; shared by disks and interfaces.
        pub boot_order: Option<u32> = "bootOrder",
        /// The serial number the guest reads.
        pub serial: Option<String> = "serial",
        /// Its work is done by a thread of its own.
        pub dedicated_io_thread: Option<bool> = "dedicatedIOThread",
        /// The host's cache.
        pub cache: Option<Cache> = "cache",
        /// How QEMU reads and writes.
        pub io: Option<Io> = "io",
        /// A note to the guest.
        pub tag: Option<String> = "tag",
        /// Sizes of blocks the guest sees.
        pub block_size: Option<BlockSize> = "blockSize",
        /// Several machines may write to it at once.
        pub shareable: Option<bool> = "shareable",
        /// What happens when the host cannot read or write.
        pub error_policy: Option<ErrorPolicy> = "errorPolicy",
        /// Changes are tracked for backups.
        pub changed_block_tracking: Option<bool> = "changedBlockTracking",
    }
}

object! {
    /// A hard disk.
    pub struct DiskTarget {
        /// How it is attached.
        pub bus: Option<Bus> = "bus",
        /// The guest cannot write to it.
        pub readonly: Option<bool> = "readonly",
        /// Where it stands on the PCI bus: `0000:81:01.0`.
        pub pci_address: Option<String> = "pciAddress",
    }
}

object! {
    /// A device that is passed through SCSI command by command.
    pub struct LunTarget {
        /// How it is attached.
        pub bus: Option<Bus> = "bus",
        /// The guest cannot write to it.
        pub readonly: Option<bool> = "readonly",
        /// SCSI persistent reservations reach the device.
        pub reservation: Option<bool> = "reservation",
    }
}

object! {
    /// A disc, with its tray.
    pub struct CdRomTarget {
        /// How it is attached.
        pub bus: Option<Bus> = "bus",
        /// The guest cannot write to it.
        pub readonly: Option<bool> = "readonly",
        /// Whether it is open; not said is closed.
        pub tray: Option<Tray> = "tray",
    }
}

object! {
    /// Sizes of blocks the guest sees.
    pub struct BlockSize {
        /// Sizes that are given.
        pub custom: Option<CustomBlockSize> = "custom",
        /// Those of the volume.
        pub match_volume: Option<FeatureState> = "matchVolume",
    }
}

object! {
    /// Sizes that are given.
    pub struct CustomBlockSize {
        /// What the guest addresses.
        pub logical: Option<u64> = "logical",
        /// What the device writes at once.
        pub physical: Option<u64> = "physical",
        /// What it discards at once.
        pub discard_granularity: Option<u64> = "discardGranularity",
    }
}

words! {
    /// How a disk is attached.
    #[allow(missing_docs)]
    pub enum Bus {
        Virtio = "virtio",
        Scsi = "scsi",
        Sata = "sata",
        Usb = "usb",
    }
}

words! {
    /// Whether a tray is open.
    #[allow(missing_docs)]
    pub enum Tray {
        Open = "open",
        Closed = "closed",
    }
}

words! {
    /// The host's cache.
    #[allow(missing_docs)]
    pub enum Cache {
        None = "none",
        WriteThrough = "writethrough",
        WriteBack = "writeback",
    }
}

words! {
    /// How QEMU reads and writes.
    #[allow(missing_docs)]
    pub enum Io {
        Threads = "threads",
        Native = "native",
    }
}

words! {
    /// What happens when the host cannot read or write.
    #[allow(missing_docs)]
    pub enum ErrorPolicy {
        Stop = "stop",
        Ignore = "ignore",
        Report = "report",
        EnoSpace = "enospace",
    }
}
