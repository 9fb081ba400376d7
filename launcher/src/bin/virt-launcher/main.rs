//! `virt-launcher`: one virtual machine, with libvirt inside.

fn main() {}
