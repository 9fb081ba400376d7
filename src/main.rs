//! `coracle`: virtual machine disks as container images, and the machines that boot from them.

fn main() {}
