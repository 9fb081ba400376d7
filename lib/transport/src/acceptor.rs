//! Acceptance of connections, and the log of those that could not be accepted: one line a second, with their
//! number.

use std::io;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Time between two log lines.
const EVERY: Duration = Duration::from_secs(1);
/// Pause after a failure.
const PAUSE: Duration = Duration::from_millis(10);

/// Accepts the connections of a listener, one after the other.
#[derive(Debug, Default)]
pub struct Acceptor(LogLimiter);

impl Acceptor {
    /// Waits for the next connection by `accept`. `relieve` is called after each failure: most likely the process
    /// has no free file descriptors, and a connection that can be spared should be closed.
    pub async fn next<C, F>(&mut self, accept: impl Fn() -> F, relieve: impl Fn()) -> C
    where
        F: Future<Output = io::Result<C>>,
    {
        loop {
            match accept().await {
                Ok(connection) => return connection,
                Err(error) => {
                    if let Some(count) = self.0.add(Instant::now()) {
                        tracing::warn!(
                            "cannot accept connections ({count} times since the last message): {error}"
                        );
                    }
                    relieve();
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

/// Limit of log lines of one kind: one a second, with the number of events. Pure: callers pass the time.
#[derive(Debug, Default)]
pub struct LogLimiter {
    unlogged: u64,
    next_line: Option<Instant>,
}

impl LogLimiter {
    /// Counts an event. Returns the number of events since the last line if a line is due.
    pub fn add(&mut self, now: Instant) -> Option<u64> {
        self.unlogged += 1;
        if self.next_line.is_some_and(|due| now < due) {
            return None;
        }
        self.next_line = Some(now + EVERY);
        Some(std::mem::take(&mut self.unlogged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_is_counted_and_one_line_a_second_is_written() {
        let begin = Instant::now();
        let mut missed = LogLimiter::default();
        let step = |number: u32| begin + Duration::from_millis(10) * number;
        let told: Vec<_> = (0..=300).filter_map(|number| missed.add(step(number))).collect();
        assert_eq!(told, [1, 100, 100, 100]);
        // The last failures are logged with the next one.
        assert_eq!((0..5).filter_map(|_| missed.add(step(301))).count(), 0);
        assert_eq!(missed.add(step(9000)), Some(6));
    }
}
