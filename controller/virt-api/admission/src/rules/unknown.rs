//! Unknown fields: kept, with a warning.

use api::wire::{self, Unknown, Wire};

/// A warning for each unknown field of `object`, in the API server's wording.
pub(super) fn warnings<T: Wire>(object: &T) -> Vec<String> {
    wire::unknown(object).iter().map(warning).collect()
}

/// The same for a part of an object at the path `at`.
pub(super) fn warnings_at<T: Wire>(part: &T, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    part.unknown(&wire::Path::of(at), &mut found);
    found.iter().map(warning).collect()
}

fn warning(unknown: &Unknown) -> String {
    let near = unknown.suggestion.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
    format!("unknown field {:?}: it is kept, and has no effect{near}", unknown.path.as_str())
}
