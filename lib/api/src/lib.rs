//! The types that cross a process boundary. No I/O, no clock, no client.
//!
//! ```text
//! manifest, API server ──► vm, vmi, kubevirt, … (forgiving: unknown fields are kept)
//!                              │ defaults (one pure function)
//!                              ▼
//!                          machine (strict: Machine, or every fault with its field path)
//!
//! architecture             facts of each CPU architecture
//! condition                conditions, one type for all kinds
//! instancetype             sizes and preferences of VMs; a template with the values of both
//! cdi, datavolume          imports, uploads and clones: settings, sources, requests
//! migration                live migration of a VMI: its object
//! migration_policy         settings for the live migrations of some VMIs
//! launcher                 protocol of virt-launcher: requests, states, reports
//! node                     capabilities of a node, as found by virt-launcher
//! job                      jobs of programs that move a disk; DataVolume (forgiving) ──► Import (strict)
//! termination              termination messages of containers
//! der                      dates and subject of a certificate
//! cpus                     lists of CPUs, as the kernel and libvirt write them
//! yaml                     a text of YAML or JSON becomes values, each with its line
//! crd                      CustomResourceDefinitions, made from the same descriptions
//! ```
//!
//! The objects are defined with [`object!`](crate::object). One description of a struct gives reading (every
//! fault with its path), writing, and a list of its unknown fields.

pub mod architecture;
pub mod cdi;
pub mod claim;
pub mod condition;
pub mod config_map;
pub mod cpus;
pub mod crd;
pub mod data_volume;
pub mod defaults;
pub mod der;
pub mod duration;
pub mod fault;
pub mod instancetype;
pub mod job;
pub mod kubevirt;
pub mod launcher;
pub mod lease;
pub mod machine;
pub mod meta;
pub mod migration;
pub mod migration_policy;
pub mod node;
pub mod pod;
pub mod pool;
pub mod preset;
pub mod quantity;
pub mod replica_set;
pub mod secret;
pub mod termination;
pub mod uuid;
pub mod vm;
pub mod vmi;
pub mod wire;
pub mod yaml;
