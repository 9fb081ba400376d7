//! Failure of a request to the API server, and the error and the exit code that it becomes.

use crate::error::{Error, ErrorKind};
use http::StatusCode;
use serde_json::Value;
use std::error::Error as StdError;

const TOO_MANY: &str = "there are more than 20000, the most that are listed";

/// Failure of a request: a refusal of the server, or no answer that can be read.
pub(crate) struct Failure {
    /// Status of the refusal; 0 without one.
    code: u16,
    kind: ErrorKind,
    /// The message in one line.
    message: String,
    hint: Option<&'static str>,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Failure {
    /// The failure of a request without an answer that can be read.
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Failure {
        Failure { code: 0, kind, message: message.into(), hint: None, cause: None }
    }

    /// The failure of a list with more objects than are listed.
    pub(super) fn too_many() -> Failure {
        Failure::new(ErrorKind::Refused, TOO_MANY)
    }

    /// The refusal in a response with this status and body: `metav1.Status`, or the text of a proxy in front of
    /// the server.
    pub(super) fn from_response(status: StatusCode, body: &[u8]) -> Failure {
        let object: Value = serde_json::from_slice(body).unwrap_or_default();
        let message = match object["kind"] == "Status" {
            true => object["message"].as_str().unwrap_or_default().to_owned(),
            false => String::from_utf8_lossy(body).trim().to_owned(),
        };
        let message = match message.is_empty() {
            true => status.canonical_reason().unwrap_or("no reason given").to_owned(),
            false => printable::line(&message),
        };
        let code = status.as_u16();
        let kind = kind_of(code, &message);
        Failure { code, kind, hint: hint_of(code, kind, &message), message, cause: None }
    }

    /// The failure with a cause.
    pub(super) fn because(self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Failure {
        Failure { cause: Some(cause.into()), ..self }
    }

    /// The error of an action, which `doing` describes: "cannot start VM web".
    pub(crate) fn into_error(self, doing: &str) -> Error {
        let error = Error::new(self.kind, format!("{doing}: {}", self.message));
        let error = match self.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        };
        match self.cause {
            Some(cause) => error.because(cause),
            None => error,
        }
    }

    /// Status of the refusal; 0 without one.
    pub(crate) fn code(&self) -> u16 {
        self.code
    }

    /// The message in one line.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// True if a list has more objects than are listed.
    pub(crate) fn is_of_too_many(&self) -> bool {
        self.code == 0 && self.message == TOO_MANY
    }

    /// True if the next attempt may succeed.
    pub(crate) fn is_temporary(&self) -> bool {
        matches!(self.code, 0 | 429 | 500..)
    }
}

/// virt-api answers 401 to a user whom it knows and does not permit. The API server answers 403, but so does
/// virt-api to a request that no user may make. For requests to the guest it answers all refusals by text and
/// 500, as upstream does, including a missing VMI.
fn kind_of(code: u16, message: &str) -> ErrorKind {
    match code {
        401 => ErrorKind::Auth,
        403 if message.contains(" cannot ") => ErrorKind::Auth,
        404 => ErrorKind::NotFound,
        409 | 429 => ErrorKind::Failed,
        400..=499 | 501 => ErrorKind::Refused,
        500 if message.ends_with("\" not found") => ErrorKind::NotFound,
        _ => ErrorKind::Failed,
    }
}

fn hint_of(code: u16, kind: ErrorKind, message: &str) -> Option<&'static str> {
    let message = message.to_lowercase();
    let says = |words: &str| message.contains(words);
    match code {
        401 => Some("log in again; 'kubectl auth whoami' shows as whom you are logged in"),
        403 if kind == ErrorKind::Auth => {
            Some("ask for that right; 'kubectl auth can-i --list' shows those that you have")
        }
        404 if says("could not find the requested resource") || says("page not found") => Some(
            "is KubeVirt installed? 'kubectl get kubevirt -A' and \
             'kubectl get apiservice v1.subresources.kubevirt.io' show it",
        ),
        503 if says("unavailable") || says("no endpoints") || says("currently unable") => {
            Some("virt-api does not answer; 'kubectl get apiservice v1.subresources.kubevirt.io' says why")
        }
        _ if says("guest agent") => Some("install and start qemu-guest-agent in the guest"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(code: u16, body: &str) -> Failure {
        Failure::from_response(StatusCode::from_u16(code).unwrap(), body.as_bytes())
    }

    fn status(message: &str, reason: &str) -> String {
        serde_json::json!({"kind": "Status", "status": "Failure", "message": message, "reason": reason})
            .to_string()
    }

    #[test]
    fn a_refusal_has_the_servers_words_and_a_kind_of_its_own() {
        for (code, body, kind, said) in [
            (
                409,
                status("VM is already running", "Conflict"),
                ErrorKind::Failed,
                "cannot start VM web: VM is already running",
            ),
            (
                404,
                status("virtualmachines.kubevirt.io \"web\" not found", "NotFound"),
                ErrorKind::NotFound,
                "\"web\" not found",
            ),
            (404, "404 page not found\n".to_owned(), ErrorKind::NotFound, "is KubeVirt installed?"),
            (
                500,
                "virtualmachineinstance.kubevirt.io \"web\" not found".to_owned(),
                ErrorKind::NotFound,
                "\"web\" not found",
            ),
            (
                403,
                status("virtualmachines \"web\" is forbidden: User \"me\" cannot update it", ""),
                ErrorKind::Auth,
                "ask for that right",
            ),
            (
                403,
                status("Pausing VMIs with a LivenessProbe is not supported", ""),
                ErrorKind::Refused,
                "not supported",
            ),
            (
                500,
                "VMI does not have guest agent connected".to_owned(),
                ErrorKind::Failed,
                "install and start qemu-guest-agent",
            ),
            (503, "service unavailable".to_owned(), ErrorKind::Failed, "virt-api does not answer"),
            (401, String::new(), ErrorKind::Auth, "cannot start VM web: Unauthorized; log in again"),
            (400, "a\u{1b}[2Jb".to_owned(), ErrorKind::Refused, "a [2Jb"),
        ] {
            let error = refusal(code, &body).into_error("cannot start VM web");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn what_is_in_front_of_the_server_is_named() {
        let failure = Failure::new(ErrorKind::Failed, "the API server https://x cannot be reached")
            .because("connection refused");
        assert_eq!((failure.code(), failure.message()), (0, "the API server https://x cannot be reached"));
        let error = failure.into_error("cannot stop VM web");
        assert_eq!(
            error.chain(),
            "cannot stop VM web: the API server https://x cannot be reached: connection refused"
        );
    }
}
