//! Data and zeros of a disk by its tables (or a file's holes), without reading the data.

use super::Usage;
use super::blocks::Meter;
use crate::source::{Source, SourceFacts};
use disk_format::{Data, Format, Limits, Result};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// Bytes that a local file takes on its disk. The name alone proves nothing (it may be a URL, or gone): the
/// file must have the identity that the source recorded when it was opened.
pub(super) fn allocated(facts: &SourceFacts) -> Option<u64> {
    let identity = facts.identity.as_ref()?;
    let found = std::fs::metadata(&facts.name).ok()?;
    let same = format!("file:{}:{}:", found.dev(), found.ino());
    identity.value.starts_with(&same).then(|| found.blocks().saturating_mul(512))
}

/// Reads all windows of an image. A raw disk has no tables; then the holes of its file are counted, if they
/// are known.
pub(super) fn count(
    source: &dyn Source,
    format: Format,
    bytes: Arc<Meter>,
    limits: Limits,
) -> Result<Option<Usage>> {
    if matches!(format, Format::Raw | Format::Iso) {
        let Some(ranges) = source.data_map() else { return Ok(None) };
        let size = source.facts().size.unwrap_or(0);
        let data: u64 = ranges.map(|r| r.end.saturating_sub(r.start)).sum();
        let zero = size.saturating_sub(data);
        return Ok(Some(Usage { how: "holes", data, zero, ..Usage::default() }));
    }
    // Larger windows than for an inspection: all tables are read, so fewer reads are better.
    let image = disk_format::open(format, bytes, limits)?;
    let mut usage = Usage { how: "tables", ..Usage::default() };
    let mut from = Some(0).filter(|_| image.virtual_size() > 0);
    while let Some(guest) = from {
        let window = image.window(guest)?;
        for extent in &window.extents {
            match extent.data {
                Data::Zero => usage.zero += extent.len,
                Data::Raw { .. } => usage.data += extent.len,
                Data::Packed { size, .. } => {
                    usage.compressed += extent.len;
                    usage.compressed_into += u64::from(size);
                }
            }
        }
        from = window.next.filter(|&next| next > guest);
    }
    Ok(Some(usage))
}
