//! Refusals of virt-handler, and refusals of a launcher, whose status and message are passed on.

use super::route::Vmi;
use api::launcher::Refusal;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Method, StatusCode};
use launcher_client::{Error, ErrorKind, sanitize};
use serve::transport::{HttpResponse, response};

pub(super) type Result<T> = std::result::Result<T, Rejection>;

/// A refusal, with its status.
#[derive(Debug)]
pub(super) struct Rejection {
    status: StatusCode,
    refusal: Refusal,
}

impl Rejection {
    pub(super) fn new(status: StatusCode, error: &str) -> Rejection {
        Rejection {
            status,
            refusal: Refusal { error: sanitize::line(error), faults: Vec::new(), hint: None },
        }
    }

    pub(super) fn unknown(method: &Method, path: &str) -> Rejection {
        Rejection::new(
            StatusCode::NOT_FOUND,
            &format!("virt-handler does not pass {method} {path} on to launchers"),
        )
    }

    pub(super) fn not_here(vmi: &Vmi<'_>) -> Rejection {
        let why = format!("the launcher of {vmi} is not on this node (or not yet)");
        Rejection::new(StatusCode::NOT_FOUND, &why)
    }

    /// A temporary refusal: a place may be free in a second.
    pub(super) fn busy(error: &str) -> Rejection {
        Rejection::new(StatusCode::TOO_MANY_REQUESTS, error)
    }

    pub(super) fn answer(&self) -> HttpResponse {
        let text = serde_json::to_vec(&self.refusal).unwrap_or_default();
        let mut answer: HttpResponse = response(self.status, "application/json", text);
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }
}

impl From<Error> for Rejection {
    fn from(error: Error) -> Rejection {
        tracing::debug!("{}", error.chain());
        let status = match (error.status(), error.kind()) {
            // A launcher's 401 is not passed on: virt-api would take it for a refusal of its own certificate
            // by virt-handler.
            (Some(said @ (400 | 402..=599)), _) => {
                StatusCode::from_u16(said).unwrap_or(StatusCode::BAD_GATEWAY)
            }
            (None, ErrorKind::TimedOut) => StatusCode::GATEWAY_TIMEOUT,
            (None, ErrorKind::NotListening | ErrorKind::Unreachable) => StatusCode::SERVICE_UNAVAILABLE,
            (Some(_), _)
            | (None, ErrorKind::TooLarge | ErrorKind::NotFound | ErrorKind::Refused | ErrorKind::Failed) => {
                StatusCode::BAD_GATEWAY
            }
        };
        match error.refusal() {
            Some(refusal) => Rejection { status, refusal: refusal.clone() },
            None => Rejection::new(status, &error.to_string()),
        }
    }
}
