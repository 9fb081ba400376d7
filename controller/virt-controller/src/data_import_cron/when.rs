//! Poll times of a DataImportCron.
//!
//! ```text
//!  created ─► at once ─┬─ an answer ─► the next time of the schedule; never again without a schedule
//!                      └─ none ──────► after a growing pause, and no earlier than the server asked; then as before
//! ```
//!
//! **Guarantees.** Two polls of one DataImportCron are at least a minute apart, regardless of the schedule
//! and the server. A schedule that cannot be read, or is of another time zone than UTC, has no times:
//! virt-api refuses both.

use super::source::{self, Source};
use api::cdi::{DataImportCron, Schedule};
use cluster_model::polls::PollRecord;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _};

/// Between two polls, at least.
const LEAST: SignedDuration = SignedDuration::from_mins(1);
/// The longest pause after polls without an answer, and the longest that a server may ask for.
const LONGEST: SignedDuration = SignedDuration::from_hours(1);
/// Number of days in which the next time of a schedule is sought. It is more than the longest gap between two times, which is that of the
/// 29th of February on one weekday, across a century year without that day.
const DAYS: usize = 366 * 41;

/// Time of the next poll, which may be in the past; `None` if there is none. `polled` is the result of the
/// last one, if known.
pub(super) fn next_poll(
    cron: &DataImportCron,
    polled: Option<&PollRecord>,
    digest: Option<&str>,
) -> Option<Timestamp> {
    if matches!(source::classify(cron), Source::Refused(..)) {
        return None;
    }
    let status = cron.status.as_ref();
    let written: Option<Timestamp> =
        status.and_then(|status| status.last_execution_timestamp.as_ref()?.parse().ok());
    let Some(last) = written.max(polled.map(|polled| polled.at)) else {
        return Some(Timestamp::UNIX_EPOCH);
    };
    let after = |pause: SignedDuration| last.checked_add(pause).ok();
    let planned = next(&cron.spec.schedule, last);
    let failed = polled.filter(|polled| polled.answer.is_err());
    let again = match (failed, digest) {
        (Some(failed), _) => {
            let asked = failed.pause.unwrap_or_default().min(LONGEST);
            let grown = LEAST.saturating_mul(1 << failed.failures.saturating_sub(1).min(6)).min(LONGEST);
            let tried = after(grown).into_iter().chain(planned).min();
            tried.max(after(asked))
        }
        // The result of the last poll is lost.
        (None, None) => after(LEAST),
        (None, Some(_)) => planned,
    };
    again.max(again.and(after(LEAST)))
}

/// The next time of a schedule after this one.
pub(super) fn next(schedule: &str, after: Timestamp) -> Option<Timestamp> {
    match Schedule::parse(schedule)? {
        Schedule::Every(span) => after.checked_add(SignedDuration::from_nanos(span.nanos())).ok(),
        Schedule::At(times) if !times.are_utc() => None,
        Schedule::At(times) => {
            let now = after.to_zoned(TimeZone::UTC).datetime();
            let mut date = now.date();
            for _ in 0..DAYS {
                let number = |part: i8| u32::try_from(part).unwrap_or_default();
                let weekday = number(date.weekday().to_sunday_zero_offset());
                if times.has_day(number(date.day()), number(date.month()), weekday) {
                    let of_day = (0..24 * 60_u32).filter(|minute| times.has_minute(minute % 60, minute / 60));
                    let at = |minute: u32| -> Option<DateTime> {
                        let (hour, minute) =
                            (i8::try_from(minute / 60).ok()?, i8::try_from(minute % 60).ok()?);
                        Some(date.at(hour, minute, 0, 0))
                    };
                    if let Some(found) = of_day.filter_map(at).find(|time| *time > now) {
                        return found.to_zoned(TimeZone::UTC).ok().map(|found| found.timestamp());
                    }
                }
                date = date.checked_add(1.day()).ok()?;
            }
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::wire;
    use cluster_model::polls::NoAnswer;
    use serde_json::json;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_schedule_has_a_next_time() {
        let now = at("2026-11-25T14:30:20Z"); // a Wednesday
        for (schedule, expected) in [
            ("* * * * *", Some("2026-11-25T14:31:00Z")),
            ("30 14 * * *", Some("2026-11-26T14:30:00Z")),
            ("0 */12 * * *", Some("2026-11-26T00:00:00Z")),
            ("0 0 1 * *", Some("2026-12-01T00:00:00Z")),
            ("15 6 * * sun", Some("2026-11-29T06:15:00Z")),
            ("0 0 29 2 *", Some("2028-02-29T00:00:00Z")),
            ("@yearly", Some("2027-01-01T00:00:00Z")),
            ("@every 90m", Some("2026-11-25T16:00:20Z")),
            ("TZ=UTC 0 15 * * *", Some("2026-11-25T15:00:00Z")),
            ("TZ=Europe/Berlin 0 15 * * *", None),
            ("0 0 30 2 *", None),
            ("", None),
            ("soon", None),
        ] {
            assert_eq!(next(schedule, now), expected.map(at), "{schedule:?}");
        }
    }

    #[test]
    fn the_next_time_is_not_the_one_that_it_is() {
        assert_eq!(next("* * * * *", at("2026-11-25T14:31:00Z")), Some(at("2026-11-25T14:32:00Z")));
    }

    fn cron(schedule: &str, last: Option<&str>) -> DataImportCron {
        let source = json!({"registry": {"url": "docker://h/a:1"}});
        let spec = json!({"managedDataSource": "os", "schedule": schedule, "template": {"spec": {"source": source}}});
        let status = json!({"lastExecutionTimestamp": last});
        wire::read(json!({"metadata": {"namespace": "n"}, "spec": spec, "status": status})).unwrap()
    }

    fn failed(failures: u32, pause: Option<i64>) -> PollRecord {
        let pause = pause.map(SignedDuration::from_secs);
        PollRecord { at: at("2026-11-25T14:00:00Z"), answer: Err(NoAnswer::Broken), failures, pause }
    }

    #[test]
    fn the_first_poll_is_at_once_and_the_next_by_the_schedule() {
        let last = Some("2026-11-25T14:00:00Z");
        assert_eq!(next_poll(&cron("0 0 * * *", None), None, None), Some(Timestamp::UNIX_EPOCH));
        let digest = Some("sha256:1");
        assert_eq!(next_poll(&cron("0 0 * * *", last), None, digest), Some(at("2026-11-26T00:00:00Z")));
        assert_eq!(next_poll(&cron("", last), None, digest), None);
        let mut answered = failed(1, None);
        answered.answer = Ok("sha256:1".to_owned());
        let next = Some(at("2026-11-26T00:00:00Z"));
        assert_eq!(next_poll(&cron("0 0 * * *", last), Some(&answered), digest), next);
        let mut refused = cron("0 0 * * *", last);
        refused.spec.service_account_name = Some("poller".to_owned());
        assert_eq!(next_poll(&refused, None, digest), None);
        // Somebody asked, and nobody knows what came of it.
        assert_eq!(next_poll(&cron("", last), None, None), Some(at("2026-11-25T14:01:00Z")));
        assert_eq!(
            next_poll(&cron("@every 1s", last), None, digest),
            Some(at("2026-11-25T14:01:00Z")),
            "a minute at least"
        );
    }

    #[test]
    fn a_poll_without_an_answer_is_made_again_and_not_before_the_server_wants_it() {
        let last = Some("2026-11-25T14:00:00Z");
        for (schedule, failures, pause, expected) in [
            ("0 0 * * *", 1, None, "2026-11-25T14:01:00Z"),
            ("0 0 * * *", 3, None, "2026-11-25T14:04:00Z"),
            ("0 0 * * *", 99, None, "2026-11-25T15:00:00Z"),
            ("* * * * *", 9, None, "2026-11-25T14:01:00Z"),
            ("* * * * *", 1, Some(600), "2026-11-25T14:10:00Z"),
            ("* * * * *", 1, Some(i64::MAX), "2026-11-25T15:00:00Z"),
            ("", 2, None, "2026-11-25T14:02:00Z"),
        ] {
            let found = next_poll(&cron(schedule, last), Some(&failed(failures, pause)), Some("sha256:1"));
            assert_eq!(found, Some(at(expected)), "{schedule:?} {failures} {pause:?}");
        }
    }
}
