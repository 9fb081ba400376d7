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
    /// Bytes that an earlier run had written, and that this one did not write again; absent if the conversion was
    /// begun anew.
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
        let mut text = format!(
            "{}: {} disk, {} read, {} written in {:.1} s",
            self.target,
            human(self.virtual_size),
            human(self.bytes_read),
            human(self.bytes_written),
            self.seconds,
        );
        if let Some(rate) = self.rate() {
            text.push_str(&format!(" ({}/s)", human(rate)));
        }
        if let Some(at) = self.resumed_at {
            text.push_str(&format!(", resumed at {}", human(at)));
        }
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

    /// Bytes a second that this run has moved; `None` if it took no whole second, since then mostly the start
    /// was measured. Holes of the disk do not count.
    fn rate(&self) -> Option<u64> {
        let moved = self.bytes_read.max(self.bytes_written);
        (self.seconds >= 1.0 && moved > 0).then(|| (moved as f64 / self.seconds) as u64)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            schema: "coracle.convert/v1",
            source: "a".to_owned(),
            target: "disk.img".to_owned(),
            layers: vec![],
            source_format: "qcow2",
            target_format: "raw",
            virtual_size: 60 << 40,
            bytes_padded: 0,
            bytes_read: 3 << 20,
            bytes_written: 8 << 20,
            bytes_allocated: None,
            flow: "tables",
            spool_peak: 0,
            resumed_at: None,
            checksum: None,
            length_unknown: false,
            verified: false,
            registries: None,
            seconds: 0.9,
        }
    }

    #[test]
    fn a_rate_is_of_the_moved_bytes_over_some_time() {
        let said = "disk.img: 60 TiB disk, 3 MiB read, 8 MiB written in";
        assert_eq!(report().sentence(), format!("{said} 0.9 s"));
        let slower = Report { seconds: 2.0, ..report() };
        assert_eq!(slower.sentence(), format!("{said} 2.0 s (4 MiB/s)"));
    }

    #[test]
    fn a_resumed_run_says_where_it_began() {
        let resumed = Report { resumed_at: Some((1 << 30) + (1 << 28)), ..report() };
        let said = resumed.sentence();
        assert!(said.ends_with("written in 0.9 s, resumed at 1.3 GiB"), "{said}");
    }
}
