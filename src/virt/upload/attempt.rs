//! Classification of a failed upload attempt. Pure.

use super::proxy::{self, Answer};
use cdi::source::upload::REFUSED;

/// The end of an upload attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AttemptResult {
    /// The server has received all bytes.
    Done,
    /// The server does not support this endpoint.
    Unsupported,
    /// The server does not accept the token.
    Unauthorized(String),
    /// The server refused the upload, and would do so again.
    Refused(String),
    /// The attempt failed, and another one may succeed.
    Broken(String),
}

/// Classifies an unexpected status, with the message of virtctl.
pub(super) fn unexpected(answer: &Answer) -> AttemptResult {
    let said = format!("unexpected return value {}, {}", answer.status, answer.text);
    let is_too_small = answer.status == 400 && answer.text.contains("larger than");
    match answer.status {
        401 => AttemptResult::Unauthorized(said),
        403 | 404 | 405 | 411 | 413 | 415 | 501 => AttemptResult::Refused(said),
        _ if is_too_small || answer.header(REFUSED).is_some() => AttemptResult::Refused(said),
        _ => AttemptResult::Broken(said),
    }
}

/// Classifies an attempt without an answer. An untrusted certificate will not be trusted the next time
/// either.
pub(super) fn lost(said: String) -> AttemptResult {
    match proxy::hint(&said) {
        Some(_) => AttemptResult::Refused(said),
        None => AttemptResult::Broken(said),
    }
}

/// Hint for a refusal, by its message.
pub(super) fn hint(said: &str) -> Option<&'static str> {
    let is = |code: &str| said.starts_with(&format!("unexpected return value {code}, "));
    if is("413") {
        return Some(
            "something before the upload proxy, perhaps an Ingress, bounds the size of a request; \
             --uploadproxy-url can lead past it",
        );
    }
    if is("404") || is("405") {
        return Some("is --uploadproxy-url the address of the Service cdi-uploadproxy?");
    }
    said.contains("larger than")
        .then_some("the disk needs a larger volume: another name, and a larger --size")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_whether_another_attempt_may_help() {
        let end = |status: u16, text: &str| unexpected(&Answer::of(status, text));
        let said = |status: u16, text: &str| format!("unexpected return value {status}, {text}");
        assert_eq!(end(401, "no"), AttemptResult::Unauthorized(said(401, "no")));
        for status in [403, 404, 405, 411, 413, 415, 501] {
            assert_eq!(end(status, "no"), AttemptResult::Refused(said(status, "no")));
        }
        // The statuses 201, 202 and 204 are failures too, as for virtctl.
        for status in [201, 202, 204, 302, 400, 408, 409, 429, 500, 502, 503, 504] {
            assert_eq!(end(status, "no"), AttemptResult::Broken(said(status, "no")));
        }
        let small =
            "Saving stream failed: effective image size is larger than the reported available storage";
        assert_eq!(end(400, small), AttemptResult::Refused(said(400, small)));
        assert!(hint(&said(400, small)).unwrap().contains("--size"));
        assert!(hint(&said(413, "")).unwrap().contains("Ingress"));
        assert_eq!(hint(&said(500, "no")), None);
        // A server of ours says that it will refuse the same bytes again.
        let mut image = Answer::of(500, "vmdk is not supported");
        image.headers.insert(REFUSED, "InvalidImage".parse().unwrap());
        assert_eq!(unexpected(&image), AttemptResult::Refused(said(500, "vmdk is not supported")));
        assert!(matches!(
            lost("https://h: invalid peer certificate: UnknownIssuer".to_owned()),
            AttemptResult::Refused(_)
        ));
        assert!(matches!(lost("https://h: connection reset".to_owned()), AttemptResult::Broken(_)));
    }
}
