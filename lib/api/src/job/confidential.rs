//! Values that logs must not show.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A confidential value: `Debug` does not show it. Its JSON is that of the value.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Confidential<T>(pub T);

impl<T> fmt::Debug for Confidential<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl From<&str> for Confidential<String> {
    fn from(text: &str) -> Self {
        Confidential(text.to_owned())
    }
}
