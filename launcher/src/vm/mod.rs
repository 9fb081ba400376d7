//! The life of one VM: one loop owns it, and everything else sends requests.
//!
//! ```text
//!   server ──Command──► driver ──────────────► queue     lets requests in (pure)
//!                         │  ▲                 life      reason and message of an end or a pause (pure)
//!             work: a thread  │ Event, Outcome  publish   State, with a rising number
//!                         ▼  │                 keep      files for a new launcher
//!                blocking_work ──► prepare     finds and makes the VM's parts on this host (`state`: what outlives it)
//!                              ├─► domain      the libvirt domain of these parts
//!                              └─► Hypervisor  defines, starts, resumes
//!
//!   Empty ─► Preparing ─► Running ◄─► Paused          Empty ─► Receiving ─► Running | Paused | Moved
//!                │           │          │
//!                │           ▼          ▼
//!                └──────► Stopping ─► Succeeded | Failed ─► (Start) Preparing
//! ```
//!
//! Frozen file systems of the guest thaw by their own alarm (`thaw`). A guest that asks for metrics gets them
//! (`metrics`). Its guest agent sets keys and passwords, as often as their Secrets change (`credentials`).
//!
//! Blocking work (disks, libvirt) runs on its own threads, one piece at a time (`work`). The loop itself
//! never waits for it, so an event or the end of a grace period is never late. A forced end does not wait for
//! hanging work. A killed launcher loses nothing: the next one on the same folder reads the files of `keep`
//! and takes the running VM over. What it cannot get at once it seeks again (`missing_parts`); QEMU itself has the claims of
//! the VM's block devices (`claims`).

mod blocking_work;
mod changeable;
pub mod claims;
pub(crate) mod credentials;
mod disk_pressure;
mod driver;
pub mod firmware;
mod grace;
pub mod guest;
mod handle;
pub(crate) mod host_devices;
mod keep;
mod kernel_boot;
pub mod life;
pub(crate) mod metrics;
mod migration;
mod missing_parts;
mod new_file;
mod overlay;
mod pinning;
pub mod prepare;
pub mod publish;
pub mod queue;
mod reception;
mod resume_waits;
mod state;
pub(crate) mod thaw;
mod work;

#[cfg(test)]
mod room_scenarios;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod stop_scenarios;

pub use blocking_work::farewell;
pub use driver::{Parts, drive, drive_or_receive};
pub use handle::{Command, Handle, SyncError};
