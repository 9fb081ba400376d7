//! Known data that is still to come, in file order.

use crate::{Data, Extent};
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Extents with bytes in the file, ordered by their position.
#[derive(Default)]
pub(super) struct Pending {
    heap: BinaryHeap<Reverse<InFile>>,
}

impl Pending {
    pub(super) fn len(&self) -> usize {
        self.heap.len()
    }

    /// All pending extents, in no particular order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Extent> {
        self.heap.iter().map(|next| &next.0.0)
    }

    pub(super) fn add(&mut self, extent: Extent) {
        if extent.data != Data::Zero {
            self.heap.push(Reverse(InFile(extent)));
        }
    }

    /// Offset of the next one in the file.
    pub(super) fn next_at(&self) -> Option<u64> {
        self.peek().and_then(Extent::file_range).map(|range| range.start)
    }

    pub(super) fn peek(&self) -> Option<&Extent> {
        self.heap.peek().map(|next| &next.0.0)
    }

    pub(super) fn pop(&mut self) -> Option<Extent> {
        self.heap.pop().map(|next| next.0.0)
    }

    /// Removes the first `len` bytes (or all, if it is shorter) of the next one, which must be raw.
    pub(super) fn pop_front(&mut self, len: u64) -> Option<Extent> {
        let mut next = self.heap.peek_mut()?;
        let whole = next.0.0;
        match whole.data {
            Data::Raw { at } if len < whole.len => {
                let rest = Extent {
                    guest: whole.guest + len,
                    len: whole.len - len,
                    data: Data::Raw { at: at + len },
                };
                next.0 = InFile(rest);
                Some(Extent { len, ..whole })
            }
            _ => Some(PeekMut::pop(next).0.0),
        }
    }
}

struct InFile(Extent);

impl InFile {
    fn key(&self) -> (u64, u64) {
        (self.0.file_range().map_or(0, |range| range.start), self.0.guest)
    }
}

impl Ord for InFile {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for InFile {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for InFile {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for InFile {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_in_the_file_comes_first_and_may_come_in_parts() {
        let mut pending = Pending::default();
        let raw = |guest, at, len| Extent { guest, len, data: Data::Raw { at } };
        pending.add(raw(0, 9000, 100));
        pending.add(raw(5000, 1000, 100));
        pending.add(Extent { guest: 7, len: 1, data: Data::Zero });
        assert_eq!((pending.len(), pending.next_at()), (2, Some(1000)));
        assert_eq!(pending.pop_front(30), Some(raw(5000, 1000, 30)));
        assert_eq!(pending.peek(), Some(&raw(5030, 1030, 70)));
        assert_eq!(pending.pop_front(70), Some(raw(5030, 1030, 70)));
        assert_eq!(pending.pop(), Some(raw(0, 9000, 100)));
        assert_eq!(pending.pop_front(1), None);
    }
}
