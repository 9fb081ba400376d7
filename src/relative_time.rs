//! Relative times for people, like `5 min ago`. Programs get the time itself.

use container_disk::image::time;
use std::time::{SystemTime, UNIX_EPOCH};

/// `12 s ago`; the text itself if it is not a time.
pub(crate) fn ago(moment: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    time::seconds(moment).map_or_else(|| moment.to_owned(), |then| before(now, then))
}

/// Only the larger of two units is shown; JSON has the exact time. A clock that was set back gives `just
/// now`.
fn before(now: u64, then: u64) -> String {
    match now.saturating_sub(then) {
        0 => "just now".into(),
        seconds @ 1..60 => format!("{seconds} s ago"),
        seconds @ 60..3_600 => format!("{} min ago", seconds / 60),
        seconds @ 3_600..172_800 => format!("{} h ago", seconds / 3_600),
        seconds => format!("{} days ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        let day = 86_400;
        for (seconds, text) in [
            (0, "just now"),
            (1, "1 s ago"),
            (59, "59 s ago"),
            (60, "1 min ago"),
            (3_599, "59 min ago"),
            (3_600, "1 h ago"),
            (2 * day - 1, "47 h ago"),
            (2 * day, "2 days ago"),
        ] {
            assert_eq!(before(1_000_000 + seconds, 1_000_000), text);
        }
        assert_eq!(before(5, 9), "just now");
    }

    #[test]
    fn what_is_no_moment_stays_as_it_is() {
        assert_eq!(ago("yesterday"), "yesterday");
        assert!(ago("2001-01-01T00:00:00.5Z").ends_with(" days ago"));
    }
}
