//! Positions from which a later run can resume reading a layer that is read in order.
//!
//! ```text
//!  blob   ├────────── read, hashed ──────────┤ before ├─ hashed again ─┤ input ├── decoded ──┤ after ├── … ──┤ digest
//!                                            (a sum)                   start of a unit       (a sum)
//! ```
//!
//! A sum is the saved state of the hash. A unit can be decoded on its own: a gzip member, a zstd frame, or
//! any position of an uncompressed layer. A layer that is a single unit (as most programs write gzip) has no
//! such position.
//!
//! **Guarantee.** The digest in the manifest covers the bytes of both runs. The later run continues from the
//! sum `before`. When it reaches `after`, its sum must equal the one of the earlier run. So the decoded bytes
//! of both runs are the hashed ones, whichever server sent them, and a registry that sends different bytes to
//! the two runs is detected.
//!
//! Until it reaches `after`, a later run notes no sum but `before` (`verifying_reader.rs`), and so reports no
//! position. A position with sums of its own would replace the earlier one in the journal, and `after` would
//! never be compared. So even a chain of interrupted runs hides no difference.

use crate::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of the blob between two sums.
pub(crate) const SUMS_APART: u64 = 1 << 20;
/// Limit of sums that are kept. Beyond it, every second one is dropped.
const SUMS: usize = 256;
/// Bytes of the disk between two positions.
pub(crate) const UNITS_APART: u64 = 1 << 20;
/// Limit of units that wait for the next sum. Beyond it, the oldest are dropped.
const UNITS: usize = 256;

/// The error for a position in a journal that cannot be valid. The caller reads the layer again from its
/// start.
pub(crate) fn odd(name: &str) -> Error {
    let what =
        format!("the journal has an invalid position for {name}; the layer is read again from its start");
    Error::new(ErrorKind::Changed, what)
}

/// The saved state of the hash after the first bytes of a blob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SumAt {
    /// Number of bytes hashed.
    pub(crate) at: u64,
    /// State of the hash, in hex.
    pub(crate) state: String,
}

/// A position inside a disk from which its layer can be read by a later run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reentry {
    /// Offset in the disk's file.
    pub disk: u64,
    /// Offset in the blob at which the unit begins.
    pub(crate) input: u64,
    /// The last sum at or before `input`.
    pub(crate) before: SumAt,
    /// The first sum at or after `input`.
    pub(crate) after: SumAt,
}

/// Callback that receives each position, in order.
pub type OnReentry = Arc<dyn Fn(Reentry) + Send + Sync>;

/// Shared record of the positions found by the threads that read and decode one layer.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Noted>>);

#[derive(Default)]
struct Noted {
    /// Range of the disk in the tar, and the callback.
    disk: Option<(Range<u64>, OnReentry)>,
    /// Sums that a later unit may need, in order.
    sums: VecDeque<SumAt>,
    /// Units after all known sums, in order.
    waiting: VecDeque<Unit>,
    /// Offset in the tar of the last unit that was used.
    last: u64,
}

/// The start of a unit inside the disk.
struct Unit {
    input: u64,
    /// Offset in the disk's file.
    disk: u64,
    before: SumAt,
}

impl Notes {
    /// Sets the range of the disk in the tar and the callback for its positions.
    pub(crate) fn tell(&self, disk: Range<u64>, to: OnReentry) {
        self.lock().disk = Some((disk, to));
    }

    /// Adds a sum from the reading thread.
    pub(crate) fn sum(&self, sum: SumAt) {
        let mut noted = self.lock();
        while noted.waiting.front().is_some_and(|unit| unit.input <= sum.at) {
            let Some(unit) = noted.waiting.pop_front() else { break };
            noted.report(unit, &sum);
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

    /// Adds the start of a unit from the decoding thread, at these offsets of the blob and the tar. All bytes
    /// before it must have been passed on.
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
            Some(after) => noted.report(unit, &after),
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
    fn report(&self, unit: Unit, after: &SumAt) {
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
