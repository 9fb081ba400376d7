//! The state of the confinement, as text and as JSON.

use serde::Serialize;
use std::fmt;

/// State of Landlock and of seccomp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confined {
    /// Landlock: files, TCP ports, signals.
    pub landlock: InForce,
    /// State of seccomp, which restricts system calls.
    pub seccomp: InForce,
}

/// State of one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InForce {
    pub in_force: bool,
    /// Version of the kernel's interface, for Landlock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abi: Option<u32>,
    /// Reason for not being in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Confined {
    /// Neither is in force, for this reason.
    pub(crate) fn off(reason: &str) -> Confined {
        Confined { landlock: InForce::no(reason), seccomp: InForce::no(reason) }
    }

    /// True if both are in force.
    pub fn is_complete(&self) -> bool {
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
        assert!(!confined.is_complete());
    }
}
