//! Disks of the pool that this process imports, for a test, which removes them at its end.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Names of the disks whose imports this process has begun. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct ImportedDisks(Arc<Mutex<BTreeSet<String>>>);

impl ImportedDisks {
    pub(crate) fn add(&self, name: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}
