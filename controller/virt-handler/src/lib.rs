//! `virt-handler`: one per node, privileged, with the host's processes in sight.
//!
//! ```text
//!                     API server                                            virt-api
//!             VMIs, pods │ ▲ status, events, labels of the node                 ▲ │ requests and streams of VMIs
//!                        ▼ │                                                    │ ▼
//!   vmi/ ───────────────────────── one keeper per VMI ──── launchers ────── asked/
//!    │  volumes/      disks found, made, grown, given to 107          network/     links, rules and taps in a pod
//!    │  pod/          a tenant's folders, walked so that nothing leads out
//!    │  devices/       kvm, tun, vhost-net, vhost-vsock for pods, by the kubelet
//!    │  capability    what libvirt knows of this node, for each pod       labels       what the scheduler knows of it
//!    ▼
//!   launcher_client ──unix socket──► virt-launcher in its pod (PID 1 there)          measures     what VMIs use
//! ```
//!
//! launcher_client is the one client of launchers (`lib/launcher-client`), with a door into the pod's folder; launchers are those
//! that keepers speak to, for measures and for asked; filesystems: the names by which a guest's are measured. Asked: what virt-api is answered, by its certificate.
//! disk_pressure: VMIs whose disks fill the node's are paused before the kubelet evicts pods.
//! blocking: what a tenant could make last for ever is done on threads apart, a few for each VM, and given up in time.
//!
//! **Owns** everything that is done on a node as root. **May be called** by `bin/virt-handler` alone. It holds no state
//! that it cannot see again: killed and begun anew, it finds its VMIs by the API server and by their sockets. It
//! starts no QEMU and links no libvirt.

// Tests wait for nobody but themselves.
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
mod labels;
pub mod launcher_client;
mod launchers;
mod limits;
mod machine_types;
mod measures;
mod network;
pub mod now;
pub mod pod;
mod rights;
pub mod vmi;
pub mod volumes;
