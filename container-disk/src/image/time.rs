//! Dates as the documents write them: RFC 3339, in UTC.

/// `1970-01-01T00:00:00Z` for 0. Dates after the year 9999 are shown as its last second.
pub fn rfc3339(seconds: u64) -> String {
    const LAST: u64 = 253_402_300_799;
    let seconds = seconds.min(LAST);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The seconds since 1970 of such a date; `None` where it is none, lies before 1970, or has another zone than `Z`.
/// Fractions of a second are passed over.
pub fn seconds(text: &str) -> Option<u64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let time = time.split_once('.').map_or(time, |(whole, _)| whole);
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let valid = (1970..=9999).contains(&year)
        && (1..=12).contains(&month)
        && day >= 1
        && day <= month_length(year, month)
        && hour < 24
        && minute < 60
        && second < 60;
    let days: u64 = (1970..year).map(|y| if is_leap(y) { 366 } else { 365 }).sum();
    let days = days + (1..month).map(|m| month_length(year, m)).sum::<u64>() + day.saturating_sub(1);
    valid.then_some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

fn date(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while days >= if is_leap(year) { 366 } else { 365 } {
        days -= if is_leap(year) { 366 } else { 365 };
        year += 1;
    }
    let mut month = 1;
    while days >= month_length(year, month) {
        days -= month_length(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

fn month_length(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let mut parts = text.split(between).map(|part| {
        let digits = part.len() <= 4 && part.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    });
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_and_read_back() {
        for (number, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_176_000, "2026-11-20T12:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(number), text);
            assert_eq!(seconds(text), Some(number), "{text}");
        }
        assert_eq!(seconds("2000-02-29T00:00:00.123456789Z"), Some(951_782_400));
    }

    #[test]
    fn what_is_no_date_has_no_seconds() {
        for text in [
            "",
            "2000-02-30T00:00:00Z",
            "2000-13-01T00:00:00Z",
            "2000-01-01T24:00:00Z",
            "2000-01-01 00:00:00Z",
            "2000-01-01T00:00:00+01:00",
            "2000-01-01T00:00:00",
            "2000-0x-01T00:00:00Z",
            "99999-01-01T00:00:00Z",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
