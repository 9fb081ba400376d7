//! Looks at disks that other programs made, at disks that lie, and at disks that were damaged.

mod discs;
mod disks;
mod filesystems;
mod hostile;
mod kit;
mod references;
