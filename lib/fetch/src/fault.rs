//! Faults: requests to one server that failed, sorted by what the caller does next.

use crate::{Error, ErrorKind};
use reqwest::StatusCode;
use std::time::Duration;

/// Kinds of faults, by what the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// No connection, or one that is closed without an answer.
    Unreachable,
    /// No byte came within the idle time.
    Silent,
    /// The server did not prove its identity, or there is no common version of TLS.
    Tls,
    /// 5xx and 408, or an answer that caches give for a moment.
    Broken,
    /// 429 Too Many Requests.
    Busy,
    /// The connection ended before the bytes of the answer did.
    Cut,
    /// 404 Not Found and 410 Gone.
    Missing,
    /// 401, 403 and 407, and a token that was refused.
    Denied,
    /// Unexpected bytes: another digest, another size, not a manifest.
    Wrong,
    /// The file has changed since its reading began.
    Changed,
    /// The rate stayed below the least rate for too long.
    Slow,
    /// A range was requested, and the whole file came.
    NoRanges,
    /// An answer that makes no sense here: another 4xx, a redirect that is not followed.
    Odd,
}

impl Why {
    /// Classifies an HTTP status other than success.
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

    /// True if the same server may give the answer later.
    pub fn passes(self) -> bool {
        matches!(self, Why::Unreachable | Why::Silent | Why::Broken | Why::Busy | Why::Cut | Why::Slow)
    }

    /// True if the fault concerns the server as a whole, so that other requests need not try it themselves.
    pub fn of_the_server(self) -> bool {
        self.passes() && self != Why::Cut || matches!(self, Why::Tls | Why::Wrong)
    }
}

/// A request that failed.
#[derive(Debug)]
pub struct Fault {
    pub why: Why,
    /// The message.
    pub error: Error,
    /// The server's `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
}

impl Fault {
    /// A fault with an existing error.
    pub fn new(why: Why, error: Error) -> Fault {
        Fault { why, error, retry_after: None, status: None }
    }

    /// A fault with a message; the kind of the error follows `why`.
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

/// An invalid request or setting: no other try will help.
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
