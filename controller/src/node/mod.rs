//! The agent of a node: `virt-handler`.
