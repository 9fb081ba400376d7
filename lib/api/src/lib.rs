//! The types that cross a process boundary. No I/O, no clock, no client.
//!
//! ```text
//! manifest, API server ──► vm, vmi, kubevirt, … (forgiving: keep what they do not know)
//!                              │ defaults (one pure function)
//!                              ▼
//!                          machine (strict: Machine, or every fault with its field path)
//!
//! instancetype             sizes and preferences of VMs; a template with the values of both
//! cdi, datavolume          imports, uploads and clones: settings, sources, requests
//! launcher                 what virt-launcher is told and what it tells
//! node                     what a node can do, as virt-launcher found out
//! job                      what a program that imports a disk is told; DataVolume (forgiving) ──► Import (strict)
//! termination              what a container leaves to its kubelet when it ends
//! der                      what is looked at of a certificate
//! cpus                     lists of CPUs, as the kernel and libvirt write them
//! yaml                     a text of YAML or JSON becomes values, each with its line
//! crd                      what an API server is told of the objects, made from the same descriptions
//! ```
//!
//! The objects are made with [`object!`](crate::object): one description of a struct gives reading (every fault with
//! its path), writing, and the fields that were kept without being known.

pub mod cdi;
pub mod claim;
pub mod configmap;
pub mod cpus;
pub mod crd;
pub mod datavolume;
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
pub mod node;
pub mod pod;
pub mod pool;
pub mod preset;
pub mod quantity;
pub mod replicaset;
pub mod secret;
pub mod termination;
pub mod uuid;
pub mod vm;
pub mod vmi;
pub mod wire;
pub mod yaml;
