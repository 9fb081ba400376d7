//! Stream of a VM's states, one line of JSON each.

use crate::connection::Connection;
use crate::error::unread;
use crate::error::{Error, ErrorKind, Result};
use api::launcher::State;
use hyper::body::Incoming;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// Size limit of a line with a state; one with 512 disks is shorter. States may come many times a second, and
/// each is read in full.
pub const LONGEST: usize = 64 << 10;

/// Stream of a VM's states.
pub struct States {
    who: Arc<str>,
    body: Incoming,
    connection: Connection,
    /// Time limit of a state, from its first byte to its last.
    patience: Duration,
    /// Bytes that were read after the last line.
    rest: Vec<u8>,
    /// Length of the part that was searched for the end of a line, so that it is not searched again.
    looked: usize,
    /// Arrival of the first byte of the line.
    since: Option<Instant>,
}

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the states of {}", self.who)
    }
}

impl States {
    pub(crate) fn new(who: Arc<str>, body: Incoming, connection: Connection, patience: Duration) -> States {
        States { who, body, connection, patience, rest: Vec::new(), looked: 0, since: None }
    }

    /// The next state; `None` when the launcher has ended. Cancellation-safe.
    pub async fn next(&mut self) -> Result<Option<State>> {
        loop {
            let new = self.rest.get(self.looked..).unwrap_or_default();
            if let Some(end) = new.iter().position(|byte| *byte == b'\n') {
                if self.looked + end > LONGEST {
                    return Err(self.endless());
                }
                let line: Vec<u8> = self.rest.drain(..=self.looked + end).collect();
                (self.looked, self.since) = (0, (!self.rest.is_empty()).then(Instant::now));
                return (serde_json::from_slice(&line).map(Some)).map_err(|e| {
                    Error::failed(format!("{} sends a state that is not understood", self.who))
                        .because(unread(&e))
                });
            }
            self.looked = self.rest.len();
            if self.rest.len() > LONGEST {
                return Err(self.endless());
            }
            let piece = self.connection.piece(&mut self.body);
            // A launcher may send nothing for days; but a state that has begun has a time limit.
            let piece = match self.since {
                None => piece.await,
                Some(since) => timeout_at(since + self.patience, piece).await.map_err(|_| {
                    let seconds = self.patience.as_secs();
                    let what = format!("{} sent no complete state within {seconds} s", self.who);
                    Error::new(ErrorKind::TimedOut, what)
                })?,
            };
            match piece {
                Some(Ok(data)) => {
                    self.since = self.since.or_else(|| Some(Instant::now()));
                    self.rest.extend_from_slice(&data);
                }
                // A killed launcher breaks the connection; that is a regular end.
                Some(Err(_)) | None => return Ok(None),
            }
        }
    }

    /// The next state, within a time limit.
    pub async fn next_within(&mut self, within: Duration) -> Result<Option<State>> {
        let (who, seconds) = (self.who.clone(), within.as_secs());
        let late = |_| Error::new(ErrorKind::TimedOut, format!("{who} sent no state within {seconds} s"));
        timeout(within, self.next()).await.map_err(late)?
    }

    fn endless(&self) -> Error {
        Error::new(ErrorKind::TooLarge, format!("{} sent a state of more than {LONGEST} bytes", self.who))
    }
}
