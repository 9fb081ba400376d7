//! Where a layer that is read in order can be read on by a later run, after the end of this one.
//!
//! ```text
//!  blob   ├────────── read, hashed ──────────┤ before ├─ hashed again ─┤ input ├── decoded ──┤ after ├── … ──┤ digest
//!                                            (a sum)                   a unit begins         (a sum)
//! ```
//!
//! A unit is what can be decoded by itself: a member of gzip, a frame of zstd, any place of what is not compressed. A layer in one
//! unit (as most programs write gzip) has no such place.
//!
//! **Guarantee.** The digest that the manifest promises is over the bytes of both runs. The later run goes on from the sum
//! `before`; where it has come to `after` its sum has to be what it was in the earlier run. So the bytes that were decoded in either
//! run are those that were hashed, whoever gave them: a registry that lies to one of two runs is found out.
//!
//! Until it has come to `after`, a later run notes no sum but `before` (`checked.rs`), so it tells no place: a place with sums of
//! its own would take the place of the earlier one in the journal, and `after` would never be compared. A chain of runs, each of
//! which is cut short, hides no lie.

use crate::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of the blob between two sums.
pub(crate) const SUMS_APART: u64 = 1 << 20;
/// Sums that are kept; where there are more, every second one goes.
const SUMS: usize = 256;
/// Bytes of the disk between two places.
pub(crate) const UNITS_APART: u64 = 1 << 20;
/// Units that wait for the next sum; of more, the oldest go.
const UNITS: usize = 256;

/// What a journal says of a place is not one: whoever reads on begins anew.
pub(crate) fn odd(name: &str) -> Error {
    let what =
        format!("what was kept of an earlier reading of {name} makes no sense; all of it is read anew");
    Error::new(ErrorKind::Changed, what)
}

/// The sum of the first bytes of a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SumAt {
    /// How many bytes.
    pub(crate) at: u64,
    /// The state of the hash.
    pub(crate) state: String,
}

/// A place inside a disk from which its layer can be read on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reentry {
    /// The byte of the disk's file.
    pub disk: u64,
    /// The byte of the blob where the unit begins.
    pub(crate) input: u64,
    /// The last sum that is not behind it.
    pub(crate) before: SumAt,
    /// The first sum that is not before it.
    pub(crate) after: SumAt,
}

/// Told each place, in order.
pub type OnReentry = Arc<dyn Fn(Reentry) + Send + Sync>;

/// What the threads that read and decode one layer learn of such places.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    /// Where in the tar the disk lies, and who is told.
    disk: Option<(Range<u64>, OnReentry)>,
    /// Those that a unit to come may need, in order.
    sums: VecDeque<SumAt>,
    /// Behind all sums as yet, in order.
    waiting: VecDeque<Unit>,
    /// The byte of the tar where the last unit began that was taken.
    last: u64,
}

/// A unit that begins inside the disk.
struct Unit {
    input: u64,
    /// In the disk's file.
    disk: u64,
    before: SumAt,
}

impl Notes {
    /// The disk lies there in the tar, and its places are told to `to`.
    pub(crate) fn tell(&self, disk: Range<u64>, to: OnReentry) {
        self.lock().disk = Some((disk, to));
    }

    /// Who reads the blob has this sum.
    pub(crate) fn sum(&self, sum: SumAt) {
        let mut noted = self.lock();
        while noted.waiting.front().is_some_and(|unit| unit.input <= sum.at) {
            let Some(unit) = noted.waiting.pop_front() else { break };
            noted.told(unit, &sum);
        }
        if noted.sums.len() >= SUMS {
            let mut is_kept = false;
            noted.sums.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        noted.sums.push_back(sum);
    }

    /// Who decodes stands where a unit begins, at these bytes of the blob and of the tar; all before them were handed on.
    pub(crate) fn unit(&self, input: u64, tar: u64) {
        let mut noted = self.lock();
        let Some((range, _)) = &noted.disk else { return };
        let range = range.clone();
        let is_worth_it = tar >= noted.last.max(range.start).saturating_add(UNITS_APART) && tar < range.end;
        while noted.sums.get(1).is_some_and(|next| next.at <= input) {
            noted.sums.pop_front();
        }
        let Some(before) = noted.sums.front().filter(|sum| sum.at <= input && is_worth_it).cloned() else {
            return;
        };
        noted.last = tar;
        let unit = Unit { input, disk: tar - range.start, before };
        match noted.sums.iter().find(|sum| sum.at >= input).cloned() {
            Some(after) => noted.told(unit, &after),
            None => {
                if noted.waiting.len() >= UNITS {
                    noted.waiting.pop_front();
                }
                noted.waiting.push_back(unit);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Noted {
    fn told(&self, unit: Unit, after: &SumAt) {
        let Unit { input, disk, before } = unit;
        if let Some((_, to)) = &self.disk {
            to(Reentry { disk, input, before, after: after.clone() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(at: u64) -> SumAt {
        SumAt { at, state: format!("sum of {at}") }
    }

    fn told(notes: &Notes, disk: Range<u64>) -> Arc<Mutex<Vec<Reentry>>> {
        let list: Arc<Mutex<Vec<Reentry>>> = Arc::default();
        let to = Arc::clone(&list);
        notes.tell(disk, Arc::new(move |reentry| to.lock().unwrap().push(reentry)));
        list
    }

    #[test]
    fn a_place_is_told_with_the_sums_around_it_and_not_before_they_are_known() {
        let notes = Notes::default();
        notes.unit(0, 0);
        let list = told(&notes, 512..(100 << 20));
        [0, 10, 20].into_iter().for_each(|at| notes.sum(sum(at)));
        notes.unit(15, 512 + UNITS_APART);
        notes.unit(20, 512 + 2 * UNITS_APART);
        notes.unit(25, 512 + 3 * UNITS_APART);
        let places = |list: &Mutex<Vec<Reentry>>| {
            let list = list.lock().unwrap();
            list.iter().map(|one| (one.disk, one.before.at, one.input, one.after.at)).collect::<Vec<_>>()
        };
        let known = [(UNITS_APART, 10, 15, 20), (2 * UNITS_APART, 20, 20, 20)];
        assert_eq!(places(&list), known);
        notes.sum(sum(30));
        assert_eq!(places(&list), [&known[..], &[(3 * UNITS_APART, 20, 25, 30)]].concat());
    }

    #[test]
    fn places_outside_of_the_disk_or_close_to_the_last_one_are_not_told() {
        let notes = Notes::default();
        let list = told(&notes, 512..(4 << 20));
        [0, 100].into_iter().for_each(|at| notes.sum(sum(at)));
        for tar in [0, 512, 4096, 512 + (1 << 20), 600 + (1 << 20), 4 << 20, 5 << 20] {
            notes.unit(50, tar);
        }
        assert_eq!(list.lock().unwrap().iter().map(|one| one.disk).collect::<Vec<_>>(), [1 << 20]);
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let notes = Notes::default();
        let list = told(&notes, 0..u64::MAX);
        (0..5000).for_each(|at| notes.sum(sum(at)));
        assert!(notes.lock().sums.len() <= SUMS);
        (1..5000).for_each(|at| notes.unit(5000 + at, at * UNITS_APART));
        assert!(notes.lock().waiting.len() <= UNITS && list.lock().unwrap().is_empty());
    }
}
