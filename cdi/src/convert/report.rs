//! The report of a finished conversion; its JSON is documented in `docs/reference/convert-json.md`.

use crate::size::human;
use container_disk::registry::TransferCounts;
use serde::Serialize;

/// The report of a conversion.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Version of this JSON: `coracle.convert/v1`.
    pub schema: &'static str,
    /// The source, without credentials.
    pub source: String,
    pub target: String,
    /// Layers that were undone, outermost first.
    pub layers: Vec<&'static str>,
    pub source_format: &'static str,
    pub target_format: &'static str,
    /// The size the guest sees.
    pub virtual_size: u64,
    /// Zeros that were added behind a disk whose last sector is not full, as QEMU reads it.
    pub bytes_padded: u64,
    /// Bytes taken from the source.
    pub bytes_read: u64,
    /// Bytes given to the target.
    pub bytes_written: u64,
    /// Bytes the target takes on its disk, if it is on one.
    pub bytes_allocated: Option<u64>,
    /// The flow of the bytes.
    pub flow: &'static str,
    /// The most bytes the spool held.
    pub spool_peak: u64,
    /// The progress of an earlier run, in the unit of the flow; absent if the conversion was begun anew.
    pub resumed_at: Option<u64>,
    /// The source's digest, if one was expected and matched.
    pub checksum: Option<String>,
    /// True if the source stated neither the disk's length nor its end: a disk that was cut short looks the
    /// same. Absent otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub length_unknown: bool,
    /// True if the target was read back and found equal.
    pub verified: bool,
    /// Totals of all transfers with registries, if the source is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registries: Option<TransferCounts>,
    /// Duration of the conversion in seconds.
    pub seconds: f64,
}

impl Report {
    /// The report in one sentence.
    pub fn sentence(&self) -> String {
        let rate = (self.virtual_size as f64 / self.seconds.max(0.001)) as u64;
        let mut text = format!(
            "{}: {} disk, {} read, {} written in {:.1} s ({}/s of disk)",
            self.target,
            human(self.virtual_size),
            human(self.bytes_read),
            human(self.bytes_written),
            self.seconds,
            human(rate),
        );
        if self.spool_peak > 0 {
            text.push_str(&format!(", {} spooled", human(self.spool_peak)));
        }
        text.push_str(&self.padding());
        if self.verified {
            text.push_str(", read back and equal");
        }
        match self.registries.map_or(0, |registries| registries.switches) {
            0 => {}
            1 => text.push_str(", another registry carried on once"),
            n => text.push_str(&format!(", another registry carried on {n} times")),
        }
        text
    }

    /// The bytes added to the disk, as the end of a sentence.
    pub(crate) fn padding(&self) -> String {
        match self.bytes_padded {
            0 => String::new(),
            1 => ", 1 zero byte added to the last sector".to_owned(),
            n => format!(", {n} zero bytes added to the last sector"),
        }
    }
}
