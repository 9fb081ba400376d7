//! State of each L2 table and its data while the file is read.

/// Bytes of a disk that `qemu-img convert -W` writes concurrently at most: 16 writes of 2 MiB.
const UNDER_WAY: u64 = 32 << 20;
/// Minimum distance in clusters that counts as apart.
const LEAST: u64 = 64;
/// Safety factor for the observed disorder.
const MARGIN: u64 = 4;
/// Limit of tables that are examined. More tables without data count as an unknown one.
const WALK: usize = 64;

/// State of an L2 table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passed {
    /// Spooled or still to come. Nothing of it was returned.
    Unread,
    /// Returned, except for data that lies before it in the file. Table and data are spooled.
    Late,
    /// Returned, or all of its data is pending.
    Read,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Table {
    pub(super) passed: Passed,
    /// Number of its extents that were returned from the file.
    told: u32,
    /// Number of its extents that are pending.
    left: u32,
}

/// All L2 tables, by their position in the L1 table's list.
#[derive(Default)]
pub(super) struct Tables {
    list: Vec<Table>,
    /// Number of tables that are [`Passed::Unread`].
    unread: usize,
    /// Number of clusters that may have been written concurrently.
    under_way: u64,
    /// Number of extents that were returned.
    told: u64,
    /// The last cluster among them.
    last: u64,
    /// Largest distance that a later extent lay before it.
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

    /// True if no later table can refer to data that has passed.
    pub(super) fn all_read(&self) -> bool {
        self.unread == 0
    }

    pub(super) fn pends(&mut self, nth: usize) {
        self.list[nth].left = self.list[nth].left.saturating_add(1);
    }

    pub(super) fn count_data(&mut self, nth: usize, cluster: u64) {
        let table = &mut self.list[nth];
        table.told = table.told.saturating_add(1);
        table.left = table.left.saturating_sub(1);
        self.told += 1;
        self.disorder = self.disorder.max(self.last.saturating_sub(cluster));
        self.last = self.last.max(cluster);
    }

    /// True if data between two neighbours of this table in the file cannot belong to a table that is still
    /// unknown: enough known data was returned before, and comes after, to keep the data of such a table
    /// away.
    ///
    /// This is an assumption about how images are written. If it is wrong, the image is refused later,
    /// because the bytes have passed. It is never misread.
    pub(super) fn keeps_apart(&self, nth: usize) -> bool {
        let near = self.near();
        enough(near, self.list[..=nth].iter().rev(), |table| table.told)
            && enough(near, self.list[nth..].iter(), |table| table.left)
    }

    /// Number of extents between data that was written at different times. Initially it is the number that
    /// may have been written concurrently. Later it is derived from the observed disorder of the data.
    fn near(&self) -> u32 {
        let seen = self.told >= self.under_way.saturating_mul(MARGIN);
        let least = if seen { LEAST } else { self.under_way.max(LEAST) };
        u32::try_from(self.disorder.saturating_mul(MARGIN).max(least)).unwrap_or(u32::MAX)
    }
}

/// True if the first tables of `walk` are known and have `near` extents, or if all of them are known.
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
            tables.count_data(1, i);
        }
        let expected: Vec<u64> = (512..=4000 - 64).collect();
        assert!(apart == expected, "far from both ends; less is far when order was seen");
        assert!(!tables.keeps_apart(1));
        tables.set(2, Passed::Late);
        assert!(tables.keeps_apart(1), "nothing is unknown behind it");
        assert!(tables.keeps_apart(2), "enough was told of the table before it");
        assert!(!tables.keeps_apart(0), "it is unknown itself");
        tables.count_data(2, 1);
        assert!(!tables.keeps_apart(2), "data is {} clusters out of order", tables.disorder);
    }
}
