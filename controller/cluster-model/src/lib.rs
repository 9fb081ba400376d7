//! Pure data model of the cluster: the kinds, a cache of their objects, and plans of changes.
//!
//! ```text
//!  objects     a file for each kind: API name, selectors, rights, fields kept ─► World, the cache
//!  answer      the API server's answer as objects, within bounds
//!  plan        changes for one object, as steps; issue: the steps that issue certificates
//!  config      settings of the KubeVirt object and of CDI          conditions   lists of conditions
//!  launcher    layout of launcher pods                              metadata     labels and annotations passed on
//!  worker      layout of worker pods, which move a disk             polls        results of polling an image
//!  uploads, clones   names of their objects                      instancetypes   lookup and revisions for a VM
//!  networks    networks of a launcher pod in Multus, and their status
//!  webhooks    webhooks of virt-api and their rules                 servers      address of each program
//!  claimed     devices of ResourceClaims: allocation of a request, and its address
//!  versions    version of an installed object                    components     customizable fields of a program
//!  accounts    user of each program at the API server               subresources subresources of VMs and VMIs
//!  members     objects that a pool or a replica set counts
//!  claim_moves PVCs whose disks a live migration copies into new PVCs
//!  metrics     the names, labels and types of all metrics
//! ```
//!
//! A definition is here if two packages must agree on it: the creator of a launcher pod and its reader, the
//! writer of a field and the policy that permits it, the server of a webhook and its registration.
//!
//! **May be used** by every package of `controller/`. **Absent:** a client, a clock, files, threads
//! (`cluster-client` talks to the API server), and decisions: those are in `virt-controller`, `virt-handler`
//! and `admission`.

// Tests wait for their own tasks only.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod accounts;
pub mod answer;
pub mod claim_moves;
pub mod claimed;
pub mod clones;
pub mod components;
pub mod conditions;
pub mod config;
mod disk_settings;
pub mod instancetypes;
pub mod issue;
mod kubevirt_config;
pub mod launcher;
pub mod members;
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
