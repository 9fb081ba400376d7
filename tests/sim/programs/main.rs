//! Tests of virt-controller, virt-api, virt-handler and cdi-uploadproxy together.

// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod policies;
mod sources;
