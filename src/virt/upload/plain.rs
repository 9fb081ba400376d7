//! An attempt by `upload-async` or `upload`: all bytes, from the first one, in one request.

use super::attempt::{AttemptResult, lost, unexpected};
use super::proxy::{Answer, Proxy};
use super::source::Form;
use super::{Bytes, address};
use crate::error::Result;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;

/// Sends all bytes in one request.
pub(super) async fn attempt(proxy: &Proxy, token: &str, bytes: &Bytes) -> Result<AttemptResult> {
    let early = address::early(proxy.base());
    // A server without an answer to the probe gets the request of the older API.
    let probe = proxy.ask(proxy.request(Method::HEAD, &early, token)).await;
    let url = match probe {
        Ok(Answer { status: 200, .. }) => early,
        _ => address::late(proxy.base()),
    };
    let request = proxy.request(Method::POST, &url, token).header(CONTENT_TYPE, "application/octet-stream");
    Ok(match proxy.pour(request, bytes.body(Form::Whole, 0)?, bytes.size()).await {
        Ok(answer) if answer.status == 200 => AttemptResult::Done,
        Ok(answer) => unexpected(&answer),
        Err(said) => lost(said),
    })
}
