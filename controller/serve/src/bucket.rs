//! Token bucket: limits how often something may be done. Pure: callers pass the time.

use std::time::Duration;
use tokio::time::Instant;

/// A token bucket: one token for each event, refilled at a constant rate.
#[derive(Clone, Debug)]
pub struct Bucket {
    left: u32,
    most: u32,
    every: Duration,
    /// Time of the last refill.
    since: Instant,
}

impl Bucket {
    /// A bucket that holds at most `most` tokens, and gets one each `every`.
    pub fn new(most: u32, every: Duration, now: Instant) -> Bucket {
        Bucket { left: most, most, every, since: now }
    }

    /// Takes a token. The error of an empty bucket is the time of the next token.
    pub fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let came = now.saturating_duration_since(self.since).as_nanos() / self.every.as_nanos().max(1);
        let came = u32::try_from(came).unwrap_or(u32::MAX);
        if came >= self.most - self.left {
            (self.left, self.since) = (self.most, now);
        } else {
            self.left += came;
            self.since += self.every * came;
        }
        if self.left == 0 {
            return Err(self.since + self.every);
        }
        self.left -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_at_once_and_then_one_in_a_while() {
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        let mut bucket = Bucket::new(3, second, now);
        assert!((0..3).all(|_| bucket.take(now).is_ok()));
        assert_eq!(bucket.take(now), Err(now + second));
        let soon = now + second / 2;
        assert_eq!(bucket.take(soon), Err(now + second), "who asks early waits no longer");
        let mut taken = 0;
        for step in 0..100u32 {
            taken += u32::from(bucket.take(now + second / 10 * step).is_ok());
        }
        assert_eq!(taken, 9, "one a second");
        let later = now + second * 1000;
        assert_eq!((0..10).filter(|_| bucket.take(later).is_ok()).count(), 3, "and no more is kept");
    }
}
