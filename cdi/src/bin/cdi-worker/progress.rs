//! Progress of the job: the lines of attempts, collected in the report that is served.

use crate::fault::INTERRUPTED;
use crate::protocol::{Disk, Fault};
use api::job::{Report, Stage};
use cdi::size::human;
use jiff::Timestamp;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time over which the rate is measured.
const WINDOW: Duration = Duration::from_secs(10);
/// The shortest time between two measurements of sent bytes.
const MOMENT: Duration = Duration::from_millis(250);

/// The state of the job. It reads no clock: the caller passes times.
#[derive(Debug)]
pub(crate) struct Progress {
    report: Report,
    /// Done bytes of the present attempt, with their times.
    seen: VecDeque<(Instant, u64)>,
    /// The furthest progress of the attempts before this one.
    furthest: u64,
    /// Attempts in a row without further progress.
    in_a_row: u32,
    messages: Messages,
    preallocates: bool,
    /// True if an attempt always begins at the first byte, so that progress of an earlier one does not count.
    begins_anew: bool,
    /// True for an upload whose connection broke and that may be resumed; its message stays.
    is_held: bool,
    is_stopped: bool,
    is_clone: bool,
}

/// The texts for the kind of work.
#[derive(Debug)]
struct Messages {
    /// The part of the metrics' names.
    work: &'static str,
    looks: String,
    moves: String,
    finishes: &'static str,
    done: &'static str,
    stops: &'static str,
    late: &'static str,
}

/// The message of the last step of a disk.
const FINISHES: &str = "makes the disk durable";

impl Progress {
    /// The state before the first attempt. `source`: its name, without secrets.
    pub(crate) fn new(source: &str, preallocates: bool) -> Progress {
        let messages = Messages {
            work: "import",
            looks: format!("looks at {source}"),
            moves: format!("imports {source}"),
            finishes: FINISHES,
            done: "Import Complete",
            stops: "asked to end; the next pod of this volume goes on from the journal, where there is one",
            late: "the deadline passed; the next pod of this volume goes on from the journal, where there is one",
        };
        Progress::with(messages, preallocates)
    }

    /// Marks the job as a clone, or not.
    pub(crate) fn of_clone(self, is_clone: bool) -> Progress {
        Progress { is_clone, ..self }
    }

    /// True for a clone.
    pub(crate) fn is_clone(&self) -> bool {
        self.is_clone
    }

    /// The kind of work, for the names of metrics.
    pub(crate) fn work(&self) -> &'static str {
        self.messages.work
    }

    /// The state before the first upload.
    pub(crate) fn of_uploads(preallocates: bool) -> Progress {
        let messages = Messages {
            work: "import",
            looks: "waits for an upload".to_owned(),
            moves: "receives the upload".to_owned(),
            finishes: FINISHES,
            done: "Upload Complete",
            stops: "asked to end; the next pod of this volume takes an upload from its first byte on",
            late: "the deadline passed and no upload was in flight; another pod with new certificates takes its place",
        };
        Progress::with(messages, preallocates)
    }

    /// The state before the client of a clone connects. Done bytes are the sent ones, and their total is not
    /// known.
    pub(crate) fn of_clones() -> Progress {
        let messages = Messages {
            work: "import",
            looks: "waits for the importer of the clone".to_owned(),
            moves: "serves the disk".to_owned(),
            finishes: FINISHES,
            done: "Clone Complete",
            stops: "asked to end; the importer goes on with the next pod of this disk",
            late: "the deadline passed; the importer goes on with another pod, which has new certificates",
        };
        Progress::with(messages, false)
    }

    /// The state before the first attempt at an export to this image.
    pub(crate) fn of_export(target: &str) -> Progress {
        let messages = Messages {
            work: "export",
            looks: "looks at the disk and the registry".to_owned(),
            moves: format!("exports to {target}"),
            finishes: "asks the registry to keep the image",
            done: "Export Complete",
            stops: "asked to end; the next pod sends no blob that the registry has",
            late: "the deadline passed; the next pod sends no blob that the registry has",
        };
        Progress { begins_anew: true, ..Progress::with(messages, false) }
    }

    fn with(messages: Messages, preallocates: bool) -> Progress {
        let message = messages.looks.clone();
        Progress {
            report: Report { message, ..Report::default() },
            seen: VecDeque::new(),
            furthest: 0,
            in_a_row: 0,
            messages,
            preallocates,
            begins_anew: false,
            is_held: false,
            is_stopped: false,
            is_clone: false,
        }
    }

    pub(crate) fn report(&self) -> &Report {
        &self.report
    }

    /// Resets the report for a new attempt. Its bytes, failures and resumed bytes are kept.
    pub(crate) fn begins(&mut self) {
        self.seen.clear();
        let Report { resumed, failures, done, total, .. } = self.report;
        let message = self.messages.looks.clone();
        self.report = Report { message, resumed, failures, done, total, ..Report::default() };
    }

    /// Begins an upload, independent of those before it. `total`: its size in bytes, if known.
    pub(crate) fn receives(&mut self, total: Option<u64>) {
        self.seen.clear();
        self.is_held = false;
        let (message, failures) = (self.messages.moves.clone(), self.report.failures);
        self.report = Report { stage: Stage::Moving, message, failures, total, ..Report::default() };
    }

    /// Records that the connection of an upload broke; another one may resume it.
    pub(crate) fn hold_connection(&mut self, message: String) {
        self.is_held = true;
        self.set_stage(
            Stage::Waiting,
            &Fault { reason: INTERRUPTED.to_owned(), message, may_retry: true, ..Fault::default() },
        );
    }

    /// Resumes the upload on another connection.
    pub(crate) fn resume_upload(&mut self) {
        self.seen.clear();
        self.is_held = false;
        self.report.stage = Stage::Moving;
        (self.report.reason, self.report.message) = (String::new(), self.messages.moves.clone());
    }

    /// Records that an upload failed; another one may be sent.
    pub(crate) fn record_failed_upload(&mut self, fault: &Fault) {
        self.is_held = false;
        self.report.failures = self.report.failures.saturating_add(1);
        self.set_stage(Stage::Waiting, fault);
    }

    /// Records that the deadline of the pod has passed.
    pub(crate) fn record_passed_deadline(&mut self) {
        let message = self.messages.late.to_owned();
        let fault =
            Fault { reason: "DeadlinePassed".to_owned(), message, may_retry: true, ..Fault::default() };
        self.set_stage(Stage::Waiting, &fault);
        self.report.deadline_passed = true;
    }

    /// Records that the source is open.
    pub(crate) fn planned(&mut self) {
        self.report.stage = Stage::Moving;
        self.report.message.clone_from(&self.messages.moves);
    }

    /// Records the done bytes, and their total (0: not known).
    pub(crate) fn moved(&mut self, done: u64, total: u64, is_finishing: bool, now: Instant) {
        if self.is_held {
            self.report.done = done;
            return;
        }
        if is_finishing {
            // The last phase counts no bytes: the number of done bytes stays.
            self.report.stage = Stage::Finishing;
            self.report.message = self.messages.finishes.to_owned();
            (self.report.rate, self.report.seconds_left) = (0, None);
            return;
        }
        self.report.stage = Stage::Moving;
        self.report.done = done;
        self.report.total = Some(total).filter(|&total| total > 0);
        if self.seen.back().is_some_and(|(_, before)| *before > done) {
            // Another phase counts anew.
            self.seen.clear();
        }
        self.seen.push_back((now, done));
        while self.seen.len() > 2
            && self.seen.front().is_some_and(|(then, _)| now.duration_since(*then) > WINDOW)
        {
            self.seen.pop_front();
        }
        self.report.rate = self.rate();
        let left = self.report.total.map(|total| total.saturating_sub(done));
        self.report.seconds_left = left.and_then(|left| left.checked_div(self.report.rate));
    }

    /// Adds bytes of the disk that were sent to a client.
    pub(crate) fn sent(&mut self, bytes: u64, now: Instant) {
        if self.report.stage != Stage::Moving {
            self.planned();
        }
        self.report.done = self.report.done.saturating_add(bytes);
        // Only one of many pieces in a moment counts for the rate.
        if self.seen.back().is_none_or(|(then, _)| now.duration_since(*then) >= MOMENT) {
            self.moved(self.report.done, 0, false, now);
        }
    }

    fn rate(&self) -> u64 {
        let (Some((then, before)), Some((now, done))) = (self.seen.front(), self.seen.back()) else {
            return 0;
        };
        let millis = u64::try_from(now.duration_since(*then).as_millis()).unwrap_or(u64::MAX);
        done.saturating_sub(*before).saturating_mul(1000).checked_div(millis).unwrap_or(0)
    }

    /// Records that the attempt failed, and that there will be another. Returns the number of failures in a
    /// row, for the pause.
    pub(crate) fn failed(&mut self) -> u32 {
        self.report.failures = self.report.failures.saturating_add(1);
        let is_further = self.report.done > self.furthest && !self.begins_anew;
        self.furthest = self.furthest.max(self.report.done);
        self.in_a_row = if is_further { 1 } else { self.in_a_row.saturating_add(1) };
        self.in_a_row
    }

    /// Waits for the next attempt.
    pub(crate) fn wait_until(&mut self, fault: &Fault, until: Timestamp) {
        self.set_stage(Stage::Waiting, fault);
        self.report.retry_at = Some(until.to_string());
    }

    /// Ends the job without a disk.
    pub(crate) fn fails(&mut self, fault: &Fault) {
        self.set_stage(Stage::Failed, fault);
    }

    /// Records that the process was asked to end. A complete disk stays complete; after this none becomes
    /// complete.
    pub(crate) fn stops(&mut self) {
        if self.report.stage == Stage::Done {
            return;
        }
        self.is_stopped = true;
        let message = self.messages.stops.to_owned();
        let fault = Fault { reason: INTERRUPTED.to_owned(), message, may_retry: true, ..Fault::default() };
        self.set_stage(Stage::Waiting, &fault);
    }

    fn set_stage(&mut self, stage: Stage, fault: &Fault) {
        self.report.stage = stage;
        self.report.reason.clone_from(&fault.reason);
        self.report.message.clone_from(&fault.message);
        self.report.required = fault.required;
        (self.report.rate, self.report.seconds_left, self.report.retry_at) = (0, None, None);
    }

    /// Records the complete disk. `false`: the process was asked to end before, and the report is final.
    pub(crate) fn done(&mut self, disk: Disk) -> bool {
        if self.is_stopped {
            return false;
        }
        let Disk { size, resumed, labels, digest, length_unknown } = disk;
        let failures = self.report.failures;
        self.report = Report {
            stage: Stage::Done,
            message: self.messages.done.to_owned(),
            done: size,
            total: Some(size),
            resumed,
            length_unknown,
            failures,
            preallocation_applied: self.preallocates,
            digest,
            labels,
            ..Report::default()
        };
        true
    }

    /// A sentence for the log.
    pub(crate) fn sentence(&self) -> String {
        let Report { done, total, rate, seconds_left, .. } = self.report;
        match (total, seconds_left) {
            (Some(total), Some(left)) => format!(
                "{:.1} % ({} of {}), {}/s, {left} s left",
                self.percent(),
                human(done),
                human(total),
                human(rate)
            ),
            (Some(total), None) => format!("{:.1} % ({} of {})", self.percent(), human(done), human(total)),
            (None, _) => format!("{} done, {}/s", human(done), human(rate)),
        }
    }

    /// The progress in percent, with two places.
    pub(crate) fn percent(&self) -> f64 {
        match (self.report.stage, self.report.total) {
            (Stage::Done, _) => 100.0,
            (_, Some(total)) => {
                let hundredths = u128::from(self.report.done) * 10_000 / u128::from(total.max(1));
                // At most 10 000.
                hundredths.min(10_000) as f64 / 100.0
            }
            (_, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault() -> Fault {
        Fault {
            reason: "Failed".into(),
            message: "the server went away".into(),
            may_retry: true,
            ..Fault::default()
        }
    }

    #[test]
    fn the_rate_is_of_the_last_seconds_and_the_time_left_follows_from_it() {
        let (begin, mut progress) = (Instant::now(), Progress::new("http://h/x", false));
        let at = |ms: u64| begin + Duration::from_millis(ms);
        progress.begins();
        progress.planned();
        progress.moved(0, 1000, false, at(0));
        assert_eq!(
            (progress.report.rate, progress.report.seconds_left),
            (0, None),
            "of one look nothing follows"
        );
        for second in 1..=20_u64 {
            // Twice as quick from the tenth second on.
            let done = if second <= 10 { second } else { 10 + 2 * (second - 10) } * 10;
            progress.moved(done, 1000, false, at(second * 1000));
        }
        assert_eq!((progress.report.done, progress.report.rate), (300, 20));
        assert_eq!((progress.report.seconds_left, progress.percent()), (Some(35), 30.0));
        progress.moved(0, 0, true, at(21_000));
        assert_eq!(
            (progress.report.stage, progress.report.done, progress.report.rate),
            (Stage::Finishing, 300, 0)
        );
        progress.done(Disk { size: 1000, resumed: 7, ..Disk::default() });
        assert_eq!((progress.percent(), progress.report.message.as_str()), (100.0, "Import Complete"));
        assert_eq!((progress.report.resumed, progress.report.stage), (7, Stage::Done));
    }

    #[test]
    fn pauses_are_short_again_for_who_came_further_and_grow_for_who_moves_the_same_bytes_again() {
        let mut progress = Progress::new("http://h/x", false);
        let mut attempt = |reached: &[u64]| {
            progress.begins();
            reached.iter().for_each(|&done| progress.moved(done, 1000, false, Instant::now()));
            progress.failed()
        };
        assert_eq!([attempt(&[]), attempt(&[]), attempt(&[])], [1, 2, 3], "no connection");
        assert_eq!(attempt(&[10]), 1, "bytes moved");
        assert_eq!([attempt(&[10]), attempt(&[3, 9]), attempt(&[])], [2, 3, 4], "no further than before");
        assert_eq!(attempt(&[11]), 1);
    }

    #[test]
    fn an_export_that_fails_again_and_again_waits_longer_and_longer() {
        let mut progress = Progress::of_export("docker://h/os:1");
        let pauses: Vec<u32> = (1..4)
            .map(|done| {
                progress.begins();
                progress.moved(done * 10, 1000, false, Instant::now());
                progress.failed()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 3]);
        progress.done(Disk { size: 5, digest: "sha256:00".into(), ..Disk::default() });
        assert_eq!(
            (progress.report.digest.as_str(), progress.report.message.as_str()),
            ("sha256:00", "Export Complete")
        );
    }

    #[test]
    fn an_upload_has_nothing_of_the_one_before_and_says_what_it_waits_for() {
        let mut progress = Progress::of_uploads(false);
        assert_eq!(progress.report.message, "waits for an upload");
        progress.receives(Some(10));
        progress.moved(4, 10, false, Instant::now());
        progress.hold_connection("the connection broke".into());
        progress.moved(5, 10, false, Instant::now());
        let report = progress.report.clone();
        assert_eq!(
            (report.stage, report.done, report.message.as_str()),
            (Stage::Waiting, 5, "the connection broke")
        );
        assert_eq!(report.failures, 0, "it may still go on");
        progress.resume_upload();
        progress.moved(6, 10, false, Instant::now());
        assert_eq!((progress.report.stage, progress.report.reason.as_str()), (Stage::Moving, ""));
        progress.record_failed_upload(&fault());
        assert_eq!((progress.report.stage, progress.report.failures), (Stage::Waiting, 1));
        progress.receives(None);
        assert_eq!((progress.report.done, progress.report.total, progress.report.failures), (0, None, 1));
        progress.done(Disk { size: 10, ..Disk::default() });
        assert_eq!((progress.report.message.as_str(), progress.report.failures), ("Upload Complete", 1));
    }

    #[test]
    fn who_waits_says_why_and_until_when() {
        let mut progress = Progress::new("http://h/x", true);
        progress.begins();
        progress.moved(5, 10, false, Instant::now());
        progress.failed();
        progress.wait_until(&fault(), Timestamp::from_second(0).unwrap());
        let report = progress.report().clone();
        assert_eq!((report.stage, report.failures, report.done), (Stage::Waiting, 1, 5));
        assert_eq!(report.retry_at.as_deref(), Some("1970-01-01T00:00:00Z"));
        assert_eq!((report.reason.as_str(), report.message.as_str()), ("Failed", "the server went away"));
        progress.begins();
        let report = progress.report();
        assert_eq!(
            (report.stage, &report.reason, &report.retry_at),
            (Stage::Preparing, &String::new(), &None)
        );
        assert_eq!(report.failures, 1);
        progress.done(Disk::default());
        assert!(progress.report().preallocation_applied);
    }
}
