//! Faults: requests to one server that failed, sorted by what the caller does next.

use crate::{Error, ErrorKind};
use reqwest::StatusCode;
use std::time::Duration;

/// Kinds of faults, by what the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
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

impl FaultKind {
    /// Classifies an HTTP status other than success.
    pub fn from_status(status: StatusCode) -> FaultKind {
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                FaultKind::Denied
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => FaultKind::Missing,
            StatusCode::TOO_MANY_REQUESTS => FaultKind::Busy,
            StatusCode::REQUEST_TIMEOUT => FaultKind::Broken,
            _ if status.is_server_error() => FaultKind::Broken,
            _ => FaultKind::Odd,
        }
    }

    /// True if the same server may give the answer later.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            FaultKind::Unreachable
                | FaultKind::Silent
                | FaultKind::Broken
                | FaultKind::Busy
                | FaultKind::Cut
                | FaultKind::Slow
        )
    }

    /// True if the fault concerns the server as a whole, so that other requests need not try it themselves.
    pub fn concerns_server(self) -> bool {
        self.is_transient() && self != FaultKind::Cut || matches!(self, FaultKind::Tls | FaultKind::Wrong)
    }
}

/// A request that failed.
#[derive(Debug)]
pub struct Fault {
    pub kind: FaultKind,
    pub error: Error,
    /// Pause that the server asks for in `Retry-After`.
    pub retry_after: Option<Duration>,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
}

impl Fault {
    /// A fault with an existing error.
    pub fn new(kind: FaultKind, error: Error) -> Fault {
        Fault { kind, error, retry_after: None, status: None }
    }

    /// A fault with a message; the kind of the error follows `kind`.
    pub fn from_kind(kind: FaultKind, what: impl Into<String>) -> Fault {
        let error_kind = match kind {
            FaultKind::Missing => ErrorKind::NotFound,
            FaultKind::Denied => ErrorKind::Auth,
            FaultKind::Wrong => ErrorKind::Refused,
            FaultKind::Changed => ErrorKind::Changed,
            _ => ErrorKind::Failed,
        };
        Fault::new(kind, Error::new(error_kind, what))
    }
}

/// An invalid request or setting: no other try will help.
impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::new(FaultKind::Odd, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_sorted_in_one_way_for_all_servers() {
        for (status, why, passes) in [
            (401, FaultKind::Denied, false),
            (403, FaultKind::Denied, false),
            (407, FaultKind::Denied, false),
            (404, FaultKind::Missing, false),
            (410, FaultKind::Missing, false),
            (408, FaultKind::Broken, true),
            (429, FaultKind::Busy, true),
            (500, FaultKind::Broken, true),
            (503, FaultKind::Broken, true),
            (304, FaultKind::Odd, false),
            (400, FaultKind::Odd, false),
        ] {
            let found = FaultKind::from_status(StatusCode::from_u16(status).unwrap());
            assert_eq!((found, found.is_transient()), (why, passes), "{status}");
        }
        assert_eq!(Fault::from_kind(FaultKind::Denied, "no").error.kind(), ErrorKind::Auth);
        assert_eq!(Fault::from_kind(FaultKind::Changed, "no").error.kind(), ErrorKind::Changed);
    }
}
