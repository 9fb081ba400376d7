//! The state of an export in the annotations of the PVC, which are its only record.

use api::cdi::annotations::{
    EXPORT_ANSWERS, EXPORT_DIGEST, EXPORT_MESSAGE, EXPORT_PHASE, EXPORT_PROGRESS, EXPORT_REASON,
    EXPORT_REQUEST, EXPORT_RESTARTS, EXPORT_SINCE,
};
use api::job::Report;
use std::collections::BTreeMap;

/// The longest sentence and the longest word that are noted.
const LONGEST: (usize, usize) = (1000, 63);

/// The phase of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    /// The export waits, and its message says for what.
    #[default]
    Pending,
    /// The export pod works.
    Running,
    /// The image is whole.
    Succeeded,
    /// No other pod could mend it.
    Failed,
}

const WORDS: [(Phase, &str); 4] = [
    (Phase::Pending, "Pending"),
    (Phase::Running, "Running"),
    (Phase::Succeeded, "Succeeded"),
    (Phase::Failed, "Failed"),
];

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// The sum of the request.
    pub(super) request: String,
    pub(super) phase: Phase,
    /// Percentage; empty if it is unknown.
    pub(super) progress: String,
    pub(super) reason: String,
    pub(super) message: String,
    /// Empty before the image is whole.
    pub(super) digest: String,
    /// Pods that broke off.
    pub(super) restarts: i64,
    /// Since when phase and reason are so.
    pub(super) since: String,
}

impl Answer {
    /// The answer to a new request.
    pub(super) fn for_request(request: String) -> Answer {
        Answer { request, ..Answer::default() }
    }

    /// Reads the answer from annotations.
    pub(super) fn from_annotations(annotations: &BTreeMap<String, String>) -> Option<Answer> {
        let text = |name: &str| annotations.get(name).cloned().unwrap_or_default();
        let phase = text(EXPORT_PHASE);
        let (phase, _) = WORDS.into_iter().find(|(_, word)| *word == phase)?;
        Some(Answer {
            request: text(EXPORT_REQUEST),
            phase,
            progress: text(EXPORT_PROGRESS),
            reason: text(EXPORT_REASON),
            message: text(EXPORT_MESSAGE),
            digest: text(EXPORT_DIGEST),
            restarts: text(EXPORT_RESTARTS).parse().unwrap_or(0).max(0),
            since: text(EXPORT_SINCE),
        })
    }

    /// The same annotations with this answer in them.
    pub(super) fn to_annotations(&self, annotations: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let mut all = annotations.clone();
        all.retain(|name, _| !EXPORT_ANSWERS.contains(&name.as_str()));
        let word = WORDS.iter().find(|(phase, _)| *phase == self.phase).map_or("", |(_, word)| word);
        let restarts = if self.restarts > 0 { self.restarts.to_string() } else { String::new() };
        for (name, value) in [
            (EXPORT_REQUEST, self.request.as_str()),
            (EXPORT_PHASE, word),
            (EXPORT_PROGRESS, &self.progress),
            (EXPORT_REASON, &self.reason),
            (EXPORT_MESSAGE, &self.message),
            (EXPORT_DIGEST, &self.digest),
            (EXPORT_RESTARTS, &restarts),
            (EXPORT_SINCE, &self.since),
        ] {
            if !value.is_empty() {
                all.insert(name.to_owned(), value.to_owned());
            }
        }
        all
    }

    /// Sets phase, reason and message.
    pub(super) fn set_phase(&mut self, phase: Phase, reason: &str, message: &str) {
        self.phase = phase;
        self.reason = strip_control(reason, LONGEST.1);
        self.message = bounded(message);
    }
}

/// Message of a worker, a kubelet or a scheduler, cut to the bound.
pub(super) fn bounded(message: &str) -> String {
    strip_control(message, LONGEST.0)
}

fn strip_control(text: &str, most: usize) -> String {
    text.chars().filter(|c| !c.is_control()).take(most).collect()
}

/// Progress of a worker in whole percents, so that a PVC is written a hundred times at most.
pub(super) fn percent(report: &Report) -> String {
    let Some(total) = report.total.filter(|&total| total > 0) else { return String::new() };
    let percent = u128::from(report.done) * 100 / u128::from(total);
    format!("{}%", percent.min(99))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The next decision reads from the PVC what this one wrote: an answer that is lost is another export.
    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let others = BTreeMap::from([("mine".to_owned(), "a".to_owned())]);
        let text = str::to_owned;
        for (phase, word) in WORDS {
            for restarts in [0, 2] {
                let answer = Answer {
                    request: text("1"),
                    phase,
                    progress: text("2%"),
                    reason: text("Reason"),
                    message: text("m"),
                    digest: text("sha256:0a"),
                    restarts,
                    since: text("2027-01-01T00:00:00Z"),
                };
                let written = answer.to_annotations(&others);
                assert_eq!(written.get(EXPORT_PHASE).map(String::as_str), Some(word));
                assert_eq!(written.get("mine").map(String::as_str), Some("a"));
                assert_eq!(written.contains_key(EXPORT_RESTARTS), restarts > 0);
                assert_eq!(Answer::from_annotations(&written), Some(answer));
                let empty = Answer { request: text("1"), phase, ..Answer::default() };
                assert_eq!(empty.to_annotations(&written).len(), 3, "what was answered before goes");
            }
        }
        for (phase, restarts, expected) in
            [("Running", "-3", Some(0)), ("Running", "x", Some(0)), ("", "2", None)]
        {
            let said = [(EXPORT_PHASE, phase), (EXPORT_RESTARTS, restarts)];
            let said = said.into_iter().map(|(name, value)| (text(name), text(value))).collect();
            assert_eq!(
                Answer::from_annotations(&said).map(|answer| answer.restarts),
                expected,
                "{phase} {restarts}"
            );
        }
    }

    #[test]
    fn an_export_that_works_is_never_said_to_be_done() {
        for (done, total, expected) in [
            (0, None, ""),
            (5, Some(0), ""),
            (0, Some(3), "0%"),
            (1, Some(3), "33%"),
            (3, Some(3), "99%"),
            (9, Some(3), "99%"),
            (u64::MAX, Some(u64::MAX), "99%"),
        ] {
            assert_eq!(percent(&Report { done, total, ..Report::default() }), expected, "{done} {total:?}");
        }
        let mut answer = Answer::default();
        answer.set_phase(Phase::Failed, &"R".repeat(64), &"m\n".repeat(1001));
        assert_eq!((answer.reason.len(), answer.message.as_str()), (63, "m".repeat(1000).as_str()));
    }
}
