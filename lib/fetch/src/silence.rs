//! Idle timeouts: the wait for the head of an answer, and the one for each piece of a body.

use crate::retry::silent;
use crate::{Error, Fault, FaultKind, RateJudge};
use bytes::Bytes;
use reqwest::Response;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time without a byte while one was awaited, over all attempts since the last byte.
pub struct Silence {
    idle: Duration,
    step: Duration,
    spent: Duration,
    rate: Option<Arc<RateJudge>>,
}

/// The result of a wait for the next piece of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum NextPiece {
    /// A piece of the body.
    Bytes(Bytes),
    /// The end of the body.
    End,
    /// Silence of this duration; the idle time is not over.
    Nothing(Duration),
}

impl Silence {
    /// A timeout after `idle` without a byte.
    pub fn new(idle: Duration) -> Silence {
        Silence::in_steps(idle, idle)
    }

    /// As [`Self::new`], but a wait for a body returns [`NextPiece::Nothing`] after each `step`. The caller may
    /// then try another connection, since this one may be dead although the server is not, or the rate is
    /// checked.
    pub fn in_steps(idle: Duration, step: Duration) -> Silence {
        Silence { idle, step, spent: Duration::ZERO, rate: None }
    }

    /// The same timeout, where a body that comes too slowly is a fault too.
    pub fn with_rate_judge(self, rate: Option<Arc<RateJudge>>) -> Silence {
        Silence { rate, ..self }
    }

    /// Time without a byte after which the timeout expires.
    pub fn idle(&self) -> Duration {
        self.idle
    }

    /// Waits for the head of an answer; `None` after the idle time. A slow server gets all of it.
    pub async fn head<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let rate = self.rate.clone();
        let _waits = rate.as_deref().map(RateJudge::waits);
        self.wait_until(self.idle, work).await
    }

    /// Waits for the next piece of the body of `name`. No byte within the idle time is a fault, and so is a
    /// connection that breaks. `wanted` names the awaited piece in the error.
    pub async fn piece(
        &mut self,
        response: &mut Response,
        name: &str,
        wanted: impl Fn() -> String,
    ) -> Result<NextPiece, Fault> {
        let rate = self.rate.clone();
        let waits = rate.as_deref().map(RateJudge::waits);
        let came = self.next(response.chunk()).await;
        drop(waits);
        let length = came.as_ref().and_then(|piece| piece.as_ref().ok()?.as_ref().map(Bytes::len));
        if let Some(slow) = rate.and_then(|rate| rate.came(length.unwrap_or(0))) {
            let what = format!("{name}: {slow} while waiting for {}", wanted());
            return Err(Fault::from_kind(FaultKind::Slow, what));
        }
        match came {
            Some(Ok(Some(bytes))) => {
                self.broken();
                Ok(NextPiece::Bytes(bytes))
            }
            Some(Ok(None)) => Ok(NextPiece::End),
            Some(Err(e)) => {
                let what = format!("{name}: the connection broke while reading {}", wanted());
                Err(Fault::new(FaultKind::Cut, Error::failed(what).because(e.without_url())))
            }
            None if self.spent < self.idle => Ok(NextPiece::Nothing(self.spent)),
            None => Err(silent(name, &wanted(), self.idle)),
        }
    }

    /// Starts the time anew, since a byte has come.
    pub fn broken(&mut self) {
        self.spent = Duration::ZERO;
    }

    /// Waits to the end of the present step; the last step ends with the idle time.
    async fn next<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let step = self.step.max(Duration::from_millis(1));
        let steps = self.spent.as_nanos() / step.as_nanos() + 1;
        let end = u32::try_from(steps).ok().and_then(|steps| step.checked_mul(steps));
        self.wait_until(end.unwrap_or(self.idle).min(self.idle), work).await
    }

    async fn wait_until<T>(&mut self, end: Duration, work: impl Future<Output = T>) -> Option<T> {
        let since = Instant::now();
        let done = tokio::time::timeout(end.saturating_sub(self.spent), work).await.ok();
        self.spent = if done.is_some() { self.spent + since.elapsed() } else { end.max(self.spent) };
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    const IDLE: Duration = Duration::from_millis(40);

    #[tokio::test]
    async fn silence_is_counted_over_connections_and_a_byte_breaks_it() {
        let mut silence = Silence::in_steps(IDLE, IDLE / 2);
        assert_eq!((silence.next(pending::<()>()).await, silence.spent), (None, IDLE / 2));
        silence.broken();
        assert_eq!((silence.next(pending::<()>()).await, silence.spent), (None, IDLE / 2));
        assert_eq!((silence.head(pending::<()>()).await, silence.spent), (None, IDLE));
        assert_eq!(silence.next(ready(7)).await, Some(7), "what is there costs no time");
        let mut alone = Silence::new(IDLE);
        assert_eq!((alone.next(pending::<()>()).await, alone.spent), (None, IDLE), "no other may be tried");
    }

    #[tokio::test]
    async fn the_last_step_ends_with_the_idle_time() {
        for (step, ends) in [(15, vec![15, 30, 40]), (40, vec![40]), (90, vec![40]), (0, vec![1, 2])] {
            let mut silence = Silence::in_steps(IDLE, Duration::from_millis(step));
            for end in ends {
                assert_eq!(silence.next(pending::<()>()).await, None);
                assert_eq!(silence.spent, Duration::from_millis(end), "steps of {step} ms");
            }
        }
    }
}
