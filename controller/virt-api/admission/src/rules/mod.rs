//! Admission rules: defaults and validation. Pure.
//!
//! ```text
//!  AdmissionReview ─ review ─► Request ─ judge: dispatch    ──► AdmissionResponse ─ review ─► AdmissionReview
//!                                            │
//!        mutating   defaults of api, the former status                    ─► patch
//!        validating Machine::check of api, immutable fields, owner          ─► at most 10 causes, warnings
//! ```
//!
//! The table of the webhooks is [`cluster_model::webhooks`]; [`judge()`] dispatches to the rules of each. A
//! rule gets the request and its context ([`RequestContext`]) and returns an [`AdmissionResponse`]; `dryRun` changes
//! nothing, since nothing is written except the node that an evicted VMI must leave, by the caller
//! ([`Deferral::evacuates`]). An object that is being deleted is never refused: the owners of its finalizers
//! must be able to remove them. An eviction is deferred, not refused. The kinds of CDI have a folder of their
//! own (cdi).

mod answer;
mod cdi;
pub mod clone;
mod components;
mod context;
pub mod eviction;
mod instancetype;
mod judge;
mod kubevirt;
pub mod migration;
mod migration_policy;
mod omitted_metadata;
mod patch;
mod pool;
mod preset;
mod replica_set;
pub mod review;
mod settings;
mod size;
mod sizes;
mod template;
#[cfg(test)]
mod tests;
mod unknown;
mod vm;
mod vmi;
mod volumes;

pub use answer::{AdmissionResponse, Deferral};
pub use context::{RequestContext, Sizes};
pub use judge::{judge, needs_workloads};
pub use kubevirt::check_failed;
pub use review::{Operation, Request};
