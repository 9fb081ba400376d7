//! What tests of several parts share.

pub(crate) mod asked;
