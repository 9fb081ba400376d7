//! The producer for streams: pieces of the file are pushed through a [`StreamImage`] as they arrive; what is not
//! understood yet waits in the spool, and is placed at the end.

use super::engine::Feed;
use super::job::{Cut, Job, Reached, Span, cut};
use crate::spool::Spool;
use crate::{Error, Result};
use disk_format::{Data, ReadAt, Standing, StreamImage};
use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// Bytes of the stream that are pushed at a time.
pub(crate) const PIECE: usize = 1 << 20;

/// What the producer learnt at the end of the stream.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrived {
    /// Bytes of the decoded stream.
    pub(crate) file_size: u64,
}

/// Where the reader of an image stood, for a journal.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    is_wanted: bool,
    list: Mutex<VecDeque<Standing>>,
}

/// Bytes of the stream between two places, and how many are kept: of more, every second one goes.
const APART: u64 = 4 << 20;
const MOST: usize = 16;

impl Standings {
    /// Kept where a journal wants them.
    pub(crate) fn wanted(is_wanted: bool) -> Standings {
        Standings { is_wanted, ..Standings::default() }
    }

    fn note(&self, image: &dyn StreamImage, at: u64) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let is_far = list.back().is_none_or(|last| at >= last.at.saturating_add(APART));
        if !self.is_wanted || !is_far {
            return;
        }
        let Some(standing) = image.standing() else { return };
        if list.len() >= MOST {
            let mut is_kept = false;
            list.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        list.push_back(standing);
    }

    /// The last one of which everything is done; older ones are forgotten.
    pub(crate) fn last_before(&self, done: u64) -> Option<Standing> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        while list.get(1).is_some_and(|next| next.at <= done) {
            list.pop_front();
        }
        list.front().filter(|first| first.at <= done).cloned()
    }
}

/// Reads to the end, `piece` bytes at a time. `from` is where the reader stands in the decoded stream (not 0 when an
/// earlier run is continued).
pub(crate) fn arrive(
    feed: &Feed<'_>,
    image: &mut dyn StreamImage,
    reader: &mut dyn Read,
    from: u64,
    piece: usize,
    (spool, standings): (&Spool, &Standings),
) -> Result<Arrived> {
    let (mut base, mut carry) = (from, Vec::new());
    loop {
        let mut job = feed.job();
        job.bytes.append(&mut carry);
        let want = job.bytes.len() + piece.max(image.lookback() + 1);
        let last = read_up_to(reader, &mut job.bytes, want)?;
        let pushed = image.push(base, &job.bytes, last)?;
        for range in pushed.spool {
            spool.put(range.start, part(&job.bytes, base, &range)?)?;
        }
        standings.note(image, pushed.keep_from);
        let end = base + job.bytes.len() as u64;
        carry.extend_from_slice(part(&job.bytes, base, &(pushed.keep_from..end))?);
        job.spans = vec![Span { file: base, at: 0, len: job.bytes.len() }];
        job.guest = base..end;
        job.extents = pushed.extents;
        job.reached = Reached { window: 0, file: pushed.keep_from };
        feed.send(job)?;
        base = pushed.keep_from;
        if last {
            return Ok(Arrived { file_size: end });
        }
    }
}

/// Places what the stream could not: the spooled ranges, window by window.
pub(crate) fn place(feed: &Feed<'_>, image: &mut dyn StreamImage, spool: &dyn ReadAt) -> Result<()> {
    let how = Cut { piece: PIECE as u64, gap: 0 };
    while let Some(extents) = image.leftover(spool)? {
        let (zeros, data): (Vec<_>, Vec<_>) = extents.into_iter().partition(|e| e.data == Data::Zero);
        let reached = Reached::default();
        if !zeros.is_empty() {
            feed.send(Job { extents: zeros, reached, ..feed.job() })?;
        }
        for (range, extents) in cut(data, how) {
            let spans = vec![Span { file: range.start, at: 0, len: (range.end - range.start) as usize }];
            feed.send(Job { spans, extents, reached, ..feed.job() })?;
        }
    }
    Ok(())
}

/// Fills `buf` up to `want` bytes; true at the end of the stream.
fn read_up_to(reader: &mut dyn Read, buf: &mut Vec<u8>, want: usize) -> Result<bool> {
    let missing = want.saturating_sub(buf.len());
    let got =
        reader.take(missing as u64).read_to_end(buf).map_err(|e| Error::reading("cannot read it", e))?;
    Ok(got < missing)
}

fn part<'b>(bytes: &'b [u8], base: u64, range: &std::ops::Range<u64>) -> Result<&'b [u8]> {
    let index = |o: u64| o.checked_sub(base).and_then(|o| usize::try_from(o).ok());
    index(range.start)
        .zip(index(range.end))
        .and_then(|(from, to)| bytes.get(from..to))
        .ok_or_else(|| Error::failed("the image reader asked for bytes outside the piece it was given"))
}
