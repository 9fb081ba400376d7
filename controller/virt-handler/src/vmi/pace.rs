//! How quickly a keeper goes, whatever its launcher and its guest do.
//!
//! | what | at once | then |
//! |---|---|---|
//! | writes of the status | 8 | one a second; the newest state is written, those between are not. The last of a life is written at once |
//! | events | 16 | one every 10 s; the next one says how many were left out. That of the end is told at once |
//! | states that are listened to | 64 | ten times a second, each time the newest of those that came |
//! | questions to the guest agent | 1 | one every 5 s |
//!
//! An ordinary start takes four writes.

use serve::bucket::Bucket;
use std::time::Duration;
use tokio::time::Instant;

/// How quickly a keeper goes.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) writes: Bucket,
    pub(super) events: Bucket,
    pub(super) states: Bucket,
    pub(super) questions: Bucket,
    /// The next write waits until then.
    pub(super) write_at: Option<Instant>,
    /// Nothing is listened to until then.
    pub(super) listen_at: Option<Instant>,
    /// Events that were not told.
    pub(super) untold: u32,
}

/// States that are taken at once, where so many wait.
pub(super) const AT_ONCE: usize = 16;

impl Default for Pace {
    fn default() -> Pace {
        let now = Instant::now();
        let bucket = |most, millis| Bucket::new(most, Duration::from_millis(millis), now);
        Pace {
            writes: bucket(8, 1000),
            events: bucket(16, 10_000),
            states: bucket(64, 100),
            questions: bucket(1, 5000),
            write_at: None,
            listen_at: None,
            untold: 0,
        }
    }
}

impl Pace {
    /// The status may be written now. `last`: it is the last of its life.
    pub(super) fn may_write(&mut self, last: bool) -> bool {
        let taken = self.writes.take(Instant::now());
        self.write_at = taken.err().filter(|_| !last);
        self.write_at.is_none()
    }

    /// Something was heard: what comes next may have to wait.
    pub(super) fn heard(&mut self) {
        self.listen_at = self.states.take(Instant::now()).err();
    }

    /// An event may be told now, and how many were not told before it.
    pub(super) fn may_tell(&mut self, last: bool) -> Option<u32> {
        match self.events.take(Instant::now()) {
            Err(_) if !last => {
                self.untold = self.untold.saturating_add(1);
                None
            }
            _ => Some(std::mem::take(&mut self.untold)),
        }
    }
}
