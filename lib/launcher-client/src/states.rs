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

/// Most bytes of phases that are left out of a line.
const LEFT_OUT: usize = 1 << 20;
/// Begin of the last field of a state. Older launchers add to it at every pause, without a bound.
const PHASES: &[u8] = b",\"phases\":[";

/// Stream of a VM's states.
pub struct States {
    who: Arc<str>,
    body: Incoming,
    connection: Connection,
    /// Time limit of a state, from its first byte to its last.
    patience: Duration,
    /// Bytes that were read after the last line.
    rest: Lines,
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
        States { who, body, connection, patience, rest: Lines::default(), since: None }
    }

    /// The next state; `None` when the launcher has ended. Cancellation-safe.
    pub async fn next(&mut self) -> Result<Option<State>> {
        loop {
            if let Some(line) = self.rest.next().map_err(|TooLong| self.endless())? {
                self.since = (!self.rest.bytes.is_empty()).then(Instant::now);
                return (serde_json::from_slice(&line).map(Some)).map_err(|e| {
                    Error::failed(format!("{} sends a state that is not understood", self.who))
                        .because(unread(&e))
                });
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
                    self.rest.bytes.extend_from_slice(&data);
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

/// Bytes of states that have arrived.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    /// Length of the part that was searched for the end of a line, so that it is not searched again.
    looked: usize,
    /// Bytes of the phases that were left out of the line.
    left_out: usize,
}

/// A line that is too long.
#[derive(Debug, PartialEq, Eq)]
struct TooLong;

impl Lines {
    /// The next line, once it is whole. Phases that make it too long are left out.
    fn next(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let new = self.bytes.get(self.looked..).unwrap_or_default();
        let end = new.iter().position(|byte| *byte == b'\n').map(|end| self.looked + end);
        let mut length = end.unwrap_or(self.bytes.len());
        if length > LONGEST {
            let kept = phases(self.bytes.get(..LONGEST).unwrap_or_default()).ok_or(TooLong)? + PHASES.len();
            self.left_out += length - kept;
            if self.left_out > LEFT_OUT {
                return Err(TooLong);
            }
            self.bytes.drain(kept..length);
            length = kept;
        }
        if end.is_none() {
            self.looked = length;
            return Ok(None);
        }
        let mut line: Vec<u8> = self.bytes.drain(..=length).collect();
        self.looked = 0;
        if std::mem::take(&mut self.left_out) > 0
            && let Some(end) = phases(&line)
        {
            line.truncate(end);
            line.push(b'}');
        }
        Ok(Some(line))
    }
}

/// Position of the phases in a state. Inside of a text the quotes would be escaped.
fn phases(line: &[u8]) -> Option<usize> {
    line.windows(PHASES.len()).position(|found| found == PHASES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::launcher::Life;

    /// The line of a state with so many phases, as a launcher without a bound sends it.
    fn line(number: u64, phases: usize) -> Vec<u8> {
        let phases = vec![(Life::Paused, "2026-11-30T05:51:24Z".to_owned()); phases];
        let state = State { number, life: Life::Running, agent: true, phases, ..State::default() };
        let mut line = serde_json::to_vec(&state).unwrap();
        line.push(b'\n');
        line
    }

    /// Reads lines that arrive in pieces of this size: number and phases of each state.
    fn read(bytes: &[u8], piece: usize) -> Result<Vec<(u64, usize)>, TooLong> {
        let (mut lines, mut states) = (Lines::default(), Vec::new());
        for piece in bytes.chunks(piece) {
            lines.bytes.extend_from_slice(piece);
            while let Some(line) = lines.next()? {
                let state: State = serde_json::from_slice(&line).unwrap();
                assert!(state.life == Life::Running && state.agent);
                states.push((state.number, state.phases.len()));
            }
            assert!(lines.bytes.len() <= LONGEST, "{} bytes are kept", lines.bytes.len());
        }
        Ok(states)
    }

    #[test]
    fn a_state_of_an_older_launcher_with_very_many_pauses_is_read_without_them() {
        let all = [line(1, 1), line(2, 20_000), line(3, 2), line(4, 5000)].concat();
        for piece in [1000, 4096, LONGEST, all.len()] {
            assert_eq!(read(&all, piece), Ok(vec![(1, 1), (2, 0), (3, 2), (4, 0)]), "{piece}");
        }
    }

    #[test]
    fn no_other_part_of_a_state_may_be_long_and_no_phases_are_endless() {
        let long = State { message: Some(",\"phases\":[".repeat(LONGEST)), ..State::default() };
        let long = serde_json::to_vec(&long).unwrap();
        let endless = [&b"{\"number\":1,\"phases\":["[..], &vec![b' '; LEFT_OUT + 2 * LONGEST]].concat();
        for bytes in [long, endless, line(1, 60_000), vec![b' '; LONGEST + 1]] {
            assert_eq!(read(&bytes, 4096), Err(TooLong));
        }
    }
}
