//! The time, as those who decide are told it: for what people read. A clock that is set may jump, so nothing is counted by it.

use jiff::Timestamp;

/// The time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Now {
    /// RFC 3339, in whole seconds.
    pub text: String,
}

/// The time.
pub fn now() -> Now {
    let now = Timestamp::now();
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    Now { text: whole.to_string() }
}
