//! The kit: the program as a user runs it, disks, and servers that behave and misbehave.

pub mod coracle;
pub mod disk;
//! The kit: servers that behave and misbehave, images, and the places a test may write to.

pub mod nginx;
