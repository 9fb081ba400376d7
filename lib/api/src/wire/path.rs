//! Path of a field in its object.

use std::fmt;

/// A path from the root of an object: `spec.domain.devices.disks[0].name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(String);

impl Path {
    /// The path of the object itself.
    pub fn root() -> Path {
        Path::default()
    }

    /// The path with this text.
    pub fn of(text: impl Into<String>) -> Path {
        Path(text.into())
    }

    /// The path of a field.
    #[must_use]
    pub fn child(&self, name: &str) -> Path {
        if self.0.is_empty() { Path(name.to_owned()) } else { Path(format!("{}.{name}", self.0)) }
    }

    /// The path of an entry of the list.
    #[must_use]
    pub fn index(&self, i: usize) -> Path {
        Path(format!("{}[{i}]", self.0))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
