//! Pieces of the disk for a client: read by a thread that may block, at the pace of the connection.

use super::opened::Opened;
use crate::server::SharedProgress;
use hyper::body::Bytes;
use std::io;
use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc::{Sender, channel};
use transport::AnswerBody;

/// Bytes of one read.
const PIECE: u64 = 128 << 10;
/// The most pieces that wait for the connection.
const AHEAD: usize = 2;

/// A body of these bytes, read as the client takes them. It ends early, with the connection, if the disk
/// changes or cannot be read.
pub(super) fn pieces(opened: Arc<Opened>, range: Range<u64>, shown: Arc<SharedProgress>) -> AnswerBody {
    let (tell, pieces) = channel(AHEAD);
    let length = range.end.saturating_sub(range.start);
    tokio::task::spawn_blocking(move || read(&opened, range, &shown, &tell));
    AnswerBody::Pieces(pieces, Some(length))
}

fn read(opened: &Opened, mut range: Range<u64>, shown: &SharedProgress, tell: &Sender<io::Result<Bytes>>) {
    while !range.is_empty() {
        let len = (range.end - range.start).min(PIECE);
        let mut bytes = vec![0; len as usize];
        match opened.read(&mut bytes, range.start) {
            Ok(()) => {
                if tell.blocking_send(Ok(bytes.into())).is_err() {
                    return tracing::debug!("a client went away");
                }
            }
            Err(e) => {
                tracing::warn!("a connection ends: {}", printable::line(&e.to_string()));
                // The client may be gone.
                let _ = tell.blocking_send(Err(e));
                return;
            }
        }
        range.start += len;
        let mut progress = shown.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.sent(len, Instant::now());
    }
}
