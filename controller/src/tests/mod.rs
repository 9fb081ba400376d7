//! What tests of several parts share.

pub(crate) mod asked;
mod settings;
pub(crate) mod sources;
