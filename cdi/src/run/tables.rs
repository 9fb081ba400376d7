//! The producer for sources that can seek: the image's tables first, window by window, then its data.
//!
//! Any order: data in file order, so every byte is read once and roughly in sequence. Guest order (qcow2 and
//! stdout targets): stretches of the guest's disk, each with the reads it needs.

use super::engine::Feed;
use super::job::{Cut, Job, Reached, Span, cut, halves, split};
use crate::Result;
use disk_format::{Data, Extent, Image, Window};

/// Length of the stretches in guest order: no cluster of any format is larger.
pub(crate) const STRETCH: u64 = 2 << 20;

/// Sends jobs for the whole image, from the end of an earlier run's progress.
pub(crate) fn any_order(feed: &Feed<'_>, image: &dyn Image, how: Cut, from: Reached) -> Result<()> {
    let mut at = Some(from.window).filter(|_| image.virtual_size() > 0);
    while let Some(window) = at {
        let Window { extents, next } = image.window(window)?;
        let done_to = if window == from.window { from.file } else { 0 };
        window_in_file_order(feed, extents, how, Reached { window, file: done_to })?;
        at = next;
    }
    Ok(())
}

fn window_in_file_order(feed: &Feed<'_>, extents: Vec<Extent>, how: Cut, done: Reached) -> Result<()> {
    let (zeros, data): (Vec<_>, Vec<_>) = extents.into_iter().partition(|e| e.data == Data::Zero);
    if !zeros.is_empty() {
        // Zeroing again is harmless, so zeros count as nothing done.
        feed.send(Job { extents: zeros, reached: done, ..feed.job() })?;
    }
    for (range, extents) in cut(data, how) {
        let reached = Reached { window: done.window, file: range.end };
        // A read that ended before the mark was durable then. One that only began before it is repeated.
        if range.end <= done.file {
            extents.iter().for_each(|e| feed.watch.advance(e.len));
            continue;
        }
        let spans = vec![Span { file: range.start, at: 0, len: (range.end - range.start) as usize }];
        feed.send(Job { spans, extents, reached, ..feed.job() })?;
    }
    Ok(())
}

/// Sends stretches in guest order.
pub(crate) fn guest_order(feed: &Feed<'_>, image: &dyn Image, gap: u64) -> Result<()> {
    let mut stretch = Stretch { gap, extents: vec![] };
    let mut at = Some(0).filter(|_| image.virtual_size() > 0);
    while let Some(from) = at {
        let Window { extents, next } = image.window(from)?;
        for e in extents {
            stretch.push(feed, e)?;
        }
        at = next;
    }
    stretch.flush(feed)
}

/// Sends the zeros behind a disk that is smaller than its target.
pub(crate) fn grow(feed: &Feed<'_>, disk: u64, size: u64) -> Result<()> {
    if size <= disk {
        return Ok(());
    }
    let zeros = vec![Extent { guest: disk, len: size - disk, data: Data::Zero }];
    feed.send(Job { guest: disk..size, extents: zeros, ..feed.job() })
}

/// Collects extents until a stretch is full.
struct Stretch {
    gap: u64,
    extents: Vec<Extent>,
}

impl Stretch {
    fn push(&mut self, feed: &Feed<'_>, e: Extent) -> Result<()> {
        if e.data != Data::Zero {
            return split(e, STRETCH).try_for_each(|part| self.push_part(feed, part));
        }
        // Zeros: up to the next boundary with the pending extents, then all whole stretches as one job, then
        // the rest.
        let to_boundary = (STRETCH - e.guest % STRETCH) % STRETCH;
        let mut rest = e;
        if to_boundary > 0 && rest.len > to_boundary {
            let (head, tail) = halves(rest, to_boundary);
            self.push_part(feed, head)?;
            rest = tail;
        }
        let whole = rest.len - rest.len % STRETCH;
        if rest.guest.is_multiple_of(STRETCH) && whole > STRETCH {
            self.flush(feed)?;
            feed.send(Job {
                guest: rest.guest..rest.guest + whole,
                extents: vec![Extent { len: whole, ..rest }],
                ..feed.job()
            })?;
            if rest.len == whole {
                return Ok(());
            }
            rest = halves(rest, whole).1;
        }
        self.push_part(feed, rest)
    }

    fn push_part(&mut self, feed: &Feed<'_>, e: Extent) -> Result<()> {
        self.extents.push(e);
        if e.end().is_multiple_of(STRETCH) { self.flush(feed) } else { Ok(()) }
    }

    fn flush(&mut self, feed: &Feed<'_>) -> Result<()> {
        let (Some(first), Some(last)) = (self.extents.first(), self.extents.last()) else {
            return Ok(());
        };
        let guest = first.guest..last.end();
        let extents = std::mem::take(&mut self.extents);
        let spans = spans(&extents, self.gap);
        feed.send(Job { guest, spans, extents, ..feed.job() })
    }
}

/// The reads for a stretch. Ranges that are `gap` apart are read as one, unless the gaps (small clusters,
/// scattered far apart) sum up to more than the stretch itself.
fn spans(extents: &[Extent], mut gap: u64) -> Vec<Span> {
    loop {
        let data = extents.iter().copied().filter(|e| e.data != Data::Zero).collect();
        let mut spans: Vec<Span> = vec![];
        for (range, _) in cut(data, Cut { piece: u64::MAX, gap }) {
            let at = spans.last().map_or(0, |s| s.at + s.len);
            spans.push(Span { file: range.start, at, len: (range.end - range.start) as usize });
        }
        if gap == 0 || spans.last().is_none_or(|s| (s.at + s.len) as u64 <= 2 * STRETCH) {
            return spans;
        }
        gap /= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_clusters_do_not_fill_the_memory_with_what_lies_between_them() {
        for (cluster, apart) in [(512, 64 << 10), (512, 20 << 10), (4096, 256 << 10), (65536, 70_000)] {
            let extents: Vec<_> = (0..STRETCH / cluster)
                .map(|i| Extent { guest: i * cluster, len: cluster, data: Data::Raw { at: i * apart } })
                .collect();
            let spans = spans(&extents, 256 << 10);
            let read = spans.iter().map(|s| s.len as u64).sum::<u64>();
            assert!((STRETCH..=2 * STRETCH).contains(&read), "{cluster} {apart}: {read}");
        }
        let near = [0, 200 << 10].map(|at| Extent { guest: at, len: 4096, data: Data::Raw { at } });
        assert_eq!(spans(&near, 256 << 10).len(), 1);
    }
}
