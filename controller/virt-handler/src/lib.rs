//! `virt-handler`: one per node, privileged, with access to the host's processes.
//!
//! ```text
//!                     API server                                            virt-api
//!             VMIs, pods │ ▲ status, events, labels of the node                 ▲ │ requests and streams of VMIs
//!                        ▼ │                                                    │ ▼
//!   vmi/ ───────────────────────── one keeper per VMI ──── launchers ────── asked/
//!    │  volumes/      disks found, made, grown, given to 107          network/     links, rules and taps in a pod
//!    │  pod/          a tenant's folders, walked so that nothing leads out
//!    │  migration/     a migration's connections between the virt-handlers of two nodes
//!    │  devices/       kvm, tun, vhost-net, vhost-vsock for pods, by the kubelet
//!    │  capability    what libvirt knows of this node, for each pod       labels       what the scheduler knows of it
//!    ▼
//!   launcher_client ──unix socket──► virt-launcher in its pod (PID 1 there)          measures     what VMIs use
//! ```
//!
//! launcher_client is the client of launchers (`lib/launcher-client`), with a connector through the pod's
//! folder; launchers is the registry of those that keepers are connected to, for measures and asked;
//! filesystems bounds the names of a guest's file systems in metrics. asked answers the requests of virt-api,
//! which it knows by its certificate. disk_pressure pauses VMIs whose disks fill the node's, before the
//! kubelet evicts pods. blocking runs work that a tenant could make last for ever on separate threads, a few
//! for each VM, with time limits.
//!
//! **Owns** all work on a node that needs root. **May be called** by `bin/virt-handler` alone. It holds no
//! state that it cannot see again: after a restart, it finds its VMIs by the API server and by their sockets.
//! It starts no QEMU and links no libvirt.

// Tests wait for events of their own processes only.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod agent;
pub mod args;
mod asked;
pub mod blocking;
mod bounds;
mod capability;
mod cpu;
mod devices;
mod disk_pressure;
pub mod error;
mod filesystems;
mod growing_disks;
mod labels;
pub mod launcher_client;
mod launchers;
mod limits;
mod machine_types;
mod measures;
pub mod migration;
mod network;
pub mod now;
pub mod pod;
mod rights;
pub mod vmi;
pub mod volumes;
