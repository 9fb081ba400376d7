//! Marks of a run whose storage fails.

use super::engine::{Engine, Marks, Size};
use super::job::{Job, Reached, Span};
use super::pace::{Pace, Took};
use super::sink::EngineSink;
use super::watch::Watch;
use crate::target::{Finished, Order, Target};
use crate::{Error, Result};
use disk_format::{Data, Extent};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Takes the first piece at once, and each further one when a mark has failed.
#[derive(Default)]
struct Waiting {
    has_failed: Mutex<bool>,
    told: Condvar,
}

impl Waiting {
    fn fail(&self) {
        *self.has_failed.lock().unwrap() = true;
        self.told.notify_all();
    }
}

impl Target for Waiting {
    fn order(&self) -> Order {
        Order::Any
    }

    fn write(&self, guest: u64, _: &[u8]) -> Result<()> {
        if guest > 0 {
            drop(self.told.wait_while(self.has_failed.lock().unwrap(), |has_failed| !*has_failed).unwrap());
        }
        Ok(())
    }

    fn zero(&self, _: u64, _: u64) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Finished> {
        Ok(Finished::default())
    }
}

#[test]
fn behind_a_mark_that_failed_none_is_made() {
    const PIECE: u64 = 4096;
    let (target, watch, mut marks) = (Waiting::default(), Watch::default(), 0);
    let mut write = |_: &_| {
        marks += 1;
        if marks > 1 {
            return Ok(Some(Took::default()));
        }
        target.fail();
        Err(Error::failed("the sync has failed"))
    };
    let size = Size { workers: 1, readers: 0, buffers: 4, sum: false };
    let engine = Engine {
        bytes: Some(&Ones),
        sink: EngineSink::Any(&target),
        watch: &watch,
        size,
        marks: Some(Marks {
            pace: Pace::new(Some(Duration::ZERO)),
            last: Reached::default(),
            write: &mut write,
        }),
    };
    let e = engine
        .run(|feed| {
            for at in [0, PIECE] {
                let extents = vec![Extent { guest: at, len: PIECE, data: Data::Raw { at } }];
                let spans = vec![Span { file: at, at: 0, len: PIECE as usize }];
                let reached = Reached { window: 0, file: at + PIECE };
                feed.send(Job { spans, extents, reached, ..feed.job() })?;
            }
            Ok(())
        })
        .unwrap_err();
    assert_eq!(e.to_string(), "the sync has failed");
    assert_eq!(marks, 1, "the second piece was marked, though the first may be lost");
}

struct Ones;

impl disk_format::ReadAt for Ones {
    fn size(&self) -> u64 {
        8192
    }

    fn read_exact_at(&self, buf: &mut [u8], _: u64) -> std::io::Result<()> {
        buf.fill(1);
        Ok(())
    }
}
