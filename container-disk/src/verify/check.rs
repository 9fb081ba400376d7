//! What came of each claim.

use crate::{Error, ErrorKind, Result};

/// One claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// "amd64: layer 1: blob".
    pub name: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is true.
    Passed,
    /// It is not, because.
    Failed(String),
    /// Nobody knows, because.
    NotChecked(String),
}

impl Check {
    /// Whether it is true. What was not checked is not.
    pub fn passed(&self) -> bool {
        self.outcome == Outcome::Passed
    }
}

/// A claim that can be told by looking.
pub(super) fn expect(is_true: bool, why: impl FnOnce() -> String) -> Result<()> {
    if is_true { Ok(()) } else { Err(Error::refused(why())) }
}

/// The checks so far.
#[derive(Default)]
pub(super) struct Checks {
    /// Of the names of those to come: "amd64: ".
    pub(super) prefix: String,
    pub(super) list: Vec<Check>,
    /// Documents that indexes led to.
    pub(super) documents: usize,
}

impl Checks {
    /// One more. The value is there if it passed; an error that is not the image's fault ends all.
    pub(super) fn of<T>(&mut self, name: &str, result: Result<T>) -> Result<Option<T>> {
        let value = self.part_of(name, result)?;
        if value.is_some() {
            self.add(name, Outcome::Passed);
        }
        Ok(value)
    }

    /// The same of a claim that has not passed with this alone.
    pub(super) fn part_of<T>(&mut self, name: &str, result: Result<T>) -> Result<Option<T>> {
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
