//! VMIs of this node: one keeper for each attempt at a VMI, from the hand-over to the end.
//!
//! ```text
//!   watch: VMIs, pods of this node; the settings of the cluster
//!     │ one KeeperInput per VMI
//!     ▼
//!   keepers: a keeper by UID of the VMI and UID of its launcher pod
//!     │
//!     ▼
//!   keeper ── event ─► step, decide (pure) ─► actions ─► effects ─┬─► apply: status (guarded merge patch), events
//!     ▲                                                           ├─► volumes, devices, networks, capability
//!     └── states of the launcher, results of actions ◄────────────┴─► launcher_client: sync, requests, guest agent
//!
//!   Scheduled ─► (hand-over) ─► Running ─► Succeeded | Failed
//! ```
//!
//! **Guarantees.** A VMI is started once: the launcher itself refuses a second start and an older generation.
//! A keeper remembers nothing that it cannot see again: after a restart of this program it asks the launcher,
//! and if that is gone, it reads the launcher's state file. **Assumes** that virt-controller wrote
//! `Scheduled` and the node's name, and removes pods and finalizers. **Never** writes an unchanged status,
//! writes more often than `pace` permits, or passes on text of a guest or launcher that `bounds` has not
//! checked.

pub mod apply;
pub mod decide;
mod interfaces;
pub(crate) mod keeper;
mod keepers;
pub mod link_requests;
mod migratable;
mod pace;
pub mod patch;
pub(crate) mod permitted;
mod retry;
pub(crate) mod status;
pub(crate) mod watch;

pub use decide::{Actions, DecisionInput, Launcher, decide};
pub use keeper::{MigrationEnd, Role};
