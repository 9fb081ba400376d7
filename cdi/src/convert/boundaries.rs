//! Boundaries of a compressed stream where a decoder could be entered again, as far as they are kept.

use crate::filter::{Boundary, OnBoundary, STATES};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// The most boundaries that are kept, beside the bound on their states ([`STATES`]).
const MOST: usize = 4096;

/// Boundaries where a decoder could be entered again.
#[derive(Clone, Default)]
pub(crate) struct Boundaries(Arc<Mutex<VecDeque<Boundary>>>);

impl Boundaries {
    pub(super) fn note(&self) -> OnBoundary {
        let list = self.0.clone();
        Arc::new(move |boundary| {
            let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
            let states: usize = list.iter().map(|kept| kept.state.len()).sum();
            if list.len() >= MOST || states + boundary.state.len() > STATES {
                // No mark has used them for long: every second one is dropped.
                let mut is_kept = false;
                list.retain(|_| {
                    is_kept = !is_kept;
                    is_kept
                });
            }
            list.push_back(boundary);
        })
    }

    /// The last one whose decoded bytes before it are all done; older ones are dropped.
    pub(crate) fn last_before(&self, done: u64) -> Option<Boundary> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while list.get(1).is_some_and(|next| next.output <= done) {
            list.pop_front();
        }
        list.front().filter(|first| first.output <= done).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_of_boundaries_have_a_bound() {
        let boundaries = Boundaries::default();
        let note = boundaries.note();
        let at = |n: u64, state: usize| Boundary { input: n, output: n, state: vec![0; state] };
        for n in 1..=10_000 {
            note(at(n, 32 << 10));
            let held: usize = boundaries.0.lock().unwrap().iter().map(|kept| kept.state.len()).sum();
            assert!(held <= STATES, "{held} bytes after {n}");
        }
        let kept = boundaries.0.lock().unwrap().len();
        assert!(kept >= 16, "{kept} are left");
        assert_eq!(boundaries.last_before(10_000), Some(at(10_000, 32 << 10)));
        for n in 1..=10_000 {
            note(at(10_000 + n, 0));
        }
        assert!(boundaries.0.lock().unwrap().len() <= MOST);
    }
}
