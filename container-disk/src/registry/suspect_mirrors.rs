//! Mirrors that are suspected of sending wrong bytes of a blob.
//!
//! A wrong digest shows only at the end of a blob, when its bytes have been returned and cannot be taken
//! back. That read fails. The mirrors involved are recorded here, so that the next read of the same blob
//! starts with another mirror.

use crate::{Digest, Error};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// Suspected mirrors by blob.
#[derive(Debug, Default)]
pub(super) struct SuspectMirrors(Mutex<HashMap<Digest, BTreeMap<usize, Suspicion>>>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Suspicion {
    /// The mirror sent some of the bytes of a wrong blob, perhaps the right ones.
    Perhaps,
    /// The mirror sent wrong bytes, with the error.
    Proven(String),
}

impl SuspectMirrors {
    /// Mirrors to ask last (`None`), or not at all (with the reason).
    pub(super) fn of_blob(&self, digest: &Digest) -> Vec<(usize, Option<Error>)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let suspects = all.get(digest).into_iter().flatten();
        let told = suspects.map(|(mirror, doubt)| match doubt {
            Suspicion::Perhaps => (*mirror, None),
            Suspicion::Proven(reason) => (*mirror, Some(Error::refused(reason.clone()))),
        });
        told.collect()
    }

    /// Records the mirrors that together sent a wrong blob, in the order of their bytes. A mirror that sent
    /// all of it is proven wrong. Of several, the first is asked last from now on; if it was already, it
    /// counts as proven.
    pub(super) fn blame(&self, digest: &Digest, givers: &[usize], reason: &str) {
        let Some((first, others)) = givers.split_first() else { return };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let suspects = all.entry(*digest).or_default();
        if others.is_empty() {
            suspects.retain(|_, doubt| *doubt != Suspicion::Perhaps);
        } else if !suspects.contains_key(first) {
            suspects.insert(*first, Suspicion::Perhaps);
            return;
        }
        suspects.insert(*first, Suspicion::Proven(reason.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(suspects: &SuspectMirrors) -> Vec<(usize, bool)> {
        let about = suspects.of_blob(&Digest::of(b"x"));
        about.into_iter().map(|(mirror, reason)| (mirror, reason.is_some())).collect()
    }

    #[test]
    fn who_gave_all_is_to_blame_and_of_several_the_first_is_asked_last() {
        let suspects = SuspectMirrors::default();
        let digest = Digest::of(b"x");
        suspects.blame(&digest, &[0, 1], "bad");
        assert_eq!(state(&suspects), [(0, false)]);
        suspects.blame(&digest, &[1], "bad");
        assert_eq!(state(&suspects), [(1, true)], "the other one is free again");
        assert!(suspects.of_blob(&Digest::of(b"y")).is_empty());
        suspects.blame(&digest, &[], "bad");
    }

    #[test]
    fn it_ends_also_where_they_always_give_it_together() {
        let suspects = SuspectMirrors::default();
        let digest = Digest::of(b"x");
        for (givers, then) in [
            (&[0, 1][..], &[(0, false)][..]),
            (&[1, 0], &[(0, false), (1, false)]),
            (&[0, 1], &[(0, true), (1, false)]),
            (&[1], &[(0, true), (1, true)]),
        ] {
            suspects.blame(&digest, givers, "bad");
            assert_eq!(state(&suspects), then);
        }
    }
}
