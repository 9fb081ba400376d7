//! Number of panics of guests by VMI, while this program runs.

use api::launcher::State;
use api::meta::ObjectMeta;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Reason by which a launcher reports a panic of the guest.
const PANICKED: &str = "GuestPanicked";
/// Most VMIs that are counted: those with the latest panics.
const MOST: usize = 1024;

/// Panics of each VMI, by namespace and name; the VMI with the latest panic is at the end.
#[derive(Debug, Default)]
pub(super) struct Panics(VecDeque<((String, String), u64)>);

static PANICS: Mutex<Panics> = Mutex::new(Panics(VecDeque::new()));

/// Counts a panic of a guest if the launcher's state reports one and the state before did not.
pub(crate) fn count_panic(before: Option<&State>, now: &State, vmi: &ObjectMeta) {
    if is_new(before.and_then(|before| before.reason.as_deref()), now.reason.as_deref()) {
        let (namespace, name) = (vmi.namespace.as_deref(), vmi.name.as_deref());
        let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        panics.count(namespace.unwrap_or_default(), name.unwrap_or_default());
    }
}

fn is_new(before: Option<&str>, now: Option<&str>) -> bool {
    now == Some(PANICKED) && before != Some(PANICKED)
}

/// Panics of all VMIs: namespace, name and count.
pub(super) fn all() -> Vec<((String, String), u64)> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner).0.iter().cloned().collect()
}

impl Panics {
    fn count(&mut self, namespace: &str, name: &str) {
        let is_it = |((of, known), _): &((String, String), u64)| of == namespace && known == name;
        let before = self.0.iter().position(is_it).and_then(|at| self.0.remove(at));
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        let count = before.map_or(0, |(_, count)| count).saturating_add(1);
        self.0.push_back(((namespace.to_owned(), name.to_owned()), count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_counted_once_however_often_it_is_told() {
        let panicked = Some(PANICKED);
        assert!(is_new(None, panicked) && is_new(Some("PausedByUser"), panicked));
        assert!(!is_new(panicked, panicked) && !is_new(panicked, None) && !is_new(None, Some("Crashed")));
    }

    #[test]
    fn those_that_panicked_last_are_remembered() {
        let mut panics = Panics::default();
        panics.count("n", "first");
        for number in 0..MOST {
            panics.count("n", &number.to_string());
        }
        panics.count("n", "1");
        assert_eq!(panics.0.len(), MOST);
        assert!(!panics.0.iter().any(|((_, name), _)| name == "first"));
        assert_eq!(panics.0.back(), Some(&(("n".to_owned(), "1".to_owned()), 2)));
    }
}
