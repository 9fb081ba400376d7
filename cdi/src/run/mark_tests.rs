//! Marks of a run whose storage fails.

use super::engine::{End, Engine, Marks, Size};
use super::job::{Job, Reached, Span};
use super::on_write::OnWrite;
use super::pace::{Pace, Took};
use super::sink::EngineSink;
use super::watch::Watch;
use crate::target::Target;
use crate::{Error, ErrorKind, Result};
use disk_format::{Data, Extent};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

const PIECE: u64 = 4096;

#[test]
fn behind_a_mark_that_failed_none_is_made() {
    let (has_failed, told) = (Mutex::new(false), Condvar::new());
    // The first piece is taken at once, and each further one when a mark has failed.
    let target = OnWrite(|guest: u64| {
        if guest > 0 {
            drop(told.wait_while(has_failed.lock().unwrap(), |has_failed| !*has_failed).unwrap());
        }
    });
    let mut marks = 0;
    let mut write = |_: &_| {
        marks += 1;
        if marks > 1 {
            return Ok(Some(Took::default()));
        }
        *has_failed.lock().unwrap() = true;
        told.notify_all();
        Err(Error::failed("the sync has failed"))
    };
    let pace = Pace::new(Some(Duration::ZERO));
    let marking = Marks { pace, last: Reached::default(), write: &mut write };
    let e = run(2, &target, &Watch::default(), marking).unwrap_err();
    assert_eq!(e.to_string(), "the sync has failed");
    assert_eq!(marks, 1, "the second piece was marked, though the first may be lost");
}

/// Runs that are stopped while they write their only piece, long before a mark is due.
#[test]
fn a_run_that_is_stopped_before_its_first_mark_leaves_one_where_it_may_be_continued() {
    let end = Reached { window: 0, file: PIECE };
    type Stop<'a> = (fn() -> Error, &'a [Reached]);
    let stops: [Stop<'_>; 3] = [
        (|| Error::new(ErrorKind::Interrupted, "interrupted"), &[end]),
        (|| Error::failed("the cable is out"), &[end]),
        (|| Error::refused("an L2 table overlaps data"), &[]),
    ];
    for (error, expected) in stops {
        // A run that was continued from there leaves a mark, too, though nothing new is done.
        for last in [Reached::default(), end] {
            let (watch, mut marks) = (Watch::default(), vec![]);
            let target = OnWrite(|_: u64| watch.fail(error()));
            let mut write = |end: &End| {
                marks.push(end.reached);
                Ok(Some(Took::default()))
            };
            let pace = Pace::new(Some(Duration::from_secs(3600)));
            let e = run(1, &target, &watch, Marks { pace, last, write: &mut write }).unwrap_err();
            assert_eq!(e.to_string(), error().to_string());
            assert_eq!(marks, expected, "{e}, from {last:?}");
        }
    }
}

#[test]
fn a_run_that_reaches_nothing_new_makes_no_mark() {
    let watch = Watch::default();
    let mut write = |end: &End| -> Result<Option<Took>> { panic!("{end:?} is marked again") };
    let last = Reached { window: 0, file: PIECE };
    let marking = Marks { pace: Pace::new(Some(Duration::ZERO)), last, write: &mut write };
    run(1, &OnWrite(|_: u64| {}), &watch, marking).unwrap();
}

/// Runs an engine with one worker over pieces of a disk, one job each.
fn run<'a>(pieces: u64, target: &'a dyn Target, watch: &'a Watch, marks: Marks<'a>) -> Result<End> {
    let size = Size { workers: 1, readers: 0, buffers: 4, sum: false };
    let sink = EngineSink::Any(target);
    Engine { bytes: Some(&Ones), sink, watch, size, marks: Some(marks) }.run(|feed| {
        for at in (0..pieces).map(|piece| piece * PIECE) {
            let extents = vec![Extent { guest: at, len: PIECE, data: Data::Raw { at } }];
            let spans = vec![Span { file: at, at: 0, len: PIECE as usize }];
            let reached = Reached { window: 0, file: at + PIECE };
            feed.send(Job { spans, extents, reached, ..feed.job() })?;
        }
        Ok(())
    })
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
