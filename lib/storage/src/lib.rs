//! The storage of disks: what a file or a device lies on, who uses its bytes, and files that get their name when
//! they are whole.
//!
//! ```text
//!  a path or an open file
//!    ├── parts.rs         the storage below it: partition ─► disk, loop device ─► backing file, …
//!    ├── loop_devices.rs  loop devices, and what each lies over
//!    ├── users.rs         the users of all its names, above and below, by what the kernel lists
//!    ├── guests.rs        the QEMU processes that have it open, by their descriptors
//!    ├── claim.rs         the kernel's claim of a device, while it is used
//!    ├── file_users.rs    the users of one open file
//!    ├── lock_list.rs     locks of files, also of those that may not be opened
//!    ├── processes.rs     processes that hold locks: do they live, have they started this one?
//!    ├── kernel_lists.rs  mounts, swap space, holders of a device
//!    ├── file_id.rs       the file itself, by whichever name
//!    └── device_id.rs     the device itself, by whichever path
//!
//!  NAME.partial ── own_file.rs: it is ours ──► publish.rs: it gets NAME
//!             └── protected.rs: it is a disk of a VM, and is left alone
//! ```
//!
//! **Independent of** the content of disks, images and VMs. It reads the kernel's lists, and opens nothing but files that its
//! caller has named, and loop devices to ask for their files.

mod claim;
mod device_id;
mod file_id;
mod file_users;
mod guests;
pub mod kernel_lists;
mod lock_list;
mod loop_devices;
pub mod own_file;
mod parts;
mod processes;
pub mod protected;
pub mod publish;
mod users;

pub use claim::{Claim, PATIENCE, claim_device, is_only_mapped};
pub use device_id::{BackingFile, DeviceId};
pub use file_id::{FileId, LastingFileId};
pub use file_users::{file_in_use, flock_owner, is_locked, locked_file_in_use};
pub use guests::{Guest, is_qemu};
pub use kernel_lists::facts;
pub use parts::Storage;
pub use processes::ProcessStat;
pub use users::{Access, QEMU_WRITES};
