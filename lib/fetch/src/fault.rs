//! Why a request to one server came to nothing, in the words that decide what is done next.

use crate::{Error, ErrorKind};
use reqwest::StatusCode;
use std::time::Duration;

/// What went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// No connection, or one that is closed without an answer.
    Unreachable,
    /// Nothing came for the idle time.
    Silent,
    /// The other side did not prove who it is, or the two of us have no TLS in common.
    Tls,
    /// 5xx and 408, or an answer that caches give for a moment.
    Broken,
    /// 429.
    Busy,
    /// The connection ended before the bytes of the answer did.
    Cut,
    /// 404 and 410.
    Missing,
    /// 401, 403 and 407, and a token that is not given.
    Denied,
    /// Bytes that are not what was asked for: another digest, another size, no manifest.
    Wrong,
    /// The file is another one than when its reading began.
    Changed,
    /// Under the rate that is expected, for longer than we are patient.
    Slow,
    /// Ranges are asked for, the whole comes.
    NoRanges,
    /// An answer that makes no sense here: another 4xx, a redirect that is not followed.
    Odd,
}

impl Why {
    /// What an answer means that is not the one that was asked for.
    pub fn of(status: StatusCode) -> Why {
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                Why::Denied
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => Why::Missing,
            StatusCode::TOO_MANY_REQUESTS => Why::Busy,
            StatusCode::REQUEST_TIMEOUT => Why::Broken,
            _ if status.is_server_error() => Why::Broken,
            _ => Why::Odd,
        }
    }

    /// Whether the same server may give it later.
    pub fn passes(self) -> bool {
        matches!(self, Why::Unreachable | Why::Silent | Why::Broken | Why::Busy | Why::Cut | Why::Slow)
    }

    /// Whether it says something of the server as a whole, so that others need not find out for themselves.
    pub fn of_the_server(self) -> bool {
        self.passes() && self != Why::Cut || matches!(self, Why::Tls | Why::Wrong)
    }
}

/// A request that came to nothing.
#[derive(Debug)]
pub struct Fault {
    /// What went wrong.
    pub why: Why,
    /// The same in a sentence.
    pub error: Error,
    /// The pause the server asked for.
    pub retry_after: Option<Duration>,
    /// What it answered, if it did.
    pub status: Option<u16>,
}

impl Fault {
    /// A fault with an error of its own.
    pub fn new(why: Why, error: Error) -> Fault {
        Fault { why, error, retry_after: None, status: None }
    }

    /// With the kind that goes with `why`.
    pub fn because(why: Why, what: impl Into<String>) -> Fault {
        let kind = match why {
            Why::Missing => ErrorKind::NotFound,
            Why::Denied => ErrorKind::Auth,
            Why::Wrong => ErrorKind::Refused,
            Why::Changed => ErrorKind::Changed,
            _ => ErrorKind::Failed,
        };
        Fault::new(why, Error::new(kind, what))
    }
}

/// A wish that makes no sense, or a setting that does not: no other try will help.
impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::new(Why::Odd, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_sorted_in_one_way_for_all_servers() {
        for (status, why, passes) in [
            (401, Why::Denied, false),
            (403, Why::Denied, false),
            (407, Why::Denied, false),
            (404, Why::Missing, false),
            (410, Why::Missing, false),
            (408, Why::Broken, true),
            (429, Why::Busy, true),
            (500, Why::Broken, true),
            (503, Why::Broken, true),
            (304, Why::Odd, false),
            (400, Why::Odd, false),
        ] {
            let found = Why::of(StatusCode::from_u16(status).unwrap());
            assert_eq!((found, found.passes()), (why, passes), "{status}");
        }
        assert_eq!(Fault::because(Why::Denied, "no").error.kind(), ErrorKind::Auth);
        assert_eq!(Fault::because(Why::Changed, "no").error.kind(), ErrorKind::Changed);
    }
}
