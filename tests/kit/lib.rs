//! The kit: the program as a user runs it, disks, and servers that behave and misbehave.

pub mod cluster;
pub mod coracle;
pub mod disk;
pub mod failing_disk;
pub mod faults;
pub mod full_disk;
pub mod http;
pub mod layout;
pub mod loop_device;
pub mod manifests;
pub mod mapped;
pub mod measure;
pub mod nginx;
pub mod place;
mod port;
pub mod processes;
pub mod prometheus;
pub mod qemu_lock;
pub mod registry;
pub mod seeds;
pub mod serial;
pub mod thief;
pub mod token;
pub mod tracer;
pub mod upload_proxy;
