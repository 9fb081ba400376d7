//! The L1 table, written page by page, so that a huge disk needs no huge table in memory.

use super::geometry::Geometry;
use super::output::Output;
use super::write_at::WriteAt;
use crate::Result;

const PAGE: usize = 64 << 10;

/// Writer of the table. Entries must be set in rising order.
pub(super) struct L1 {
    at: u64,
    /// Size of the table in bytes, up to the end of its last cluster.
    len: u64,
    /// Offset of `page` in the table.
    page_at: u64,
    page: Vec<u8>,
}

impl L1 {
    pub(super) fn new(geometry: &Geometry, at: u64) -> Self {
        L1 { at, len: geometry.l1_clusters * geometry.cluster(), page_at: 0, page: Vec::new() }
    }

    pub(super) fn set<W: WriteAt>(&mut self, index: u64, entry: u64, out: &mut Output<W>) -> Result<()> {
        let at = index * 8;
        if at >= self.page_at + PAGE as u64 {
            self.write_page(out)?;
            let page_at = at - at % PAGE as u64;
            out.zero("the L1 table", page_at - self.page_at, self.at + self.page_at)?;
            self.page_at = page_at;
        }
        self.page.resize((at - self.page_at) as usize, 0);
        self.page.extend(entry.to_be_bytes());
        Ok(())
    }

    pub(super) fn finish<W: WriteAt>(mut self, out: &mut Output<W>) -> Result<()> {
        self.write_page(out)?;
        out.zero("the L1 table", self.len - self.page_at, self.at + self.page_at)
    }

    /// Writes the page. The caller writes the zeros up to the next page.
    fn write_page<W: WriteAt>(&mut self, out: &mut Output<W>) -> Result<()> {
        out.write("the L1 table", &self.page, self.at + self.page_at)?;
        self.page_at += self.page.len() as u64;
        self.page.clear();
        Ok(())
    }
}
