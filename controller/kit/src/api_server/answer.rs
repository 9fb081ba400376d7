//! Answers, and the refusals as the API server writes them.

use super::request::{Request, Selection};
use http::StatusCode;
use serde_json::{Value, json};

/// Answer to a request.
pub(super) enum Answer {
    /// Status and body.
    Whole(StatusCode, String),
    /// Events behind a version.
    Watch(Selection, u64),
}

pub(super) fn ok(object: &Value) -> Answer {
    Answer::Whole(StatusCode::OK, object.to_string())
}

pub(super) fn created(object: &Value) -> Answer {
    Answer::Whole(StatusCode::CREATED, object.to_string())
}

pub(super) fn refusal(status: StatusCode, reason: &str, message: &str) -> Answer {
    Answer::Whole(status, failure(status.as_u16(), reason, message))
}

/// Body of a refusal: a Status.
pub fn failure(code: u16, reason: &str, message: &str) -> String {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": reason, "code": code,
    });
    status.to_string()
}

pub(super) fn not_found(request: &Request) -> Answer {
    let what = request.line.split('?').next().unwrap_or_default();
    refusal(StatusCode::NOT_FOUND, "NotFound", &format!("{what} not found"))
}

pub(super) fn conflict(path: &str) -> Answer {
    refusal(StatusCode::CONFLICT, "Conflict", &format!("{path}: the object has been modified"))
}
