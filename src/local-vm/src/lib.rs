//! VMs on this computer: read from a manifest, checked, resolved, started in a launcher, and found again.
//!
//! ```text
//!  a manifest ──manifest/──► objects with lines ─┐
//!  a disk, an image ──from_image──► objects ─────┴─check─► Machine ─resolve/─► Resolved
//!                                                                               │ start
//!     record ◄── vm.json, kept for every other verb ────────────────────────────┤
//!     launch ── starts virt-launcher, detached ◄────────────────────────────────┘
//!     record_folder ── the folder that a record was written to, by which a copied record is told
//!     worker ── reads foreign bytes, in a confined process of its own
//!     confined ── logs the confinement of all these processes at -v
//!     new_name ── the name of a new VM, locked from its choice until the VM has started
//!     client ── requests to the launcher, and its streams; user_words ── its messages with the user's names
//!     place  ── folders, sockets and locks; disks ── files unpacked of images, removed when no VM needs them
//!     earlier_state ── EFI variables and TPM of a stopped VM, while another one takes its place
//!     new_disk ── a new disk in a file of the user, made before the launcher starts; random ── random numbers
//!     host_disks ── formats of the user's disk files, kept for the file and not for its path; raw_disks ── those of VMs that are gone
//!     home_entries ── homes in a list of disks; home_mark ── which folder of VMs is at a path; absent_homes ── those that are not there
//!     disk_owners ── homes in whose folders the disks of a VM lie
//!     homes ── VMs of all homes that share disks; moved_home ── paths of a record whose home was moved
//!     disk_files ── disk files of all VMs, which no conversion, start or removal takes away; vm_folder ── removal of a VM's files
//!     pool_disk ── disks of the pool, as records know them; imported_disks ── those that a test imports and removes
//!     forwarding ── port forwards of a VM that runs; kept_disks ── the pool as its user lists and empties it
//! ```
//!
//! The package neither prints nor reads a terminal: messages for the user go to a [`Notify`]. A program that
//! uses it serves the hidden verb [`worker::VERB`].

mod absent_homes;
mod check;
pub mod client;
pub mod confined;
pub mod disk_files;
mod disk_owners;
pub mod disks;
mod earlier_state;
mod error;
#[cfg(test)]
mod fake_launcher;
#[cfg(test)]
mod fake_qemu;
pub mod forwarding;
pub mod from_image;
mod home_entries;
mod home_mark;
mod homes;
pub mod host_disks;
pub mod host_file;
pub mod imported_disks;
pub mod kept_disks;
pub mod launch;
mod lock;
pub mod manifest;
mod moved_home;
mod new_disk;
pub mod new_name;
pub mod path;
pub mod place;
mod pool_disk;
mod random;
mod raw_disks;
pub mod record;
mod record_folder;
pub mod resolve;
pub mod start;
pub mod unpacked;
mod user_words;
pub mod vm_folder;
pub mod whole_file;
pub mod worker;

pub use error::{Error, ErrorKind, Result};

/// Receiver of messages for the user, each a line without its end.
pub type Notify = fn(&str);
