//! What tests of several parts share.

pub(crate) mod asked;
pub(crate) mod sources;
