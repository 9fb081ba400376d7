//! The kit: servers that behave and misbehave, images, and the places a test may write to.

pub mod http;
pub mod nginx;
