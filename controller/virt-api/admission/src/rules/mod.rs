//! Admission: what may be written, and what is filled in first. Pure.
//!
//! ```text
//!  AdmissionReview ─ review ─► Request ─ judge: who judges ──► AdmissionResponse ─ review ─► AdmissionReview
//!                                            │
//!        mutating   defaults of api, the status that is not theirs        ─► patch
//!        validating Machine::check of api, what must not change, whose it is ─► at most 10 causes, warnings
//! ```
//!
//! The table of the webhooks is [`cluster_model::webhooks`]; [`judge()`] says who judges for each. A judge gets the
//! request and what surrounds it ([`Around`]) and returns an [`AdmissionResponse`]; `dryRun` changes nothing, since nothing is
//! written but the node that an evicted VMI must leave, by who asked ([`Later::evacuates`]). What is being deleted is never
//! refused: whoever holds it must be able to let go. An eviction is not refused but put off. The kinds of CDI have a folder of
//! their own (cdi).

mod answer;
mod around;
mod cdi;
pub mod clone;
mod components;
pub mod eviction;
mod instancetype;
mod judge;
mod kubevirt;
mod passed;
mod patch;
mod pool;
mod preset;
mod replicaset;
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

pub use answer::{AdmissionResponse, Later};
pub use around::{Around, Sizes};
pub use judge::{asks_what_is_left, judge};
pub use kubevirt::not_looked_into;
pub use review::{Operation, Request};
