//! virt-api: validation and defaults of VMs and disks. In addition to the webhooks it serves the aggregated
//! API (package `subresources`).
//!
//! ```text
//!  API server ── HTTPS ─► serve::transport ─► routes ─► rules: review in, review out (pure)
//!                                               │         ▲
//!                                               │       live: the settings, our certificate, … ◄── watch
//!                                               ├───► workloads: the existence of VMs or DataVolumes
//!                                               ├───► clones: access reviews for PVCs of other namespaces
//!                                               ├───► evictions: a pod and its VMI, ─► the node that the VMI must leave
//!                                               ├───► migrations: the VMI of a new migration, and its other migrations
//!                                               └───► subresources: requests of users about VMs
//! ```
//!
//! A review is answered from cached data, without requests to the API server, which waits for the answer.
//! There are four exceptions: remaining VMs are listed when the installation is to be deleted, the pod and
//! its VMI are read when a launcher pod is to be evicted, the VMI is read and its migrations are listed when
//! another migration is created, and access is reviewed when a disk is to be cloned from another namespace.
//! Certificate and settings are watched, so their changes need no restart.
//!
//! Callers: a webhook is served below a path segment that only the webhook configurations contain, so that
//! the port is useless to clients that cannot read them. More programs than the API server can read them, and
//! any of them can forge a review: for a review nothing is written, except for an eviction, that a VMI with
//! the strategy `External` must leave its node, for a pod and a VMI as the API server has them
//! (`evacuate/cancel` reverts it). A clone token in its answer is useless (`virt-controller`,
//! `data_volume/clone/permit`). Of waiting reviews, the address with most of them is refused first (waiting).
//! Metrics require a right at the API server, and subresources are for users authenticated by the API server.
//! args is the command line, and composes the program.
//!
//! **Absent:** the table of the webhooks, which virt-controller uses too ([`cluster_model::webhooks`]); and a
//! World: a review is decided by its own content and the settings.

// Tests wait for their own tasks only.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod args;
mod clones;
mod evictions;
pub mod live;
mod measures;
mod migrations;
mod namespaces;
mod order;
mod review_queue;
mod rights;
pub mod routes;
pub mod rules;
mod waiting;
mod workloads;
