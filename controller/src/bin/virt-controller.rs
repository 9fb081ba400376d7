//! `virt-controller`: the machines of a cluster.

fn main() {}
