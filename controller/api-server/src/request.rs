//! One request, its measure, and what is said of it where it fails.

use crate::error::{Error, ErrorKind, Result};
use http::request::Builder;
use kubernetes::objects::Key;
use serde_json::Value;
use std::time::{Duration, Instant};

/// The content type of JSON objects.
pub(super) const JSON: &str = "application/json";

/// Sends a request about an object, with a body of this content type, and waits so long for the answer.
pub(super) async fn send(
    client: &kube::Client,
    doing: &str,
    key: &Key,
    request: Builder,
    body: Option<(&str, &Value)>,
    patience: Duration,
) -> Result<Value> {
    let (kind, bytes) = match body {
        Some((kind, body)) => (kind, body.to_string().into_bytes()),
        None => (JSON, Vec::new()),
    };
    let request = request
        .header(http::header::CONTENT_TYPE, kind)
        .body(bytes)
        .map_err(|e| Error::setup(format!("cannot {doing} {key}: its name makes no address"), e))?;
    let verb = request.method().to_string();
    let began = Instant::now();
    let answer = tokio::time::timeout(patience, client.request::<Value>(request)).await;
    crate::metrics::request(&verb, began, answer.as_ref().ok().map(|answer| answer.as_ref()));
    match answer {
        Ok(answer) => answer.map_err(|error| Error::of_client(doing, key, error)),
        Err(_) => {
            let seconds = patience.as_secs();
            let what = format!("cannot {doing} {key}: the API server did not answer within {seconds} s");
            Err(Error::new(ErrorKind::Unreachable, what))
        }
    }
}
