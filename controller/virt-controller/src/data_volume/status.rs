//! Progress and conditions in the status of a DataVolume.

use api::data_volume::{Condition, ConditionType, Status};
use api::job::{Report, Stage};
use cluster_model::conditions::{set, stamp};
use jiff::Timestamp;

/// Progress that is not known.
pub(super) const UNKNOWN: &str = "N/A";

/// Sets a condition. One that is the same already keeps its times.
pub(super) fn set_condition(
    status: &mut Status,
    kind: ConditionType,
    is: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    set(&mut status.conditions, kind, (is, &clean_reason(reason), &clean_message(message)), &stamp(now));
}

/// Says of a worker that has not answered `since` then what it reported last. The times of a condition that `before` has in the same
/// form are kept, since what the worker did meanwhile was never written.
pub(super) fn say_silent(status: &mut Status, before: &Status, since: Timestamp, now: Timestamp) {
    let is_transfer = |said: &&Condition| said.r#type == ConditionType::Transferring;
    let last = status.conditions.iter().find(is_transfer).and_then(|said| said.message.clone());
    let message = format!(
        "the worker has not answered since {}; its last report: {}",
        stamp(since),
        last.unwrap_or_default()
    );
    set_condition(status, ConditionType::Transferring, "Unknown", "Silent", &message, now);
    let old = before.conditions.iter().find(is_transfer);
    let new = status.conditions.iter_mut().find(|said| is_transfer(&&**said));
    if let (Some(old), Some(new)) = (old, new)
        && (&old.status, &old.reason, &old.message) == (&new.status, &new.reason, &new.message)
    {
        new.clone_from(old);
    }
}

/// A reason as a condition has it. It may be the text of a worker in the tenant's namespace.
fn clean_reason(text: &str) -> String {
    const LONGEST: usize = 128;
    text.chars().filter(|c| c.is_ascii_alphanumeric() || " -_.".contains(*c)).take(LONGEST).collect()
}

/// A message as a condition has it: of a bounded length, and without control characters.
pub(super) fn clean_message(text: &str) -> String {
    const LONGEST: usize = 1024;
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let cut: String = text.chars().map(plain).take(LONGEST).collect();
    if cut.chars().count() < text.chars().count() { format!("{cut}…") } else { cut }
}

/// The progress of a transfer in percent.
pub(super) fn progress(report: &Report) -> String {
    match report.total {
        Some(total) if total > 0 => {
            let part = u128::from(report.done.min(total)) * 10_000 / u128::from(total);
            format!("{}.{:02}%", part / 100, part % 100)
        }
        _ => UNKNOWN.to_owned(),
    }
}

/// State of a transfer as a reason and a message: amount, rate and time left, or the cause of a wait.
pub(super) fn transfer(report: &Report) -> (&'static str, String) {
    let word = match report.stage {
        Stage::Preparing => "Preparing",
        Stage::Moving => "Moving",
        Stage::Waiting => "Waiting",
        Stage::Finishing | Stage::Done => "Finishing",
        Stage::Failed => "Failed",
    };
    let mut said = match report.total {
        Some(total) => format!("{} of {}", bytes(report.done), bytes(total)),
        None => bytes(report.done),
    };
    if report.resumed > 0 {
        said.push_str(&format!(", {} of an earlier run", bytes(report.resumed)));
    }
    match report.stage {
        Stage::Moving => {
            said.push_str(&format!(", {} a second", bytes(report.rate)));
            if let Some(seconds) = report.seconds_left {
                said.push_str(&format!(", {} left", time(seconds)));
            }
        }
        Stage::Waiting => {
            said.push_str(&format!(", {}", report.message));
            if let Some(retry) = &report.retry_at {
                said.push_str(&format!("; tries again at {retry}"));
            }
        }
        _ if !report.message.is_empty() => said.push_str(&format!(", {}", report.message)),
        _ => {}
    }
    (word, said)
}

fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    // Rounded to the nearest tenth, as `cdi::size::Human` is.
    let tenths_of = |unit: usize| (u128::from(count) * 10 + ((1 << (10 * unit)) >> 1)) >> (10 * unit);
    let unit = (0..UNITS.len() - 1).find(|&unit| tenths_of(unit) < 10_240).unwrap_or(UNITS.len() - 1);
    let tenths = tenths_of(unit);
    let name = UNITS.get(unit).unwrap_or(&"bytes");
    if unit == 0 { format!("{count} {name}") } else { format!("{}.{} {name}", tenths / 10, tenths % 10) }
}

fn time(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_says_is_bounded_and_plain() {
        let mut status = Status::default();
        let (reason, message) = ("A\u{1b}[2J;".repeat(100), "\u{1b}[2J".repeat(10_000));
        set_condition(&mut status, ConditionType::Running, "False", &reason, &message, Timestamp::UNIX_EPOCH);
        let said = &status.conditions[0];
        let (reason, message) = (said.reason.as_deref().unwrap(), said.message.as_deref().unwrap());
        assert!(reason.len() <= 128 && message.len() <= 1100, "{} {}", reason.len(), message.len());
        assert!(!message.contains('\u{1b}') && !reason.contains('\u{1b}'));
    }

    #[test]
    fn a_transfer_says_how_much_how_fast_and_how_long() {
        let mut report = Report {
            stage: Stage::Moving,
            done: 812 << 20,
            total: Some(4 << 30),
            rate: 95 << 20,
            seconds_left: Some(34),
            ..Report::default()
        };
        assert_eq!(progress(&report), "19.82%");
        assert_eq!(
            transfer(&report),
            ("Moving", "812.0 MiB of 4.0 GiB, 95.0 MiB a second, 34 s left".to_owned())
        );
        report.stage = Stage::Waiting;
        report.message = "the server is away".into();
        report.retry_at = Some("2026-01-01T00:00:00Z".into());
        assert_eq!(
            transfer(&report).1,
            "812.0 MiB of 4.0 GiB, the server is away; tries again at 2026-01-01T00:00:00Z"
        );
        report.total = None;
        assert_eq!(progress(&report), UNKNOWN);
        assert_eq!(progress(&Report { done: 5, total: Some(4), ..Report::default() }), "100.00%");
    }

    #[test]
    fn numbers_are_said_in_the_unit_that_people_would_take() {
        for (count, expected) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            ((1 << 20) - 100, "1023.9 KiB"),
            (51_254_000, "48.9 MiB"),
            (1 << 20, "1.0 MiB"),
            (1 << 40, "1.0 TiB"),
            (1 << 60, "1048576.0 TiB"),
        ] {
            assert_eq!(bytes(count), expected);
        }
        for (seconds, expected) in [
            (59, "59 s"),
            (60, "1 min"),
            (61, "2 min"),
            (3599, "60 min"),
            (3600, "1 h 0 min"),
            (7380, "2 h 3 min"),
        ] {
            assert_eq!(time(seconds), expected);
        }
        for (done, total, expected) in
            [(1, Some(3), "33.33%"), (5, Some(100), "5.00%"), (3, Some(3), "100.00%"), (0, Some(0), UNKNOWN)]
        {
            assert_eq!(progress(&Report { done, total, ..Report::default() }), expected);
        }
    }

    #[test]
    fn each_stage_of_a_transfer_has_a_word_and_says_what_is_known() {
        let message = "m".to_owned();
        let with = |stage| Report { stage, done: 1, message: message.clone(), ..Report::default() };
        for (report, word, said) in [
            (with(Stage::Preparing), "Preparing", "1 bytes, m"),
            (with(Stage::Moving), "Moving", "1 bytes, 0 bytes a second"),
            (with(Stage::Waiting), "Waiting", "1 bytes, m"),
            (with(Stage::Finishing), "Finishing", "1 bytes, m"),
            (with(Stage::Done), "Finishing", "1 bytes, m"),
            (with(Stage::Failed), "Failed", "1 bytes, m"),
            (Report { message: String::new(), ..with(Stage::Done) }, "Finishing", "1 bytes"),
            (
                Report { resumed: 2, ..with(Stage::Done) },
                "Finishing",
                "1 bytes, 2 bytes of an earlier run, m",
            ),
        ] {
            assert_eq!(transfer(&report), (word, said.to_owned()));
        }
    }

    #[test]
    fn a_text_that_is_cut_says_so() {
        assert_eq!(clean_message(&"x".repeat(1024)), "x".repeat(1024));
        assert_eq!(clean_message(&"x".repeat(1025)), format!("{}…", "x".repeat(1024)));
        assert_eq!(clean_reason("Pod is-running_1.0, é"), "Pod is-running_1.0 ");
    }

    /// The condition of a worker that has been silent for hours began hours ago.
    #[test]
    fn a_silence_keeps_its_time_while_it_is_the_same() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let transfers = |message: &str| {
            let mut status = Status::default();
            set_condition(&mut status, ConditionType::Running, "True", "Running", "other", at(10));
            set_condition(&mut status, ConditionType::Transferring, "True", "Moving", message, at(10));
            status
        };
        let mut silent = transfers("1 bytes");
        say_silent(&mut silent, &Status::default(), at(20), at(30));
        let said = silent.conditions[1].clone();
        assert_eq!((said.status.as_str(), said.reason.as_deref()), ("Unknown", Some("Silent")));
        let message = "the worker has not answered since 1970-01-01T00:00:20Z; its last report: 1 bytes";
        assert_eq!(said.message.as_deref(), Some(message));
        for (last, since, is_kept) in [("1 bytes", 20, true), ("2 bytes", 20, false), ("1 bytes", 21, false)]
        {
            let mut later = transfers(last);
            say_silent(&mut later, &silent, at(since), at(90));
            assert_eq!(later.conditions[1] == said, is_kept, "{last} {since}");
        }
    }
}
