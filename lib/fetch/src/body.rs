//! Bodies that must be short: documents, tokens, the text of an error.

use crate::retry::{seconds, within};
use crate::{Fault, FaultKind, NextPiece, Silence};
use reqwest::Response;
use std::time::Duration;

/// Time limits of a short body.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// Longest time without a byte.
    pub idle: Duration,
    /// Longest time for the whole body: a byte now and then is not progress.
    pub all: Duration,
}

impl Wait {
    /// Limits for which the whole body may take twice the idle time.
    pub fn with_idle(idle: Duration) -> Wait {
        Wait { idle, all: idle.saturating_mul(2) }
    }
}

/// Reads a body that must be short, in size and in time.
pub async fn short(response: &mut Response, most: usize, wait: Wait, name: &str) -> Result<Vec<u8>, Fault> {
    let whole = within(wait.all, pieces(response, most, wait.idle, name)).await;
    whole.unwrap_or_else(|| {
        let what = format!("{name}: the answer was not complete after {} s", seconds(wait.all));
        Err(Fault::from_kind(FaultKind::Slow, what))
    })
}

async fn pieces(response: &mut Response, most: usize, idle: Duration, name: &str) -> Result<Vec<u8>, Fault> {
    let mut body = Vec::new();
    let too_long = || {
        let what = format!("{name}: the answer is longer than {} KiB; that is refused", most >> 10);
        Fault::from_kind(FaultKind::Wrong, what)
    };
    if response.content_length().is_some_and(|length| length > most as u64) {
        return Err(too_long());
    }
    let mut silence = Silence::new(idle);
    loop {
        match silence.piece(response, name, || "the rest of the answer".into()).await? {
            NextPiece::Bytes(bytes) if body.len() + bytes.len() > most => return Err(too_long()),
            NextPiece::Bytes(bytes) => body.extend_from_slice(&bytes),
            NextPiece::Nothing(_) => {}
            NextPiece::End => return Ok(body),
        }
    }
}
