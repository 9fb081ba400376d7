//! The life of one machine: one loop owns it, whoever wants something asks.
//!
//! ```text
//!   server ──Command──► driver ──────────────► queue     lets requests in (pure)
//!                         │  ▲                 prepare   finds and makes what the machine needs here
//!                         │  │ Event           life      what an end or a pause is called (pure)
//!                         ▼  │                 publish   State, with a rising number
//!                      Hypervisor              keep      what a new launcher must know
//!
//!   Empty ─► Preparing ─► Running ◄─► Paused
//!                │           │          │
//!                │           ▼          ▼
//!                └──────► Stopping ─► Succeeded | Failed ─► (Start) Preparing
//! ```
//!
//! Blocking work (disks, libvirt) runs on threads of its own, one piece at a time; the loop itself never waits for it, so
//! an event or the end of a grace period is never late. A launcher that was killed loses nothing: the next one on the
//! same folder reads what `keep` kept and takes the running machine over.

mod driver;
mod effort;
pub mod firmware;
pub mod guest;
mod handle;
mod keep;
pub mod life;
mod overlay;
pub mod prepare;
pub mod publish;
pub mod queue;
mod users;

#[cfg(test)]
mod scenarios;

pub use driver::{Parts, drive};
pub use handle::{Command, Handle};
