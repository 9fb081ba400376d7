//! Schedules of recurring work in cron's notation.
//!
//! ```text
//! [TZ=zone] minute hour day month weekday      each: * ? N N-M, with /step, several after commas
//! @yearly @annually @monthly @weekly @daily @midnight @hourly, @every 1h30m
//! ```

use crate::duration::Duration;

/// Times of recurring work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Fixed times of the day, by the fields of the schedule.
    At(Times),
    /// A fixed span after the previous time.
    Every(Duration),
}

/// Minutes of a schedule, in fields with a bit for each number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Name of the time zone. Unset: UTC.
    pub zone: Option<String>,
    minutes: u64,
    hours: u64,
    days: Field,
    months: u64,
    weekdays: Field,
}

/// Numbers of a field. `is_any`: the field has all numbers, as `*` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Field {
    bits: u64,
    is_any: bool,
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Longest text that is read.
const LENGTH: usize = 1024;

impl Schedule {
    /// Parses a schedule; `None` if the text is not a schedule.
    pub fn parse(text: &str) -> Option<Schedule> {
        Schedule::read(text).ok()
    }

    /// Parses a schedule. An error names the field, the value in it, and the values that are allowed.
    pub fn read(text: &str) -> Result<Schedule, String> {
        if text.len() > LENGTH {
            return Err(format!("it is longer than {LENGTH} letters"));
        }
        let zoned = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ="));
        let (zone, text) = match zoned {
            Some(zoned) => {
                let (zone, text) =
                    zoned.split_once(' ').ok_or("the time zone must be followed by five fields")?;
                (Some(zone.to_owned()).filter(|zone| !zone.is_empty()), text.trim())
            }
            None => (None, text.trim()),
        };
        if let Some(span) = text.strip_prefix("@every ") {
            let wrong = || format!("@every wants a duration above 0, as 1h30m, not {}", excerpt(span));
            let span = Duration::parse(span.trim()).filter(|span| span.nanos() > 0).ok_or_else(wrong)?;
            return Ok(Schedule::Every(span));
        }
        let text = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            text => text,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            let count = fields.len();
            return Err(match text.strip_prefix('@') {
                Some(_) => format!(
                    "{} is not known: there are @hourly, @daily, @weekly, @monthly, @yearly and @every",
                    excerpt(text)
                ),
                None => format!("it wants five fields (minute, hour, day, month, weekday) and has {count}"),
            });
        };
        let of = |name: &str, text: &str, least: u32, most: u32, names: &[&str]| {
            let named = if names.is_empty() { "" } else { ", or names of three letters" };
            field(text, least, most, names).ok_or_else(|| {
                format!("the {name} is {}, and may be numbers from {least} to {most}{named}", excerpt(text))
            })
        };
        Ok(Schedule::At(Times {
            zone,
            minutes: of("minute", minutes, 0, 59, &[])?.bits,
            hours: of("hour", hours, 0, 23, &[])?.bits,
            days: of("day", days, 1, 31, &[])?,
            months: of("month", months, 1, 12, MONTHS)?.bits,
            weekdays: of("weekday", weekdays, 0, 6, WEEKDAYS)?,
        }))
    }
}

/// The first 40 characters of the text, quoted, for a message.
fn excerpt(text: &str) -> String {
    let start: String = text.trim().chars().take(40).collect();
    format!("{start:?}")
}

impl Times {
    /// True if the schedule has times on this day. If it restricts both days of the month and weekdays, one
    /// match is enough.
    pub fn has_day(&self, day: u32, month: u32, weekday: u32) -> bool {
        let (day, weekday) = (has(self.days.bits, day), has(self.weekdays.bits, weekday));
        let is_day = match self.days.is_any || self.weekdays.is_any {
            true => day && weekday,
            false => day || weekday,
        };
        is_day && has(self.months, month)
    }

    /// True if the schedule has this minute, on a day that it has.
    pub fn has_minute(&self, minute: u32, hour: u32) -> bool {
        has(self.minutes, minute) && has(self.hours, hour)
    }

    /// True if the time zone is UTC, the only one that is supported.
    pub fn are_utc(&self) -> bool {
        self.zone.as_deref().is_none_or(|zone| ["UTC", "Etc/UTC", "GMT"].contains(&zone))
    }
}

fn has(bits: u64, number: u32) -> bool {
    bits.checked_shr(number).is_some_and(|bits| bits & 1 == 1)
}

/// Numbers of a field, from `least` to `most`. The first of `names` is `least`.
fn field(text: &str, least: u32, most: u32, names: &[&str]) -> Option<Field> {
    let mut all = Field::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let step: u32 = step.map_or(Some(1), number).filter(|step| *step > 0)?;
        let is_any = ["*", "?"].contains(&range);
        let (first, last) = match range.split_once('-') {
            _ if is_any => (least, most),
            Some((first, last)) => {
                (number_or_name(first, least, names)?, number_or_name(last, least, names)?)
            }
            None => {
                let first = number_or_name(range, least, names)?;
                // `N/step` has no upper bound.
                (first, if part.contains('/') { most } else { first })
            }
        };
        if first < least || last > most || first > last {
            return None;
        }
        // With a step, `*` restricts the field.
        all.is_any |= is_any && step == 1;
        let mut number = Some(first);
        while let Some(at) = number.filter(|at| *at <= last) {
            all.bits |= 1 << at;
            number = at.checked_add(step);
        }
    }
    (all.bits != 0).then_some(all)
}

fn number_or_name(text: &str, least: u32, names: &[&str]) -> Option<u32> {
    let place = names.iter().position(|name| text.eq_ignore_ascii_case(name));
    place.map_or_else(|| number(text), |place| u32::try_from(place).ok()?.checked_add(least))
}

/// Parses a number without a sign.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str) -> Times {
        match Schedule::parse(text) {
            Some(Schedule::At(times)) => times,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn holds(times: &Times, minute: u32, hour: u32, day: u32, month: u32, weekday: u32) -> bool {
        times.has_day(day, month, weekday) && times.has_minute(minute, hour)
    }

    #[test]
    fn a_schedule_holds_at_its_times_and_at_no_other() {
        // Minute, hour, day, month, weekday.
        for (text, yes, no) in [
            ("* * * * *", (59, 23, 31, 12, 6), None),
            ("30 1 * * *", (30, 1, 5, 6, 0), Some((30, 2, 5, 6, 0))),
            ("*/15 */12 * * *", (45, 12, 1, 1, 1), Some((50, 12, 1, 1, 1))),
            ("5/20 * * * *", (45, 0, 1, 1, 1), Some((4, 0, 1, 1, 1))),
            ("0 9-17/4 * * mon-FRI", (0, 13, 1, 1, 5), Some((0, 13, 1, 1, 6))),
            ("0 0 1,15 jan *", (0, 0, 15, 1, 3), Some((0, 0, 15, 2, 3))),
            // Either day counts where both are said.
            ("0 0 13 * 5", (0, 0, 2, 1, 5), Some((0, 0, 2, 1, 4))),
            ("0 0 13 * 5", (0, 0, 13, 1, 1), Some((0, 0, 14, 1, 1))),
            ("0 0 ? * 0", (0, 0, 2, 1, 0), Some((0, 0, 2, 1, 1))),
            ("@weekly", (0, 0, 9, 9, 0), Some((0, 0, 9, 9, 1))),
            ("@yearly", (0, 0, 1, 1, 4), Some((0, 0, 1, 2, 4))),
        ] {
            let times = times(text);
            let holds =
                |(minute, hour, day, month, weekday)| holds(&times, minute, hour, day, month, weekday);
            assert!(holds(yes), "{text} {yes:?}");
            assert!(!no.is_some_and(holds), "{text} {no:?}");
        }
        let berlin = times("CRON_TZ=Europe/Berlin 0 6 * * *");
        assert_eq!((berlin.zone.as_deref(), berlin.are_utc()), (Some("Europe/Berlin"), false));
        assert!(times("TZ=UTC 0 6 * * *").are_utc() && times("0 6 * * *").are_utc());
        assert!(
            matches!(Schedule::parse("@every 1h30m"), Some(Schedule::Every(span)) if span.as_str() == "1h30m")
        );
    }

    #[test]
    fn what_is_no_schedule_is_none() {
        let long = format!("{} * * * *", vec!["1"; 2000].join(","));
        for text in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * * 7",
            "*/0 * * * *",
            "5-1 * * * *",
            "-1 * * * *",
            "+1 * * * *",
            "1/ * * * *",
            "a * * * *",
            ", * * * *",
            "* * * mon *",
            "@often",
            "@every",
            "@every 0s",
            "@every -1h",
            "@every soon",
            "TZ=a",
            "4294967296 * * * *",
            "*/4294967296 * * * *",
            &long,
        ] {
            assert_eq!(Schedule::parse(text), None, "{text}");
        }
        for (text, why) in [
            ("* * * *", "it wants five fields (minute, hour, day, month, weekday) and has 4"),
            ("0 25 * * *", "the hour is \"25\", and may be numbers from 0 to 23"),
            (
                "0 0 * * mond",
                "the weekday is \"mond\", and may be numbers from 0 to 6, or names of three letters",
            ),
            ("@every soon", "@every wants a duration above 0, as 1h30m, not \"soon\""),
            ("TZ=a", "the time zone must be followed by five fields"),
            (&long, "it is longer than 1024 letters"),
        ] {
            assert_eq!(Schedule::read(text), Err(why.to_owned()));
        }
        assert!(
            Schedule::read("@often").unwrap_err().starts_with("\"@often\" is not known: there are @hourly")
        );
        let midnight = times("0 0 * * *");
        assert!(holds(&midnight, 0, 0, 1, 1, 1) && !holds(&midnight, 64, 0, 1, 1, 1));
    }
}
