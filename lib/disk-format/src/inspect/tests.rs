//! Examination of disks from other programs, of disks with wrong values, and of damaged disks.

mod discs;
mod disks;
mod filesystems;
mod hostile;
mod kit;
mod references;
