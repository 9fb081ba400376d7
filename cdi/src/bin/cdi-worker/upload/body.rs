//! The body of a request, and checks that it is complete.

use super::conversion::Conversion;
use super::form::{Form, Piece};
use crate::attempt_process::AttemptResult;
use crate::server::{Answer, Client};
use bytes::Bytes;
use fetch::least_rate::WORKER_RATE;
use fetch::{Decoded, RateJudge};
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, EXPECT, HeaderMap};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;
use transport::drain;

/// Silence after which a connection counts as broken.
const SILENCE: Duration = Duration::from_secs(10 * 60);

/// The body of an upload.
pub(super) struct Body {
    incoming: Incoming,
    /// The length by the request's head.
    length: Option<u64>,
    taken: u64,
    client: Client,
    form: Option<Form>,
    rate: RateJudge,
}

/// The result of passing a body to a conversion.
#[derive(Debug)]
pub(super) enum BodyResult {
    /// All bytes were passed on.
    Whole,
    /// The body is incomplete, for this reason.
    Broken(String),
    /// The conversion ended before.
    Ended(AttemptResult),
}

/// The bytes that the head of a request announces.
pub(super) fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A rate check for a client. Pauses up to the silence are tolerated.
fn judge(decoded: Decoded) -> RateJudge {
    RateJudge::new(WORKER_RATE).tolerates(SILENCE).counts(decoded)
}

impl Body {
    pub(super) fn new(request: Request<Incoming>, client: Client, form: Option<Form>) -> Body {
        let length = length(request.headers());
        let rate = judge(Decoded::default());
        Body { incoming: request.into_body(), length, taken: 0, client, form, rate }
    }

    /// The next bytes of the upload; `None` at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            if let Some(form) = &mut self.form {
                match form.next()? {
                    Piece::Bytes(bytes) => return Ok(Some(bytes)),
                    Piece::End => return Ok(None),
                    Piece::More => {}
                }
            }
            let bytes = self.arrived().await?;
            match (&mut self.form, bytes) {
                (None, bytes) => return Ok(bytes),
                (Some(form), Some(bytes)) => form.push(&bytes),
                (Some(_), None) => return Err("the form ended before its part 'file' did".to_owned()),
            }
        }
    }

    async fn arrived(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let waits = self.rate.waits();
            let frame = timeout(SILENCE, self.incoming.frame()).await;
            drop(waits);
            let frame =
                frame.map_err(|_| self.broke(&format!("nothing came for {} s", SILENCE.as_secs())))?;
            match frame {
                Some(Err(e)) => return Err(self.broke(&e.to_string())),
                Some(Ok(frame)) => {
                    // Trailers are ignored.
                    let Ok(bytes) = frame.into_data() else { continue };
                    self.taken = self.taken.saturating_add(bytes.len() as u64);
                    if let Some(slow) = self.rate.came(bytes.len()) {
                        return Err(self.broke(&slow));
                    }
                    return Ok(Some(bytes));
                }
                None if self.client.is_gone() || self.length.is_some_and(|length| length != self.taken) => {
                    return Err(self.broke("it was closed"));
                }
                None => return Ok(None),
            }
        }
    }

    fn broke(&self, why: &str) -> String {
        format!("the connection of the upload broke after {} bytes: {why}", self.taken)
    }

    /// Takes the rest of the body, so that the client comes to read its answer.
    pub(super) async fn drain(self) {
        drain(self.incoming).await;
    }
}

/// Passes the body on, at the pace of the conversion. `count` gets the number of received bytes, and fails if
/// there are too many.
pub(super) async fn pour(
    body: &mut Body,
    conversion: &mut Conversion,
    cut: &Notify,
    mut count: impl FnMut(u64) -> Result<(), String>,
) -> BodyResult {
    let mut end = conversion.end();
    body.rate = judge(conversion.decoded());
    loop {
        let bytes = tokio::select! {
            biased;
            ended = end.wait() => return BodyResult::Ended(ended),
            () = cut.notified() => return BodyResult::Broken("another connection continues the upload".to_owned()),
            bytes = body.next() => bytes,
        };
        let bytes = match bytes {
            Err(why) => return BodyResult::Broken(why),
            Ok(None) => return BodyResult::Whole,
            Ok(Some(bytes)) => bytes,
        };
        let arrived = bytes.len() as u64;
        if let Err(why) = count(arrived) {
            return BodyResult::Broken(why);
        }
        let put = tokio::select! {
            biased;
            put = conversion.put(bytes) => put,
            ended = end.wait() => return BodyResult::Ended(ended),
        };
        if put.is_err() {
            // The conversion has closed the pipe.
            return BodyResult::Ended(end.wait().await);
        }
    }
}

/// Answers without the body, and discards the bytes that still come. A client that waits for `100 Continue`
/// sends none.
pub(super) fn refuse(request: Request<Incoming>, answer: Answer) -> Answer {
    if !request.headers().contains_key(EXPECT) {
        tokio::spawn(drain(request.into_body()));
    }
    answer
}
