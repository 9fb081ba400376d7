//! Report of a worker pod on its job: at `/v1/report` while it works, and as its termination message at the
//! end.

use crate::termination;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// State of a job. `message`, `preallocationApplied` and `labels` are read by upstream's tools too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    /// Stage that the job is in.
    pub stage: Stage,
    /// CamelCase reason of a wait or a failure; empty otherwise.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Human-readable message: one sentence, without secrets.
    pub message: String,
    /// Bytes of the disk that are written.
    pub done: u64,
    /// Bytes of the disk; unset while the size is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// Bytes of the disk from an earlier run of the job, which were not transferred again.
    pub resumed: u64,
    /// Bytes of the disk per second.
    pub rate: u64,
    /// Seconds until the end at this rate; unset if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
    /// Number of attempts that failed and were followed by another.
    pub failures: u32,
    /// Time of the next attempt (RFC 3339), in stage `Waiting`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<String>,
    /// All blocks of the disk are allocated.
    pub preallocation_applied: bool,
    /// The deadline of an upload server passed while no upload was in flight: another pod with new
    /// certificates is needed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deadline_passed: bool,
    /// Digest of the manifest of the image that an export created; of a poll, the digest that identifies the
    /// version.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// Bytes of the disk, if the volume is too small for it; else unset, or unset if the size is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<u64>,
    /// The source reported neither the length of the disk nor its end. A truncated disk looks the same as a
    /// complete one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub length_unknown: bool,
    /// Labels for the PVC, from the environment of an image's configuration.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// Stage of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Inspection of the source.
    #[default]
    Preparing,
    Moving,
    /// Wait for the next attempt.
    Waiting,
    /// Flush to stable storage, and rename.
    Finishing,
    /// The disk is complete and durable.
    Done,
    /// The job ended without a disk, and another attempt would fail too.
    Failed,
}

impl Report {
    /// The termination message: JSON of at most [`termination::LONGEST`] bytes, with a shortened message if
    /// it is longer.
    pub fn termination(&self) -> String {
        termination::shortened(
            self,
            |report| &mut report.message,
            |report| {
                // The other fields of a report are short.
                let is_long = !report.labels.is_empty() || !report.reason.is_empty();
                report.labels.clear();
                report.reason.clear();
                is_long
            },
        )
    }

    /// Parses a termination message; `None` if it is from another program.
    pub fn of_termination(text: &str) -> Option<Report> {
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_termination_message_fits_what_the_kubelet_keeps() {
        for message in ["ok", &"ä\"\u{1}".repeat(3000)] {
            let labels = BTreeMap::from([("a.kubevirt.io/b".to_owned(), "c".to_owned())]);
            let report =
                Report { stage: Stage::Failed, message: message.to_owned(), labels, ..Report::default() };
            let text = report.termination();
            assert!(text.len() <= termination::LONGEST, "{}", text.len());
            let read = Report::of_termination(&text).expect("it is a report");
            assert_eq!(read.stage, Stage::Failed);
            assert!(message.starts_with(&read.message) && !read.message.is_empty());
        }
        assert_eq!(Report::of_termination("panicked at …"), None);
    }
}
