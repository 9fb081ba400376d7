//! A disk: how the guest sees a volume.

use super::network::PciAddress;
use super::volume::Volume;

/// A disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// Its name, which is its volume's.
    pub name: String,
    /// Where its bytes are.
    pub volume: Volume,
    /// What the guest takes it for.
    pub target: Target,
    /// How it is attached.
    pub bus: Bus,
    /// The guest cannot write to it.
    pub readonly: bool,
    /// The place in the order of boot devices, from 1; shared with interfaces, unique.
    pub boot_order: Option<u32>,
    /// The serial number the guest reads: `[A-Za-z0-9_.+-]`, at most 256.
    pub serial: Option<String>,
    /// What a config drive calls it.
    pub tag: Option<String>,
    /// Its work is done by a thread of its own (virtio only).
    pub dedicated_io_thread: bool,
    /// `None`: chosen by what the file can do.
    pub cache: Option<Cache>,
    /// `None`: chosen by cache and file.
    pub io: Option<Io>,
    /// What happens on an error; stop unless the spec says otherwise.
    pub error_policy: ErrorPolicy,
    /// Sizes of blocks the guest sees.
    pub block_size: Option<BlockSize>,
    /// Several VMIs may write to it at once.
    pub shareable: bool,
    /// Where it stands on the PCI bus (virtio only).
    pub pci_address: Option<PciAddress>,
}

/// What the guest takes a disk for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A hard disk.
    Disk,
    /// A device that is passed through SCSI command by command.
    Lun,
    /// A CD-ROM drive, with its tray.
    CdRom {
        /// The tray is open.
        open: bool,
    },
}

/// How a disk is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bus {
    Virtio,
    Sata,
    Scsi,
    Usb,
}

/// The host's cache for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    None,
    WriteThrough,
    WriteBack,
}

/// How QEMU reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    Native,
    Threads,
}

/// What happens when the host cannot read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPolicy {
    /// The VMI is paused.
    Stop,
    /// Nothing.
    Ignore,
    /// The guest is told.
    Report,
    /// Paused when the host has no space, else the guest is told.
    EnoSpace,
}

/// Sizes of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockSize {
    /// Powers of two from 512 to 2 MiB, logical at most physical.
    Custom {
        /// What the guest addresses.
        logical: u32,
        /// What the device writes at once.
        physical: u32,
        /// What it discards at once.
        discard_granularity: Option<u32>,
    },
    /// Those of the volume.
    MatchVolume,
}
