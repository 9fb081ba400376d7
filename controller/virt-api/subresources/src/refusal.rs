//! Refusals of requests: a `Status`, or a line of text where upstream's clients expect one.

use api::launcher::Denial;
use http::{HeaderValue, StatusCode, header};
use hyper::body::Bytes;
use serde_json::{Value, json};
use serve::transport::{HttpResponse, plain, response};

/// The group of VMs and VMIs.
const KUBEVIRT: &str = "kubevirt.io";

/// The result of a request.
pub(crate) type Result<T> = std::result::Result<T, Refusal>;

/// A refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    reason: &'static str,
    pub(crate) message: String,
    /// The object of the refusal: group, kind in upstream's singular, name.
    about: Option<(&'static str, &'static str, String)>,
    is_text: bool,
}

/// A VM or VMI in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Subject<'a> {
    /// Kind in messages: `virtualmachine` or `virtualmachineinstance`.
    pub(crate) kind: &'static str,
    pub(crate) name: &'a str,
}

impl Refusal {
    fn new(status: StatusCode, reason: &'static str, message: impl Into<String>) -> Refusal {
        Refusal { status, reason, message: message.into(), about: None, is_text: false }
    }

    fn about(mut self, subject: Subject<'_>) -> Refusal {
        self.about = Some((KUBEVIRT, subject.kind, subject.name.to_owned()));
        self
    }

    /// 400: the request is invalid.
    pub(crate) fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401 as text: the user is unknown or has no right.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::UNAUTHORIZED, "Unauthorized", message).into_text()
    }

    /// 403: the operation does not apply to this object.
    pub(crate) fn forbidden(subject: Subject<'_>, why: &str) -> Refusal {
        let message = format!("{}.kubevirt.io {:?} is forbidden: {why}", subject.kind, subject.name);
        Refusal::new(StatusCode::FORBIDDEN, "Forbidden", message).about(subject)
    }

    /// 404: the object does not exist.
    pub(crate) fn not_found(subject: Subject<'_>) -> Refusal {
        let message = format!("{}.kubevirt.io {:?} not found", subject.kind, subject.name);
        Refusal::new(StatusCode::NOT_FOUND, "NotFound", message).about(subject)
    }

    /// 404 for a kind whose objects are not stored.
    pub(crate) fn not_kept(group: &'static str, plural: &'static str, name: &str) -> Refusal {
        let message = format!("{plural}.{group} {name:?} not found");
        let refused = Refusal::new(StatusCode::NOT_FOUND, "NotFound", message);
        Refusal { about: Some((group, plural, name.to_owned())), ..refused }
    }

    /// 404: the path does not exist.
    pub(crate) fn no_such_path() -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
    }

    /// 405: the method is not allowed.
    pub(crate) fn method(allowed: &str) -> Refusal {
        let message = format!("this subresource is only served by {allowed}");
        Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 409: the state of the object does not permit it.
    pub(crate) fn conflict(subject: Subject<'_>, why: &str) -> Refusal {
        let message = format!(
            "Operation cannot be fulfilled on {}.kubevirt.io {:?}: {why}",
            subject.kind, subject.name
        );
        Refusal::new(StatusCode::CONFLICT, "Conflict", message).about(subject)
    }

    /// The launcher denied the request. The status is that of its reason, the message that of a conflict.
    pub(crate) fn denied(subject: Subject<'_>, denial: &Denial) -> Refusal {
        let (status, reason) = match denial.reason().facts().status {
            404 => (StatusCode::NOT_FOUND, "NotFound"),
            429 => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            501 => (StatusCode::NOT_IMPLEMENTED, "NotImplemented"),
            _ => (StatusCode::CONFLICT, "Conflict"),
        };
        Refusal { status, reason, ..Refusal::conflict(subject, denial.message()) }
    }

    /// 429: the client has reached a limit.
    pub(crate) fn too_many(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", why)
    }

    /// 500: an internal error.
    pub(crate) fn internal(why: &str) -> Refusal {
        let message = format!("Internal error occurred: {why}");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// 501: this part of the API is not served.
    pub(crate) fn not_served(what: &str, instead: &str) -> Refusal {
        let message = format!("{what} is not supported: {instead}");
        Refusal::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    /// 503: a resource is exhausted for now.
    pub(crate) fn unavailable(why: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", why)
    }

    /// The same refusal as a line of text: upstream's clients of this route do not parse a Status.
    #[must_use]
    pub(crate) fn into_text(mut self) -> Refusal {
        self.is_text = true;
        self
    }

    /// The same refusal as text with the status 500, as upstream answers requests about the guest. A status
    /// that asks for a retry is kept.
    #[must_use]
    pub(crate) fn into_guest_text(mut self) -> Refusal {
        if self.status != StatusCode::TOO_MANY_REQUESTS {
            self.status = StatusCode::INTERNAL_SERVER_ERROR;
        }
        self.into_text()
    }

    /// The HTTP response.
    pub(crate) fn answer(&self) -> HttpResponse {
        let mut answer = match self.is_text {
            true => plain(self.status, &self.message),
            false => with_json(self.status, &self.body()),
        };
        if self.status == StatusCode::TOO_MANY_REQUESTS {
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        answer
    }

    /// The body as a Kubernetes `Status`.
    fn body(&self) -> Value {
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.status.as_u16(),
        });
        if let Some((group, kind, name)) = &self.about {
            body["details"] = json!({"name": name, "group": group, "kind": kind});
        }
        body
    }
}

/// A response with a JSON body.
pub(crate) fn with_json(status: StatusCode, body: &Value) -> HttpResponse {
    with_json_text(status, body.to_string().into())
}

/// A response with serialized JSON.
pub(crate) fn with_json_text(status: StatusCode, text: Bytes) -> HttpResponse {
    response(status, "application/json", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VM: Subject<'_> = Subject { kind: "virtualmachine", name: "web" };

    #[test]
    fn a_conflict_reads_as_the_api_server_writes_it() {
        let answer = Refusal::conflict(VM, "VM is already running").answer();
        let body: Value = serde_json::from_slice(answer.body()).unwrap();
        assert_eq!(answer.status(), 409);
        assert_eq!(
            body["message"],
            "Operation cannot be fulfilled on virtualmachine.kubevirt.io \"web\": VM is already running"
        );
        assert_eq!(
            (&body["kind"], &body["code"], &body["details"]["name"]),
            (&json!("Status"), &json!(409), &json!("web"))
        );
    }

    #[test]
    fn a_refusal_about_the_guest_is_text() {
        let answer = Refusal::conflict(VM, "VMI is not running").into_guest_text().answer();
        assert_eq!(answer.status(), 500);
        assert_eq!(answer.headers()[header::CONTENT_TYPE], "text/plain; charset=utf-8");
        assert!(String::from_utf8_lossy(answer.body()).ends_with("VMI is not running\n"));
    }
}
