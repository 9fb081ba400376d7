//! What a drawing needs to know of this host: where each part of the machine is. Made by `vm::prepare`.

use api::launcher::{Accelerator, Format, Kernel, Link};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where the parts of one machine are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// What runs the guest's instructions.
    pub accelerator: Accelerator,
    /// By the disk's name; every disk of the machine is here, an ejected one as [`DiskLocation::Nothing`].
    pub disks: BTreeMap<String, DiskLocation>,
    /// By the interface's name; every interface of the machine is here.
    pub links: BTreeMap<String, Link>,
    /// A kernel that is started without a boot loader.
    pub kernel: Option<Kernel>,
    /// EFI firmware, where the machine starts with EFI.
    pub efi: Option<Efi>,
    /// QEMU's own log of the serial line.
    pub serial_log: PathBuf,
    /// The screen, where the machine has one: QEMU listens on this socket.
    pub vnc: PathBuf,
    /// The channel to the guest's agent: QEMU listens on this socket. (The path libvirt would choose is so long that the
    /// folder of a machine could have 29 letters; a socket's path ends at 107.)
    pub agent: PathBuf,
}

/// Where the bytes of a disk are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskLocation {
    /// A file.
    File {
        /// The file QEMU opens; an overlay where the disk itself is only read.
        path: PathBuf,
        /// How its bytes are laid out.
        format: Format,
        /// The files below it, nearest first, so that libvirt need not (and does not) look for itself.
        backing: Vec<(PathBuf, Format)>,
        /// It can be opened past the host's cache.
        direct: bool,
        /// All its blocks are there: nothing is discarded.
        preallocated: bool,
        /// Its logical and physical block sizes, where the disk is to show its volume's.
        blocks: Option<(u32, u32)>,
    },
    /// A block device.
    Block {
        /// The device.
        path: PathBuf,
        /// Its logical and physical block sizes.
        blocks: (u32, u32),
        /// It can be opened past the host's cache.
        direct: bool,
    },
    /// A drive without a disc.
    Nothing,
}

/// EFI firmware.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Efi {
    /// The code, only read.
    pub code: PathBuf,
    /// Empty variables.
    pub template: PathBuf,
    /// The machine's own variables.
    pub vars: PathBuf,
}
