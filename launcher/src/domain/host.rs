//! The paths and taps of a VM's parts on this host. Made by `vm::prepare`.

use super::host_device::HostAddress;
use api::launcher::{Accelerator, Format, Kernel, Link};
use api::machine::hardware::Hardware;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The locations of one VM's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// KVM or emulation.
    pub accelerator: Accelerator,
    /// By the disk's name; every disk of the VM is here, a CD-ROM without media as [`DiskLocation::Nothing`].
    pub disks: BTreeMap<String, DiskLocation>,
    /// By the file system's name, the socket on which virtiofsd waits for QEMU; every file system of the VM is here.
    pub filesystems: BTreeMap<String, PathBuf>,
    /// By the interface's name; every interface of the VM is here.
    pub links: BTreeMap<String, Link>,
    /// The sockets on which QEMU waits for USB devices of clients, where the VM takes some.
    pub usb_redirection: Vec<PathBuf>,
    /// A kernel that is started without a boot loader.
    pub kernel: Option<Kernel>,
    /// EFI firmware, where the VM starts with EFI.
    pub efi: Option<Efi>,
    /// The CPUs of its vCPUs, where it has CPUs of its own.
    pub pinning: Option<Pinning>,
    /// QEMU's own log of the serial console.
    pub serial_log: PathBuf,
    /// The socket on which QEMU serves the screen, where the VM has one.
    pub vnc: PathBuf,
    /// The socket on which QEMU serves the channel to the guest agent. (libvirt's own path for it is so long that the folder
    /// of a VM could have 29 letters; a socket's path ends at 107.)
    pub agent: PathBuf,
    /// By the position in the VM's list, the devices of this host that the guest has: USB devices may be several for one entry.
    pub host_devices: Vec<Vec<HostAddress>>,
    /// The context ID of the VSOCK device, where the VM has one.
    pub vsock: Option<u32>,
    /// The socket on which QEMU serves the channel of metrics, where the VM has one.
    pub metrics: Option<PathBuf>,
    /// A disk may have several IOThreads. Asked where the VM has a pool of them.
    pub iothread_mapping: bool,
    /// What every VM here has, whatever its own spec.
    pub hardware: Hardware,
}

/// The location of a disk's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskLocation {
    /// A file.
    File {
        /// The file QEMU opens; an overlay where the disk itself is only read.
        path: PathBuf,
        /// The format of its bytes.
        format: Format,
        /// The files below it, nearest first, so that libvirt need not (and does not) read the images' headers.
        backing: Vec<(PathBuf, Format)>,
        /// True if it can be opened past the host's cache (O_DIRECT).
        direct: bool,
        /// True if all its blocks are allocated: then nothing is discarded.
        preallocated: bool,
        /// The block sizes of the volume, for a disk that matches them.
        blocks: Option<Blocks>,
    },
    /// A block device.
    Block {
        /// The device.
        path: PathBuf,
        /// Its block sizes.
        blocks: Blocks,
        /// True if it can be opened past the host's cache (O_DIRECT).
        direct: bool,
    },
    /// A CD-ROM without media.
    Nothing,
}

/// The block sizes of a volume, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// What is addressed.
    pub logical: u32,
    /// What is written at once.
    pub physical: u32,
    /// What is discarded at once, where the volume says so.
    pub discard: Option<u32>,
}

/// The CPUs of a VM that has CPUs of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinning {
    /// The CPU of each vCPU, by the vCPU's number.
    pub vcpus: Vec<u32>,
    /// The CPU of QEMU's other threads, where they have one of their own.
    pub emulator: Option<u32>,
    /// The NUMA cells of the guest, where it sees those of its CPUs.
    pub cells: Vec<Cell>,
    /// The memory of a cell has to be bound to its node.
    pub bound: bool,
}

/// A NUMA cell of a guest, whose CPUs and memory are of one node of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The node of the host.
    pub node: u32,
    /// The vCPUs, in order.
    pub vcpus: Vec<u32>,
    /// The memory, in bytes.
    pub memory: u64,
}

/// EFI firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Efi {
    /// The code, only read.
    pub code: PathBuf,
    /// Empty variables.
    pub template: PathBuf,
    /// The VM's own variables.
    pub vars: PathBuf,
}
