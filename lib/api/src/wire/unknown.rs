//! Suggestions for misspelt field names.

use super::Path;
use std::fmt;

/// An unknown field, which was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Path of the unknown field.
    pub path: Path,
    /// The known field of the same object with a similar name.
    pub suggestion: Option<&'static str>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this field is not known, and has no effect")?;
        self.suggestion.map_or(Ok(()), |near| write!(f, "; did you mean {near}?"))
    }
}

/// Unknown fields of an object that get a suggestion. A user misspells a few names. A request with ten
/// thousand unknown names must not take longer, nor delay other requests.
const COMPARED: usize = 16;

/// Adds the unknown fields `names` of the object at `at`, which has the fields `known`; for the macro.
#[doc(hidden)]
pub fn unknown_fields<'a>(
    found: &mut Vec<Unknown>,
    at: &Path,
    names: impl Iterator<Item = &'a String>,
    known: &[&'static str],
) {
    for name in names {
        let suggestion = (found.len() < COMPARED).then(|| nearest(name, known)).flatten();
        found.push(Unknown { path: at.child(name), suggestion });
    }
}

/// The known values of a field for the message about another one, and the one that was probably meant.
pub fn known_values(value: &str, known: &[&'static str]) -> String {
    let all = known.join(", ");
    match nearest(value, known) {
        Some(near) => format!("did you mean {near}? The known values are {all}"),
        None => format!("the known values are {all}"),
    }
}

/// The most similar of the known names, if any is similar.
pub(crate) fn nearest(name: &str, known: &[&'static str]) -> Option<&'static str> {
    // A name of this length is not a misspelling, and its comparison would take long.
    if name.len() > 64 {
        return None;
    }
    let folded: Vec<char> = name.to_lowercase().chars().collect();
    let distance = |other: &str| distance(&folded, &other.to_lowercase().chars().collect::<Vec<char>>());
    let (distance, near) = known.iter().map(|&other| (distance(other), other)).min()?;
    (distance <= folded.len() / 3).then_some(near)
}

/// Number of letters that must be changed, added, removed or swapped with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = change.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_understood() {
        let known = ["memory", "machine", "cpu", "ioThreads", "ioThreadsPolicy"];
        for (name, near) in [
            ("memroy", Some("memory")),
            ("Memory", Some("memory")),
            ("memori", Some("memory")),
            ("iothreadsPolicy", Some("ioThreadsPolicy")),
            ("cup", Some("cpu")),
            ("disks", None),
            ("x", None),
            ("", None),
            (&"m".repeat(100_000), None),
        ] {
            assert_eq!(nearest(name, &known), near, "{name:.20}");
        }
        assert_eq!(nearest("a", &[]), None);
    }

    #[test]
    fn only_the_first_are_compared() {
        let names: Vec<String> = (0..1000).map(|_| "memroy".to_owned()).collect();
        let mut found = Vec::new();
        unknown_fields(&mut found, &Path::root(), names.iter(), &["memory"]);
        let compared = found.iter().take_while(|unknown| unknown.suggestion == Some("memory")).count();
        assert_eq!((found.len(), compared), (1000, COMPARED));
        assert!(found[COMPARED..].iter().all(|unknown| unknown.suggestion.is_none()));
    }
}
