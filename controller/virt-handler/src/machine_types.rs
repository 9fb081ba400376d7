//! Deprecated machine types of this node's QEMU, reported by `node-info` and exported as metrics.

use std::sync::{Mutex, PoisonError};

static DEPRECATED: Mutex<Vec<String>> = Mutex::new(Vec::new());

pub(crate) fn set_deprecated(machine_types: Vec<String>) {
    *DEPRECATED.lock().unwrap_or_else(PoisonError::into_inner) = machine_types;
}

/// The list, empty until `node-info` was read.
pub(crate) fn deprecated() -> Vec<String> {
    DEPRECATED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
