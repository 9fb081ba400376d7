//! The paths and taps of a VM's parts on this host. Made by `vm::prepare`.

use api::launcher::{Accelerator, Format, Kernel, Link};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The locations of one VM's parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// KVM or emulation.
    pub accelerator: Accelerator,
    /// By the disk's name; every disk of the VM is here, a CD-ROM without media as [`DiskLocation::Nothing`].
    pub disks: BTreeMap<String, DiskLocation>,
    /// By the interface's name; every interface of the VM is here.
    pub links: BTreeMap<String, Link>,
    /// A kernel that is started without a boot loader.
    pub kernel: Option<Kernel>,
    /// EFI firmware, where the VM starts with EFI.
    pub efi: Option<Efi>,
    /// QEMU's own log of the serial console.
    pub serial_log: PathBuf,
    /// The socket on which QEMU serves the screen, where the VM has one.
    pub vnc: PathBuf,
    /// The socket on which QEMU serves the channel to the guest agent. (libvirt's own path for it is so long that the folder
    /// of a VM could have 29 letters; a socket's path ends at 107.)
    pub agent: PathBuf,
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
        /// The logical and physical block sizes of the volume, for a disk that matches them.
        blocks: Option<(u32, u32)>,
    },
    /// A block device.
    Block {
        /// The device.
        path: PathBuf,
        /// Its logical and physical block sizes.
        blocks: (u32, u32),
        /// True if it can be opened past the host's cache (O_DIRECT).
        direct: bool,
    },
    /// A CD-ROM without media.
    Nothing,
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
