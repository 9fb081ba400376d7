//! What holds of virt-controller, virt-api and virt-handler together.

// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod policies;
mod sources;
