//! Pod of a VMI, seen from the node.
//!
//! ```text
//!  Pod (API) ──layout──► where its parts are: socket and root in emptyDirs, mounts, devices, secrets
//!                            │
//!  /var/lib/kubelet/pods/UID/volumes/kubernetes.io~empty-dir/NAME   confined: no link, no way out
//!                            │ connect (socket): who listens
//!  /proc/PID/root            ▼ what only the container sees: image volumes, claims, /dev
//!  process, mounts           a file that was looked at, shown to the launcher alone, whatever becomes of its name
//! ```
//!
//! The layout is read from the pod itself, so it is defined in one place: by the creator of the pod.

pub mod confined;
pub mod folder;
pub mod layout;
mod listener;
pub mod mounts;
pub mod object;
#[cfg(test)]
pub(crate) mod played;
pub mod process;
mod socket;

pub use confined::Folder;
pub use folder::{PodFolder, Pods};
pub use layout::Layout;
pub use listener::PodListener;
pub use object::Pod;
pub use process::Process;
