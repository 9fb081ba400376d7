//! A fault of a manifest: the field, the problem, and the remedy.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of a fault, in the words of the API server's causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// The value is not allowed.
    #[serde(rename = "FieldValueInvalid")]
    Invalid,
    /// A required value is missing.
    #[serde(rename = "FieldValueRequired")]
    Required,
    /// The value must be unique, and is not.
    #[serde(rename = "FieldValueDuplicate")]
    Duplicate,
    /// The feature exists, but not on this site, or not yet.
    #[serde(rename = "FieldValueNotSupported")]
    NotSupported,
    /// The object that the field refers to does not exist.
    #[serde(rename = "FieldValueNotFound")]
    NotFound,
    /// The user may not set the field.
    #[serde(rename = "FieldValueForbidden")]
    Forbidden,
}

/// A fault of one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The field, as a path from the object's root: `spec.domain.devices.disks[0].name`.
    pub field: String,
    pub reason: Reason,
    /// Human-readable description of the fault.
    pub message: String,
    /// Remedy, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Fault {
    /// A fault without a remedy.
    pub fn new(field: impl fmt::Display, reason: Reason, message: impl Into<String>) -> Fault {
        Fault { field: field.to_string(), reason, message: message.into(), hint: None }
    }

    /// The fault of a field that is known and not supported yet.
    pub fn not_yet(field: impl fmt::Display) -> Fault {
        Fault::new(field, Reason::NotSupported, "not supported yet")
    }

    /// The fault with a remedy.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Fault {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.field, self.message)
        }
    }
}

/// The faults of an object inside another one: with the prefix `spec.template.`, `spec.…` becomes
/// `spec.template.spec.…` in fields and in messages. [`crate::machine::Settings::at`] has such a path from
/// the start.
pub fn prefixed(faults: Vec<Fault>, prefix: &str) -> Vec<Fault> {
    let inside = |text: &str| {
        let mut result = String::new();
        let mut rest = text;
        while let Some(found) = rest.find("spec.") {
            let before = rest[..found].chars().next_back().or(result.chars().next_back());
            result.push_str(&rest[..found]);
            // The word must not be the end of a longer one.
            if before.is_none_or(|c| !c.is_alphanumeric() && c != '.') {
                result.push_str(prefix);
            }
            result.push_str("spec.");
            rest = &rest[found + "spec.".len()..];
        }
        result.push_str(rest);
        result
    };
    let change =
        |fault: Fault| Fault { field: inside(&fault.field), message: inside(&fault.message), ..fault };
    faults.into_iter().map(change).collect()
}
