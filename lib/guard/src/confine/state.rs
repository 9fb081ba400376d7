//! What is in force, for people and for programs.

use serde::Serialize;
use std::fmt;

/// Which of the two means is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confined {
    /// Files, TCP ports, signals.
    pub landlock: InForce,
    /// System calls.
    pub seccomp: InForce,
}

/// One of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InForce {
    /// Whether it is in force.
    pub in_force: bool,
    /// Its version, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abi: Option<u32>,
    /// Why it is not in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Confined {
    /// Neither is, for this reason.
    pub(crate) fn off(reason: &str) -> Confined {
        Confined { landlock: InForce::no(reason), seccomp: InForce::no(reason) }
    }

    /// Whether both are.
    pub fn is_whole(&self) -> bool {
        self.landlock.in_force && self.seccomp.in_force
    }
}

impl InForce {
    pub(crate) fn yes(abi: Option<u32>) -> InForce {
        InForce { in_force: true, abi, reason: None }
    }

    pub(crate) fn no(reason: impl fmt::Display) -> InForce {
        InForce { in_force: false, abi: None, reason: Some(reason.to_string()) }
    }
}

impl fmt::Display for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.in_force, self.abi, &self.reason) {
            (true, Some(abi), _) => write!(f, "in force (ABI {abi})"),
            (true, None, _) => f.write_str("in force"),
            (false, _, Some(reason)) => write!(f, "not in force: {reason}"),
            (false, _, None) => f.write_str("not in force"),
        }
    }
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Landlock (files): {}; seccomp (system calls): {}", self.landlock, self.seccomp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_force_is_one_line() {
        let confined = Confined { landlock: InForce::yes(Some(7)), seccomp: InForce::no("no such call") };
        assert_eq!(
            confined.to_string(),
            "Landlock (files): in force (ABI 7); seccomp (system calls): not in force: no such call"
        );
        assert!(!confined.is_whole());
    }
}
