//! What became of each L2 table, and of the data it maps, as the file went by.

/// How much of a disk `qemu-img convert -W` has under way at most: 16 writes of 2 MiB.
const UNDER_WAY: u64 = 32 << 20;
/// Fewer clusters are always near to one another.
const LEAST: u64 = 64;
/// Twice is chance, so many times is a rule.
const MARGIN: u64 = 4;
/// How many tables are looked at, at most: more of them without data are as good as an unknown one.
const WALK: usize = 64;

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
    /// How many of its extents have been told from the file.
    told: u32,
    /// How many are pending.
    left: u32,
}

/// All L2 tables, by their position in the L1 table's list.
#[derive(Default)]
pub(super) struct Tables {
    list: Vec<Table>,
    /// How many are [`Passed::Unread`].
    unread: usize,
    /// How many clusters may have been written at the same time.
    under_way: u64,
    /// How many extents have been told, the last cluster of them, and how far behind it others came afterwards.
    told: u64,
    last: u64,
    disorder: u64,
}

impl Tables {
    pub(super) fn new(count: usize, cluster_bits: u32) -> Self {
        let unread = Table { passed: Passed::Unread, told: 0, left: 0 };
        Tables {
            list: vec![unread; count],
            unread: count,
            under_way: UNDER_WAY >> cluster_bits,
            ..Tables::default()
        }
    }

    pub(super) fn get(&self, nth: usize) -> Option<Passed> {
        self.list.get(nth).map(|table| table.passed)
    }

    pub(super) fn set(&mut self, nth: usize, passed: Passed) {
        let before = std::mem::replace(&mut self.list[nth].passed, passed);
        self.unread -= usize::from(before == Passed::Unread);
    }

    /// Whether nothing can come that names data which has gone by.
    pub(super) fn all_read(&self) -> bool {
        self.unread == 0
    }

    pub(super) fn pends(&mut self, nth: usize) {
        self.list[nth].left = self.list[nth].left.saturating_add(1);
    }

    pub(super) fn told(&mut self, nth: usize, cluster: u64) {
        let table = &mut self.list[nth];
        table.told = table.told.saturating_add(1);
        table.left = table.left.saturating_sub(1);
        self.told += 1;
        self.disorder = self.disorder.max(self.last.saturating_sub(cluster));
        self.last = self.last.max(cluster);
    }

    /// Whether data that lies between two neighbours of this table in the file cannot be that of a table which is
    /// not known yet: known data enough was told before, and comes behind, to keep such a table's far away.
    ///
    /// That is an assumption about how images are written. Where it does not hold, the image is refused later,
    /// because the bytes have gone by; it is never misread.
    pub(super) fn keeps_apart(&self, nth: usize) -> bool {
        let near = self.near();
        enough(near, self.list[..=nth].iter().rev(), |table| table.told)
            && enough(near, self.list[nth..].iter(), |table| table.left)
    }

    /// So many extents lie between data that was written at different times: as many as can have been under way,
    /// until the data told so far shows how far out of order it really lies.
    fn near(&self) -> u32 {
        let seen = self.told >= self.under_way.saturating_mul(MARGIN);
        let least = if seen { LEAST } else { self.under_way.max(LEAST) };
        u32::try_from(self.disorder.saturating_mul(MARGIN).max(least)).unwrap_or(u32::MAX)
    }
}

/// Whether the first tables of `walk` are known and count `near`, or all of them are known.
fn enough<'a>(near: u32, walk: impl Iterator<Item = &'a Table>, count: fn(&Table) -> u32) -> bool {
    let mut sum = 0_u32;
    for (i, table) in walk.enumerate() {
        if table.passed == Passed::Unread || i > WALK {
            return false;
        }
        sum = sum.saturating_add(count(table));
        if sum >= near {
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
        let mut tables = Tables::new(3, 16);
        tables.set(1, Passed::Read);
        (0..4000).for_each(|_| tables.pends(1));
        let mut apart = vec![];
        for i in 0..4000 {
            if tables.keeps_apart(1) {
                apart.push(i);
            }
            tables.told(1, i);
        }
        let expected: Vec<u64> = (512..=4000 - 64).collect();
        assert!(apart == expected, "far from both ends; less is far when order was seen");
        assert!(!tables.keeps_apart(1));
        tables.set(2, Passed::Late);
        assert!(tables.keeps_apart(1), "nothing is unknown behind it");
        assert!(tables.keeps_apart(2), "enough was told of the table before it");
        assert!(!tables.keeps_apart(0), "it is unknown itself");
        tables.told(2, 1);
        assert!(!tables.keeps_apart(2), "data is {} clusters out of order", tables.disorder);
    }
}
