//! Paths and taps of a VM's parts on this host. Created by `vm::prepare`.

use super::host_device::HostAddress;
use api::launcher::{Accelerator, Format, Kernel, Link};
use api::machine::hardware::Hardware;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Locations of one VM's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub accelerator: Accelerator,
    /// Disks by name. Every disk of the VM is here, a CD-ROM without media as [`DiskLocation::Nothing`].
    pub disks: BTreeMap<String, DiskLocation>,
    /// Bytes of the disks that the guest writes to without an overlay, by name.
    pub sizes: BTreeMap<String, u64>,
    /// Sockets on which virtiofsd waits for QEMU, by the name of the file system. Every file system of the VM
    /// is here.
    pub filesystems: BTreeMap<String, PathBuf>,
    /// Links by the name of the interface. Every interface of the VM is here.
    pub links: BTreeMap<String, Link>,
    /// Sockets on which QEMU waits for USB devices of clients; empty if the VM takes none.
    pub usb_redirection: Vec<PathBuf>,
    /// A kernel that is started without a boot loader.
    pub kernel: Option<Kernel>,
    /// EFI firmware, if the VM starts with EFI.
    pub efi: Option<Efi>,
    /// Dedicated CPUs of the vCPUs, if the VM has them.
    pub pinning: Option<Pinning>,
    /// QEMU's own log of the serial console.
    pub serial_log: PathBuf,
    /// Socket on which QEMU serves the screen, if the VM has one.
    pub vnc: PathBuf,
    /// Socket on which QEMU serves the channel to the guest agent. (With libvirt's own path for it, the
    /// folder of a VM could have 29 letters; a socket's path ends at 107.)
    pub agent: PathBuf,
    /// Host devices of the guest, by the position in the VM's list; one entry may be several USB devices.
    pub host_devices: Vec<Vec<HostAddress>>,
    /// Context ID of the VSOCK device, if the VM has one.
    pub vsock: Option<u32>,
    /// Socket on which QEMU serves the channel of metrics, if the VM has one.
    pub metrics: Option<PathBuf>,
    /// True if a disk may have several IOThreads. Determined only if the VM has a pool of them.
    pub iothread_mapping: bool,
    /// Settings of the host for the hardware of every VM.
    pub hardware: Hardware,
}

/// Location of a disk's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskLocation {
    Layers(Layers),
    /// A CD-ROM without media.
    Nothing,
}

/// Layers of a disk. Each format is given: neither libvirt nor QEMU probes one, or follows the name that an image's
/// header has for the layer below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Layer that QEMU opens; an overlay if the disk below is only read.
    pub top: Layer,
    /// Layers under it, nearest first.
    pub below: Vec<Layer>,
    /// True if all layers can be opened with O_DIRECT.
    pub direct: bool,
    /// True if all blocks of the file are allocated, so that nothing is discarded.
    pub preallocated: bool,
    /// Block sizes of the volume, for a disk that matches them.
    pub blocks: Option<Blocks>,
}

/// A layer of a disk: the file or device, and the format of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub path: PathBuf,
    pub medium: Medium,
    pub format: Format,
}

/// Kind of file that holds a layer. QEMU opens each with a driver of its own, and refuses one with that of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    File,
    Device,
}

impl Layer {
    /// A layer in a file.
    pub fn file(path: impl Into<PathBuf>, format: Format) -> Layer {
        Layer { path: path.into(), medium: Medium::File, format }
    }

    /// A block device with a raw disk.
    pub fn device(path: impl Into<PathBuf>) -> Layer {
        Layer { path: path.into(), medium: Medium::Device, format: Format::Raw }
    }
}

/// Block sizes of a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Logical block size: the unit of addresses, in bytes.
    pub logical: u32,
    /// Physical block size: the unit of writes, in bytes.
    pub physical: u32,
    /// Unit of discards, if the volume reports one.
    pub discard: Option<u32>,
}

/// Dedicated CPUs of a VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinning {
    /// CPU of each vCPU, by the vCPU's number.
    pub vcpus: Vec<u32>,
    /// CPU of the emulator threads, if they have their own.
    pub emulator: Option<u32>,
    /// NUMA cells of the guest, if it sees those of its CPUs.
    pub cells: Vec<Cell>,
    /// True if the memory of a cell has to be bound to its node.
    pub bound: bool,
}

/// A NUMA cell of a guest, with CPUs and memory of one node of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The node of the host.
    pub node: u32,
    /// The vCPUs, in order.
    pub vcpus: Vec<u32>,
    /// The memory, in bytes.
    pub memory: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Efi {
    /// Image of the firmware's code, which guests share read-only.
    pub code: PathBuf,
    /// Template of empty variables.
    pub template: PathBuf,
    /// Variables of the VM.
    pub vars: PathBuf,
}
