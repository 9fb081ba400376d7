//! virt-api: what may be written of VMs and disks, and what is filled in first. Beside the webhooks it serves the aggregated API
//! (package `subresources`).
//!
//! ```text
//!  API server ── HTTPS ─► serve::transport ─► routes ─► rules: review in, review out (pure)
//!                                               │         ▲
//!                                               │       live: the settings, our certificate, … ◄── watch
//!                                               ├───► workloads: whether any VM or DataVolume is left
//!                                               ├───► clones: who may clone a PVC of another namespace
//!                                               ├───► evictions: a pod and its VMI, ─► the node that the VMI must leave
//!                                               └───► subresources: what users ask of VMs
//! ```
//!
//! A review is answered from what is known already: nothing is asked of the API server while it waits for us. Three are not:
//! whether any VM is left is asked when the installation is to be deleted, the pod and its VMI when a launcher pod is to
//! be evicted, and who may clone when a disk is to be made from a PVC of another namespace. The certificate and the settings are followed, so neither needs a restart.
//!
//! Who may call: a webhook is answered below a segment of its path that stands in the webhook configurations alone, so that the port is
//! of no use to those who cannot read them. They are read by more than the API server, and a review can be made up by all of these: for
//! it nothing is written, but of an eviction, that a VMI with the strategy `External` must leave the node that it is on, of a pod and a
//! VMI as the API server has them (`evacuate/cancel` takes it back); and a clone token that it gets counts for nothing (`virt-controller`,
//! `datavolume/clone/permit`).
//! Of those who wait for it the address with most gives way (waiting). What is measured is for whom the API server lets read it, and subresources are for users whom the API server names. args
//! is the command line, and joins the parts.
//!
//! **Absent:** the table of the webhooks, which virt-controller needs too ([`cluster_model::webhooks`]); and a World: a review
//! is judged by what it says and by the settings.

// Tests wait for nobody but themselves.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod args;
mod clones;
mod evictions;
pub mod live;
mod measures;
mod order;
mod rights;
pub mod routes;
pub mod rules;
mod waiting;
mod workloads;
