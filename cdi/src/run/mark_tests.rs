//! Marks of a run whose storage fails.

use super::engine::{Engine, Marks, Size};
use super::job::{Job, Reached, Span};
use super::on_write::OnWrite;
use super::pace::{Pace, Took};
use super::sink::EngineSink;
use super::watch::Watch;
use crate::Error;
use disk_format::{Data, Extent};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

#[test]
fn behind_a_mark_that_failed_none_is_made() {
    const PIECE: u64 = 4096;
    let (has_failed, told) = (Mutex::new(false), Condvar::new());
    // The first piece is taken at once, and each further one when a mark has failed.
    let target = OnWrite(|guest: u64| {
        if guest > 0 {
            drop(told.wait_while(has_failed.lock().unwrap(), |has_failed| !*has_failed).unwrap());
        }
    });
    let (watch, mut marks) = (Watch::default(), 0);
    let mut write = |_: &_| {
        marks += 1;
        if marks > 1 {
            return Ok(Some(Took::default()));
        }
        *has_failed.lock().unwrap() = true;
        told.notify_all();
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
