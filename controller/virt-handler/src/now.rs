//! Current time for decisions, which only show it to readers. The clock may jump, so no durations are
//! computed from it.

use jiff::Timestamp;

/// Time of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// RFC 3339, in whole seconds.
    pub text: String,
}

/// Returns the current time.
pub fn now() -> Now {
    let now = Timestamp::now();
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Now { text: whole.to_string() }
}
