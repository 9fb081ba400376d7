//! Why a request to one server came to nothing, in the words that decide what is done next.

use crate::{Error, Kind};
use std::error::Error as _;
use std::fmt::Write;
use std::time::Duration;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// No connection, or one that is closed without an answer.
    Unreachable,
    /// Nothing came for the idle time.
    Silent,
    /// The other side did not prove who it is, or the two of us have no TLS in common.
    Tls,
    /// 5xx.
    Broken,
    /// 429.
    Busy,
    /// The connection ended before the bytes of the answer did.
    Cut,
    /// 404.
    Missing,
    /// 401 and 403, and a token that is not given.
    Denied,
    /// Bytes that are not what was asked for: another digest, another size, no manifest.
    Wrong,
    /// Under the rate that is expected, for longer than we are patient.
    Slow,
    /// Ranges are asked for, the whole comes.
    NoRanges,
    /// An answer that makes no sense here: another 4xx, a redirect that is not followed.
    Odd,
}

impl Why {
    /// Whether the same server may give it later.
    pub(super) fn passes(self) -> bool {
        matches!(self, Why::Unreachable | Why::Silent | Why::Broken | Why::Busy | Why::Cut | Why::Slow)
    }

    /// Whether it says something of the server as a whole, so that others need not find out for themselves.
    pub(super) fn of_the_server(self) -> bool {
        self.passes() && self != Why::Cut || matches!(self, Why::Tls | Why::Wrong)
    }
}

/// A request that came to nothing.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) why: Why,
    pub(super) error: Error,
    /// The pause the server asked for.
    pub(super) retry_after: Option<Duration>,
    /// What it answered, if it did.
    pub(super) status: Option<u16>,
}

impl Fault {
    pub(super) fn new(why: Why, error: Error) -> Fault {
        Fault { why, error, retry_after: None, status: None }
    }

    /// With the kind that goes with `why`.
    pub(super) fn because(why: Why, what: impl Into<String>) -> Fault {
        let kind = match why {
            Why::Missing => Kind::NotFound,
            Why::Denied => Kind::Auth,
            Why::Wrong => Kind::Refused,
            _ => Kind::Failed,
        };
        Fault::new(why, Error::new(kind, what))
    }
}

/// An error with all its causes, in one line.
pub(super) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        // Writing to a string does not fail.
        let _ = write!(text, ": {cause}");
        next = cause.source();
    }
    text
}
