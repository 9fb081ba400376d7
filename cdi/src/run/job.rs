//! Jobs: some bytes of the image file with their extents. [`cut`] makes reads of a window's extents.

use disk_format::{Data, Extent};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Bytes of the image file that are read at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    /// Offset in the file.
    pub(crate) file: u64,
    /// Offset in the job's buffer.
    pub(crate) at: usize,
    pub(crate) len: usize,
}

/// A unit of work. In any order it is one span with its extents; in guest order it is one stretch of the
/// guest's disk with as many spans as that needs.
#[derive(Debug, Default)]
pub(crate) struct Job {
    /// Position in the run's fixed order.
    pub(crate) seq: u64,
    /// The guest range of the job (guest order only).
    pub(crate) guest: Range<u64>,
    pub(crate) spans: Vec<Span>,
    pub(crate) extents: Vec<Extent>,
    pub(crate) bytes: Vec<u8>,
    /// The progress for the journal, once this job and all before it are durable.
    pub(crate) reached: Reached,
}

/// The progress in the fixed order after a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    /// The window of the table that is being worked on.
    pub(crate) window: u64,
    /// Everything of that window whose bytes lie before this offset of the file is done. For a stream: the
    /// offset in the decoded stream.
    pub(crate) file: u64,
}

impl Job {
    /// The bytes of a range of the file, from the spans that were read.
    pub(crate) fn slice(&self, file: Range<u64>) -> Option<&[u8]> {
        let i = self.spans.partition_point(|s| s.file <= file.start).checked_sub(1)?;
        let span = &self.spans[i];
        let from = usize::try_from(file.start - span.file).ok()?;
        let len = usize::try_from(file.end - file.start).ok()?;
        if from.checked_add(len)? > span.len {
            return None;
        }
        self.bytes.get(span.at + from..span.at + from + len)
    }

    /// The number of bytes of its spans.
    pub(crate) fn read_len(&self) -> usize {
        self.spans.last().map_or(0, |s| s.at + s.len)
    }
}

/// Limits for the reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    /// The size that a read should not exceed (a larger extent is still one read, unless it can be split).
    pub(crate) piece: u64,
    /// Two ranges this close are read as one.
    pub(crate) gap: u64,
}

/// Cuts a window's data extents into reads in file order. Long raw extents are split; packed ones never.
/// Yields the extents of one read with the file range that covers them. Each read ends behind the one before
/// it, also if extents share bytes of the file: the end of a read shows which reads are done.
pub(crate) fn cut(extents: Vec<Extent>, how: Cut) -> impl Iterator<Item = (Range<u64>, Vec<Extent>)> {
    let mut rest = Pieces::of(extents, how.piece).peekable();
    std::iter::from_fn(move || {
        let first = rest.next()?;
        let mut range = first.file_range()?;
        let mut taken = vec![first];
        while let Some(next) = rest.peek().and_then(Extent::file_range) {
            let end = range.end.max(next.end);
            let longer = end > range.end && end - range.start > how.piece;
            if next.start > range.end.saturating_add(how.gap) || longer {
                break;
            }
            range.end = end;
            taken.extend(rest.next());
        }
        Some((range, taken))
    })
}

/// Extents in file order, long ones in pieces. An image may use the same bytes in several places, and then
/// the pieces of one extent lie between those of another.
struct Pieces {
    whole: std::iter::Peekable<std::vec::IntoIter<Extent>>,
    /// The rest of extents that have been split, by their position in the file.
    tails: BinaryHeap<Reverse<(u64, u64, u64)>>,
    piece: u64,
}

impl Pieces {
    fn of(mut extents: Vec<Extent>, piece: u64) -> Self {
        if !extents.is_sorted_by_key(place) {
            extents.sort_unstable_by_key(place);
        }
        Pieces { whole: extents.into_iter().peekable(), tails: BinaryHeap::new(), piece }
    }
}

impl Iterator for Pieces {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let tail = self.tails.peek().map(|t| t.0.0);
        let e = match (tail, self.whole.peek().map(place)) {
            (Some(tail), whole) if whole.is_none_or(|whole| tail <= whole) => {
                let Reverse((at, guest, len)) = self.tails.pop()?;
                Extent { guest, len, data: Data::Raw { at } }
            }
            _ => self.whole.next()?,
        };
        let first = self.piece - e.guest % self.piece;
        let Data::Raw { at } = e.data else { return Some(e) };
        if e.len > first {
            self.tails.push(Reverse((at + first, e.guest + first, e.len - first)));
        }
        Some(Extent { len: e.len.min(first), ..e })
    }
}

fn place(e: &Extent) -> u64 {
    e.file_range().map_or(0, |r| r.start)
}

/// Splits a raw extent into pieces whose ends lie at multiples of `piece` in the guest's disk, so that
/// zero-scanning and verification see the same blocks whatever the window.
pub(crate) fn split(extent: Extent, piece: u64) -> impl Iterator<Item = Extent> {
    let mut rest = Some(extent);
    std::iter::from_fn(move || {
        let e = rest.take()?;
        let first = piece - e.guest % piece;
        if matches!(e.data, Data::Packed { .. }) || e.len <= first {
            return Some(e);
        }
        let (head, tail) = halves(e, first);
        rest = Some(tail);
        Some(head)
    })
}

/// Splits an extent in two; not for packed ones.
pub(crate) fn halves(e: Extent, len: u64) -> (Extent, Extent) {
    let tail = match e.data {
        Data::Raw { at } => Data::Raw { at: at + len },
        other => other,
    };
    (Extent { len, ..e }, Extent { guest: e.guest + len, len: e.len - len, data: tail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use disk_format::Codec;

    fn raw(guest: u64, len: u64, at: u64) -> Extent {
        Extent { guest, len, data: Data::Raw { at } }
    }

    #[test]
    fn neighbours_are_read_together_and_strangers_apart() {
        let how = Cut { piece: 1000, gap: 10 };
        let jobs: Vec<_> = cut(vec![raw(0, 100, 500), raw(100, 100, 0), raw(200, 50, 105)], how).collect();
        assert_eq!(jobs.len(), 2);
        assert_eq!(jobs[0].0, 0..155);
        assert_eq!(jobs[0].1.len(), 2);
        assert_eq!(jobs[1].0, 500..600);
    }

    #[test]
    fn long_raw_extents_are_split_where_the_guest_is_aligned() {
        let how = Cut { piece: 1000, gap: 0 };
        let jobs: Vec<_> = cut(vec![raw(300, 2000, 7)], how).collect();
        let guests: Vec<_> = jobs.iter().flat_map(|j| &j.1).map(|e| (e.guest, e.len)).collect();
        assert_eq!(guests, [(300, 700), (1000, 1000), (2000, 300)]);
        assert_eq!(jobs[1].0, 707..1707);
    }

    #[test]
    fn packed_extents_stay_whole() {
        let data = Data::Packed { at: 3, size: 5000, codec: Codec::Deflate, unpacked: 9000 };
        let jobs: Vec<_> =
            cut(vec![Extent { guest: 0, len: 9000, data }], Cut { piece: 1000, gap: 0 }).collect();
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].0, 3..5003);
    }

    #[test]
    fn bytes_that_are_used_twice_are_in_the_read_of_each_user() {
        let packed = Data::Packed { at: 1200, size: 3000, codec: Codec::Deflate, unpacked: 9000 };
        let extents = vec![
            raw(0, 8000, 0),
            raw(20_000, 700, 1500),
            raw(30_000, 3000, 1500),
            Extent { guest: 50_000, len: 9000, data: packed },
        ];
        let mut guests: Vec<_> = vec![];
        let (mut end, mut bytes) = (0, 0);
        for (range, extents) in cut(extents, Cut { piece: 1000, gap: 10 }) {
            assert!(range.end > end, "{range:?} does not end behind {end}");
            end = range.end;
            for e in extents {
                let of = e.file_range().unwrap();
                assert!(range.start <= of.start && of.end <= range.end, "{of:?} is not in {range:?}");
                guests.push(e.guest);
                bytes += e.len;
            }
        }
        assert_eq!(bytes, 8000 + 700 + 3000 + 9000);
        guests.sort_unstable();
        guests.dedup();
        assert_eq!(guests.len(), 8 + 1 + 3 + 1);
    }

    #[test]
    fn a_job_finds_its_bytes_and_nothing_else() {
        let spans = vec![Span { file: 10, at: 0, len: 5 }, Span { file: 100, at: 5, len: 5 }];
        let job = Job { spans, bytes: (0..10).collect(), ..Job::default() };
        assert_eq!(job.slice(12..14), Some(&[2u8, 3][..]));
        assert_eq!(job.slice(100..105), Some(&[5u8, 6, 7, 8, 9][..]));
        assert_eq!(job.slice(14..16), None);
        assert_eq!(job.slice(0..1), None);
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "lists of ranges, of which some have one")]
    fn a_read_is_as_long_as_a_piece_and_bridges_as_much_as_a_gap() {
        let reads = |extents, how| cut(extents, how).map(|(range, _)| range).collect::<Vec<_>>();
        let how = Cut { piece: 1000, gap: 10 };
        // Exactly a piece, then one byte more; exactly a gap, then one byte more.
        assert_eq!(reads(vec![raw(0, 500, 0), raw(500, 490, 510)], how), [0..1000]);
        assert_eq!(reads(vec![raw(0, 500, 0), raw(500, 491, 510)], how), [0..500, 510..1001]);
        assert_eq!(reads(vec![raw(0, 500, 0), raw(500, 400, 511)], how), [0..500, 511..911]);
        // The same far behind in the file.
        let far = 1 << 40;
        assert_eq!(reads(vec![raw(0, 500, far), raw(500, 490, far + 510)], how), [far..far + 1000]);
        let halves: Vec<_> = split(raw(300, 2000, 7), 1000).map(|e| (e.guest, e.len, e.data)).collect();
        let at = |at| Data::Raw { at };
        assert_eq!(halves, [(300, 700, at(7)), (1000, 1000, at(707)), (2000, 300, at(1707))]);
        // Up to the boundary, and no empty rest behind it.
        assert_eq!(split(raw(300, 700, 7), 1000).count(), 1);
        let data = Data::Packed { at: 3, size: 5000, codec: Codec::Deflate, unpacked: 9000 };
        assert_eq!(split(Extent { guest: 0, len: 9000, data }, 1000).count(), 1);
    }
}
