//! Jobs end in any order; the journal may only claim an unbroken row of them. Pure.

use std::collections::BTreeMap;

/// The longest unbroken row of finished jobs, each with its result.
#[derive(Debug)]
pub(crate) struct Watermark<T> {
    next: u64,
    early: BTreeMap<u64, T>,
    reached: Option<T>,
}

impl<T> Watermark<T> {
    pub(crate) fn new() -> Self {
        Watermark { next: 0, early: BTreeMap::new(), reached: None }
    }

    /// Records the end of job `seq`. `fold` joins the state of the row with the next job's end.
    pub(crate) fn done(&mut self, seq: u64, end: T, mut fold: impl FnMut(Option<T>, T) -> T) {
        self.early.insert(seq, end);
        while let Some(end) = self.early.remove(&self.next) {
            self.next += 1;
            self.reached = Some(fold(self.reached.take(), end));
        }
    }

    /// The state at the end of the unbroken row.
    pub(crate) fn reached(&self) -> Option<&T> {
        self.reached.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unbroken_row_counts() {
        let mut mark = Watermark::new();
        let last = |_: Option<u64>, end: u64| end;
        mark.done(1, 10, last);
        mark.done(3, 30, last);
        assert_eq!(mark.reached(), None);
        mark.done(0, 5, last);
        assert_eq!(mark.reached(), Some(&10));
        mark.done(2, 20, last);
        assert_eq!(mark.reached(), Some(&30));
    }
}
