//! The pod of a machine, from the node's side.
//!
//! ```text
//!  Pod (API) ──layout──► where its parts are: socket and root in emptyDirs, mounts, devices, secrets
//!                            │
//!  /var/lib/kubelet/pods/UID/volumes/kubernetes.io~empty-dir/NAME   beneath: no link, no way out
//!                            │ connect: who listens
//!  /proc/PID/root            ▼ what only the container sees: image volumes, claims, /dev
//!  process, mounts           a file of an image that another container of the pod has, shown to the launcher alone
//! ```
//!
//! The layout is read from the pod itself, so it is written down in one place: where the pod is made.

pub mod beneath;
pub mod layout;
pub mod mounts;
pub mod object;
pub mod place;
pub mod process;

pub use beneath::Folder;
pub use layout::Layout;
pub use object::Pod;
pub use place::Place;
pub use process::Process;
