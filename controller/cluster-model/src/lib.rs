//! What Kubernetes keeps for us, as values: the kinds, a picture of their objects, and what is to be done with them.
//!
//! ```text
//!  objects     a file for each kind: API name, selectors, rights, what is kept ─► World, the picture
//!  plan        what is to be done for one object, as steps; issue: the step that makes a certificate
//!  config      the settings that a KubeVirt object says             conditions   lists of conditions
//!  launcher    the form of a launcher pod                           metadata     labels and annotations that go on
//!  worker      the form of a worker pod, which moves a disk         polls        what a poll of an image comes to
//!  uploads, clones   the names by which these are known          instancetypes   how they are found and kept for a VM
//!  networks    what a launcher pod asks of Multus, and what Multus says
//!  webhooks    what virt-api is asked, and when                     servers      how each program is reached
//!  claimed     devices of ResourceClaims: which one a request has, and where it is
//!  versions    of which version an installed object is           components     what may be changed of a program
//!  accounts    how the API server knows each program                subresources what may be asked of a VM or a VMI
//!  metrics     the names, labels and types of all metrics
//! ```
//!
//! A noun is here when two packages must mean the same by it: who makes a launcher pod and who looks into it, who writes a
//! field and the policy that permits it, who answers a webhook and who leads the API server there.
//!
//! **May be used** by every package of `controller/`. **Absent:** a client, a clock, files, threads (`cluster-client` speaks with
//! the API server), and decisions: those are in `virt-controller`, `virt-handler` and `admission`.

// Tests wait for nobody but themselves.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod accounts;
pub mod claimed;
pub mod clones;
pub mod components;
pub mod conditions;
pub mod config;
pub mod instancetypes;
pub mod issue;
pub mod launcher;
pub mod metadata;
pub mod metrics;
pub mod networks;
pub mod objects;
pub mod plan;
pub mod polls;
pub mod servers;
pub mod state;
pub mod subresources;
pub mod uploads;
pub mod versions;
pub mod webhook_paths;
pub mod webhooks;
pub mod worker;
