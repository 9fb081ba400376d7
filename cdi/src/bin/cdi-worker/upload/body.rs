//! The bytes of a request, and whether they are all.

use super::conversion::Conversion;
use super::form::{Form, Piece};
use crate::running::Ended;
use crate::server::{Answer, Client};
use bytes::Bytes;
use fetch::least_rate::UNWATCHED;
use fetch::{Decoded, RateJudge};
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, EXPECT, HeaderMap};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Silence after which a connection counts as broken.
const SILENCE: Duration = Duration::from_secs(10 * 60);
/// How long what a client still sends is taken when it has its answer: it would not read the answer otherwise.
const DRAIN: Duration = Duration::from_secs(5);

/// The body of an upload.
pub(super) struct Body {
    incoming: Incoming,
    /// Bytes by its head.
    length: Option<u64>,
    taken: u64,
    client: Client,
    form: Option<Form>,
    rate: RateJudge,
}

/// How pouring a body into a conversion ended.
#[derive(Debug)]
pub(super) enum Poured {
    /// All its bytes were handed on.
    Whole,
    /// They do not all come, and this is why.
    Broken(String),
    /// The conversion ended before.
    Ended(Ended),
}

/// The bytes that the head of a request announces.
pub(super) fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Gives up a client that sends too little. One that pauses is told by its silence.
fn judge(decoded: Decoded) -> RateJudge {
    RateJudge::new(UNWATCHED).tolerates(SILENCE).counts(decoded)
}

impl Body {
    pub(super) fn new(request: Request<Incoming>, client: Client, form: Option<Form>) -> Body {
        let length = length(request.headers());
        let rate = judge(Decoded::default());
        Body { incoming: request.into_body(), length, taken: 0, client, form, rate }
    }

    /// The next bytes of the upload; nothing at its end.
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
                    // Trailers say nothing here.
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

/// Hands the body on, at the pace of the conversion; `count` hears of bytes that were, and says how many may still come.
pub(super) async fn pour(
    body: &mut Body,
    conversion: &mut Conversion,
    cut: &Notify,
    mut count: impl FnMut(u64) -> Result<(), String>,
) -> Poured {
    let mut end = conversion.end();
    body.rate = judge(conversion.decoded());
    loop {
        let bytes = tokio::select! {
            biased;
            ended = end.wait() => return Poured::Ended(ended),
            () = cut.notified() => return Poured::Broken("another connection goes on with the upload".to_owned()),
            bytes = body.next() => bytes,
        };
        let bytes = match bytes {
            Err(why) => return Poured::Broken(why),
            Ok(None) => return Poured::Whole,
            Ok(Some(bytes)) => bytes,
        };
        let arrived = bytes.len() as u64;
        if let Err(why) = count(arrived) {
            return Poured::Broken(why);
        }
        let put = tokio::select! {
            biased;
            put = conversion.put(bytes) => put,
            ended = end.wait() => return Poured::Ended(ended),
        };
        if put.is_err() {
            // Nobody reads the pipe any more.
            return Poured::Ended(end.wait().await);
        }
    }
}

/// Answers without the body, and takes what comes of it nevertheless. A client that waits for `100 Continue` sends none.
pub(super) fn refuse(request: Request<Incoming>, answer: Answer) -> Answer {
    if !request.headers().contains_key(EXPECT) {
        tokio::spawn(drain(request.into_body()));
    }
    answer
}

async fn drain(mut body: Incoming) {
    let rest = async { while body.frame().await.is_some_and(|frame| frame.is_ok()) {} };
    // Whatever comes later is not waited for.
    let _ = timeout(DRAIN, rest).await;
}
