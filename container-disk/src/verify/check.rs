//! The results of the checks.

use crate::{Error, ErrorKind, Result};

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Name of the check: "amd64: layer 1: blob".
    pub name: String,
    pub outcome: Outcome,
}

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// The check failed, with the reason.
    Failed(String),
    /// The check was not made, with the reason.
    NotChecked(String),
}

impl Check {
    /// True if the check passed. A check that was not made has not passed.
    pub fn passed(&self) -> bool {
        self.outcome == Outcome::Passed
    }
}

/// An error with the reason `why`, unless the condition is true.
pub(super) fn expect(is_true: bool, why: impl FnOnce() -> String) -> Result<()> {
    if is_true { Ok(()) } else { Err(Error::refused(why())) }
}

/// The results so far.
#[derive(Default)]
pub(super) struct Checks {
    /// Prefix for the names of the following checks: "amd64: ".
    pub(super) prefix: String,
    pub(super) list: Vec<Check>,
    /// Number of documents that indexes have listed.
    pub(super) documents: usize,
}

impl Checks {
    /// Records a result. Returns the value if the check passed. An error that is not caused by the image ends
    /// the verification.
    pub(super) fn record<T>(&mut self, name: &str, result: Result<T>) -> Result<Option<T>> {
        let value = self.record_part(name, result)?;
        if value.is_some() {
            self.add(name, Outcome::Passed);
        }
        Ok(value)
    }

    /// Like `record`, but does not record success, for a check with further parts.
    pub(super) fn record_part<T>(&mut self, name: &str, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(e) if matches!(e.kind(), ErrorKind::Refused | ErrorKind::NotFound) => {
                self.failed(name, e.chain());
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    pub(super) fn failed(&mut self, name: &str, why: String) {
        self.add(name, Outcome::Failed(why));
    }

    pub(super) fn add(&mut self, name: &str, outcome: Outcome) {
        self.list.push(Check { name: format!("{}{name}", self.prefix), outcome });
    }
}
