//! What became of each L2 table, and of the data it maps, as the file went by.

/// Clusters this near to one another in a table may have been written at the same time: `qemu-img convert -W` has
/// at most 16 writes under way.
const NEAR: u32 = 64;

/// What became of an L2 table as it passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// Spooled or still to come, nothing of it is told.
    Unread,
    /// Told, but for data that lies before it in the file; table and data are spooled.
    Late,
    /// Told, or all of its data is pending.
    Read,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) passed: Passed,
    /// How many of its extents have been told from the file, as far as [`NEAR`].
    told: u8,
    /// How many are pending.
    left: u32,
}

/// All L2 tables, by their position in the L1 table's list.
#[derive(Default)]
pub(super) struct Tables {
    list: Vec<Table>,
}

impl Tables {
    pub(super) fn new(count: usize) -> Self {
        Tables { list: vec![Table { passed: Passed::Unread, told: 0, left: 0 }; count] }
    }

    pub(super) fn get(&self, nth: usize) -> Option<Passed> {
        self.list.get(nth).map(|table| table.passed)
    }

    pub(super) fn set(&mut self, nth: usize, passed: Passed) {
        self.list[nth].passed = passed;
    }

    pub(super) fn pends(&mut self, nth: usize) {
        self.list[nth].left = self.list[nth].left.saturating_add(1);
    }

    pub(super) fn told(&mut self, nth: usize) {
        let table = &mut self.list[nth];
        table.told = (table.told + 1).min(NEAR as u8);
        table.left = table.left.saturating_sub(1);
    }

    /// Whether data that lies between two neighbours of this table in the file cannot be that of a table which is
    /// not known yet: known data enough was told before, and comes behind, to keep such a table's far away.
    ///
    /// That is an assumption about how images are written. Where it does not hold, the image is refused later,
    /// because the bytes have gone by; it is never misread.
    pub(super) fn keeps_apart(&self, nth: usize) -> bool {
        enough(self.list[..=nth].iter().rev(), |table| table.told.into())
            && enough(self.list[nth..].iter(), |table| table.left)
    }
}

/// Whether the first tables of `walk` are known and count [`NEAR`], or all of them are known.
fn enough<'a>(walk: impl Iterator<Item = &'a Table>, count: fn(&Table) -> u32) -> bool {
    let mut sum = 0_u32;
    for (i, table) in walk.enumerate() {
        // A long row of tables without data is as good as an unknown one.
        if table.passed == Passed::Unread || i > NEAR as usize {
            return false;
        }
        sum = sum.saturating_add(count(table));
        if sum >= NEAR {
            return true;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_far_from_unknown_tables_is_apart() {
        let mut tables = Tables::new(3);
        tables.set(1, Passed::Read);
        (0..2 * NEAR).for_each(|_| tables.pends(1));
        let mut apart = vec![];
        for i in 0..2 * NEAR {
            if tables.keeps_apart(1) {
                apart.push(i);
            }
            tables.told(1);
        }
        assert_eq!(apart, [NEAR], "far from both ends");
        assert!(!tables.keeps_apart(1));
        tables.set(2, Passed::Late);
        assert!(tables.keeps_apart(1), "nothing is unknown behind it");
        assert!(tables.keeps_apart(2), "enough was told of the table before it");
        assert!(!tables.keeps_apart(0), "it is unknown itself");
    }
}
