//! Fields that we do not know: kept, and told.

use api::wire::{self, Unknown, Wire};

/// One warning for each field of `object` that is not known, in the words of the API server.
pub(super) fn warnings<T: Wire>(object: &T) -> Vec<String> {
    wire::unknown(object).iter().map(warning).collect()
}

/// The same of a part of an object, which stands at `at`.
pub(super) fn warnings_at<T: Wire>(part: &T, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    part.unknown(&wire::Path::of(at), &mut found);
    found.iter().map(warning).collect()
}

fn warning(unknown: &Unknown) -> String {
    let near = unknown.suggestion.map_or_else(String::new, |near| format!("; did you mean {near:?}?"));
    format!("unknown field {:?}: it is kept, and has no effect{near}", unknown.path.as_str())
}
