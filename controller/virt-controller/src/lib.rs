//! virt-controller: the decisions that are made once per cluster, and the loop that carries them out.
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
//!  VirtualMachineInstanceMigration ─► migration ─► a second Pod on another node ─► the VMI is handed over to both nodes
//!  StorageClass ─► storageprofile ─► StorageProfile          DataSource ─► datasource ─► its status
//!  DataImportCron ─► dataimportcron ─► DataVolume, DataSource; polls: a server is asked for the digest of an image
//!  DataVolume, PVC ─► datavolume ─► PVC, worker pod ─► reports: the worker's report on its work, each second
//!
//!                   PVC, annotated ─► export ─► worker pod that makes an image of the disk
//!
//!  certificates  the API server's way to virt-api            kubevirt, cdi, node   the state of the installation and of nodes
//!  rights        RBAC rights of each step                    measures              metrics
//! ```
//!
//! [`decide()`] takes the name of one object and the whole World, and returns the plan for that object. A
//! reconciler gets all its input as arguments, and has neither clock nor client. It makes one input value of
//! the World, steps return values, and one place makes the plan of them; the headers of `datavolume` and
//! `vmi` show the steps. The keys that a change of an object affects are declared in the file of its kind
//! ([`cluster_model::objects::About::touches`]). `args` is the command line. The replica that holds the Lease
//! is the only one that acts.
//!
//! **May be called** by `bin/virt-controller`, and [`decide()`] by simulations of a cluster. **Absent:** the
//! kinds and the plan (`cluster-model`), requests (`cluster-client`), and everything that happens on a node.
//! `virt-handler` is used only by the histories in the tests.

// Tests may block, because no other task waits for them.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod args;
mod cdi;
mod certificates;
mod data_import_cron;
mod data_source;
mod data_volume;
mod decide;
mod delay_queue;
mod downgrade;
mod export;
mod fair_queue;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod idempotence_tests;
mod installation;
mod kubevirt;
mod measures;
mod migration;
mod node;
mod order;
#[cfg(test)]
mod outages;
mod outcome;
mod pod;
mod polls;
mod pool;
mod removed;
mod replica_set;
mod replicas;
mod reports;
#[cfg(test)]
mod rights;
mod run;
mod scale_in;
#[cfg(test)]
mod sim;
mod storage_profile;
mod sum_rule;
mod template;
mod tsc;
mod unanswered;
mod vm;
mod vmi;
mod volume_origin;

pub use decide::decide;
