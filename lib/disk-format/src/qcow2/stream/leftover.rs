//! Processing of the spooled ranges after the end of the file.

use super::body::Body;
use super::misused;
use super::tables::Passed;
use crate::qcow2::map::clamp;
use crate::qcow2::refuse;
use crate::{Data, ErrorKind, Extent, ReadAt, Result};

impl Body {
    /// Returns more extents from the spool. `None` when all have been returned.
    pub(super) fn leftover(&mut self, spool: &dyn ReadAt) -> Result<Option<Vec<Extent>>> {
        let Some(file_end) = self.map.file_end.filter(|_| self.ended) else {
            return Err(misused("`leftover` was called before the last piece".to_owned()));
        };
        let mut out = vec![];
        while out.len() < self.budget.extents
            && let Some(extent) = self.pending.pop()
        {
            out.push(self.still_pending(extent, file_end)?);
        }
        while out.len() < self.budget.extents
            && let Some(passed) = self.tables.get(self.left_table)
        {
            if passed == Passed::Read {
                self.left_table += 1;
                continue;
            }
            if !out.is_empty() && self.left_from > 0 {
                break;
            }
            self.rest_of_table(passed, spool, &mut out)?;
        }
        Ok((!out.is_empty()).then_some(out))
    }

    /// Known data that was spooled because `keep_all` was set.
    fn still_pending(&self, extent: Extent, file_end: u64) -> Result<Extent> {
        let Some(range) = extent.file_range() else { return Ok(extent) };
        let missing = || {
            let what = format!("data of guest offset {:#x} reaches past the end of the file", extent.guest);
            refuse(ErrorKind::Truncated, range.start, what)
        };
        let extent = match extent.data {
            Data::Packed { at, size, codec, unpacked } => {
                let size = clamp(at, size, file_end).ok_or_else(missing)?;
                Extent { data: Data::Packed { at, size, codec, unpacked }, ..extent }
            }
            _ if range.end > file_end => return Err(missing()),
            _ => extent,
        };
        self.kept(&extent)
    }

    fn rest_of_table(&mut self, passed: Passed, spool: &dyn ReadAt, out: &mut Vec<Extent>) -> Result<()> {
        let nth = self.left_table;
        let table = self.map.table_offset(nth);
        let mut guest = self.map.guest_of(nth);
        guest.start = guest.start.max(self.left_from);
        let mut extents = vec![];
        let reached = self.map.fill(spool, self.budget, guest.clone(), &mut extents)?;
        for extent in extents {
            match extent.file_range() {
                // Already returned when the table was read: zeros, and all data after it.
                None if passed == Passed::Late => {}
                Some(range) if passed == Passed::Late && range.start >= table => {}
                None => out.push(extent),
                Some(_) => out.push(self.kept(&extent)?),
            }
        }
        let done = reached >= guest.end;
        self.left_table += usize::from(done);
        self.left_from = if done { 0 } else { reached };
        Ok(())
    }
}
