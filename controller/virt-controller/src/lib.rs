//! virt-controller: what is decided once per cluster, and the loop that carries it out.
//!
//! ```text
//!             watch                decide (pure)          carry out (the only writer)
//!  API server ─────► run: World ─────────────────► Plan ─────────────────────────────► API server
//!
//!  KubeVirt ─► its config ─┐
//!  VirtualMachine ─► vm ───┼─► VirtualMachineInstance ─► vmi ─► pod (one Pod for each VMI) ─► virt-handler
//!  ▲     replica set ──────┘                              ▲
//!  └─ pool ◄─ VirtualMachinePool                          │
//!        PVCs, nodes: looked at ──────────────────────────┘
//!  StorageClass ─► storageprofile ─► StorageProfile          DataSource ─► datasource ─► its status
//!  DataImportCron ─► dataimportcron ─► DataVolume, DataSource; polls: a server is asked for the digest of an image
//!  DataVolume, PVC ─► datavolume ─► PVC, worker pod ─► reports: what the worker says of its work, each second
//!
//!                   PVC, annotated ─► export ─► worker pod that makes an image of the disk
//!
//!  certificates  the API server is led to virt-api           kubevirt, cdi, node   the installation, what nodes say
//!  rights        what each step takes                        measures         what is counted
//! ```
//!
//! [`decide()`] takes the name of one object and the whole World, and returns what is to be done for that object. Whoever
//! decides gets everything in its arguments: no clock, no client. Which decisions an object takes part in, the file of its
//! kind says ([`cluster_model::objects::About::touches`]). args is the command line; one replica acts, which has the lease.
//!
//! **May be called** by `bin/virt-controller`, and [`decide()`] by whoever plays a cluster. **Absent:** the kinds and the plan
//! (`cluster-model`), requests (`cluster-client`), and everything that happens on a node; `virt-handler` is used by the histories in the
//! tests alone.

// Tests wait for nobody but themselves.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod args;
mod cdi;
mod certificates;
mod dataimportcron;
mod datasource;
mod datavolume;
mod decide;
mod downgrade;
mod export;
#[cfg(test)]
mod histories;
mod installation;
mod kubevirt;
mod later;
mod measures;
mod node;
mod order;
#[cfg(test)]
mod outages;
mod pod;
mod polls;
mod pool;
mod replicas;
mod replicaset;
mod reports;
#[cfg(test)]
mod rights;
mod run;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod steady;
mod storageprofile;
mod tsc;
mod turns;
mod vm;
mod vmi;

pub use decide::decide;
