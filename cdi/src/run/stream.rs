//! The producer for streams. Pieces of the file are pushed through a [`StreamImage`] as they arrive. Data
//! whose place is not known yet waits in the spool, and is placed at the end.
//!
//! A later run requests header and tables once more, apart from the rest. [`Standings`] hashes them as they
//! pass here, as part of the stream that is checked as a whole, so that the journal can identify them.

use super::engine::Feed;
use super::job::{Cut, Job, Reached, Span, cut};
use crate::filter::holes::HoleRead;
use crate::spool::Spool;
use crate::{Error, Result};
use disk_format::{Data, ReadAt, StreamImage, StreamPosition};
use sha2::{Digest as _, Sha256};
use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// Bytes of the stream that are pushed at a time.
pub(crate) const PIECE: usize = 1 << 20;

/// Zeros that are passed on at a time: a run can be stopped between two jobs.
const HOLE: u64 = 1 << 30;

/// Facts known at the end of the stream.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrived {
    /// Bytes of the decoded stream.
    pub(crate) file_size: u64,
}

/// States of the image reader on the way, for a journal.
#[derive(Debug, Default)]
pub(crate) struct Standings {
    is_wanted: bool,
    list: Mutex<VecDeque<StreamPosition>>,
    front: Mutex<Front>,
    /// True if an earlier run began the image.
    is_later: bool,
}

/// The hash of the bytes at the front, as they pass.
#[derive(Debug, Default)]
struct Front {
    hash: Sha256,
    at: u64,
    /// Their number and digest, once all have passed.
    whole: Option<(u64, String)>,
}

/// The digest of bytes at the front, as a journal keeps it.
pub(crate) fn digest_of(front: &[u8]) -> String {
    hex::encode(Sha256::digest(front))
}

/// Bytes of the stream between two states, and the most that are kept: of more, every second one is dropped.
const APART: u64 = 4 << 20;
const MOST: usize = 16;

impl Standings {
    /// Collects states if `is_wanted`, for a journal.
    pub(crate) fn wanted(is_wanted: bool) -> Standings {
        Standings { is_wanted, ..Standings::default() }
    }

    /// The same for a resumed run, which got `front` bytes at the front, with this digest.
    pub(crate) fn later(self, front: u64, digest: String) -> Standings {
        let whole = Some((front, digest));
        Standings { front: Mutex::new(Front { whole, ..Front::default() }), is_later: true, ..self }
    }

    /// Hashes the part of a piece that is at the front. `front`: the number of bytes at the front.
    fn pass(&self, front: Option<u64>, base: u64, bytes: &[u8]) {
        let Some(front) = front.filter(|&front| self.is_wanted && front <= StreamPosition::FRONT) else {
            return;
        };
        let mut sum = self.front.lock().unwrap_or_else(PoisonError::into_inner);
        let end = base.saturating_add(bytes.len() as u64).min(front);
        let index = |at: u64| at.checked_sub(base).and_then(|at| usize::try_from(at).ok());
        let new = index(sum.at).zip(index(end)).and_then(|(from, to)| bytes.get(from..to));
        let Some(new) = new.filter(|_| sum.whole.is_none()) else { return };
        sum.hash.update(new);
        sum.at = end;
        if sum.at == front {
            sum.whole = Some((front, hex::encode(sum.hash.finalize_reset())));
        }
    }

    /// The digest of the first `front` bytes, once they have passed.
    pub(crate) fn digest(&self, front: u64) -> Option<String> {
        let sum = self.front.lock().unwrap_or_else(PoisonError::into_inner);
        sum.whole.as_ref().filter(|(bytes, _)| *bytes == front).map(|(_, digest)| digest.clone())
    }

    /// The error for a piece that makes no sense. In a resumed run the two runs do not fit together: the
    /// earlier one's state would lead to the same end again, so nothing of it is kept.
    fn judged(&self, e: Error) -> Error {
        if !self.is_later {
            return e;
        }
        let what = "what an earlier run has read does not fit to what is read now, and all is read anew";
        Error::reading(what, std::io::Error::other(e.to_string())).of_another_version()
    }

    fn note(&self, image: &dyn StreamImage, at: u64) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let is_far = list.back().is_none_or(|last| at >= last.at.saturating_add(APART));
        if !self.is_wanted || !is_far {
            return;
        }
        let Some(position) = image.position() else { return };
        if list.len() >= MOST {
            let mut is_kept = false;
            list.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        list.push_back(position);
    }

    /// The last state of which everything is done; older ones are dropped.
    pub(crate) fn last_before(&self, done: u64) -> Option<StreamPosition> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        while list.get(1).is_some_and(|next| next.at <= done) {
            list.pop_front();
        }
        list.front().filter(|first| first.at <= done).cloned()
    }
}

/// Reads to the end, `piece` bytes at a time. `from` is the reader's position in the decoded stream (not 0
/// when an earlier run is continued). Holes of `piece` bytes and more are passed on as holes.
pub(crate) fn arrive(
    feed: &Feed<'_>,
    image: &mut dyn StreamImage,
    reader: &mut dyn HoleRead,
    from: u64,
    piece: usize,
    (spool, standings): (&Spool, &Standings),
) -> Result<Arrived> {
    let (mut base, mut carry) = (from, Vec::new());
    loop {
        if carry.is_empty() {
            base = pass_holes(feed, image, reader, base, piece as u64)?;
        }
        let mut job = feed.job();
        job.bytes.append(&mut carry);
        let want = job.bytes.len() + piece.max(image.lookback() + 1);
        let last = read_up_to(reader, &mut job.bytes, want)?;
        let pushed = image.push(base, &job.bytes, last).map_err(|e| standings.judged(e.into()))?;
        standings.pass(image.front(), base, &job.bytes);
        for range in pushed.spool {
            spool.put(range.start, part(&job.bytes, base, &range)?)?;
        }
        standings.note(image, pushed.keep_from);
        let end = base + job.bytes.len() as u64;
        let kept = part(&job.bytes, base, &(pushed.keep_from..end)).map_err(|e| standings.judged(e))?;
        carry.extend_from_slice(kept);
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

/// Passes on zeros that need not be read, and returns the offset of the next byte.
fn pass_holes(
    feed: &Feed<'_>,
    image: &mut dyn StreamImage,
    reader: &mut dyn HoleRead,
    mut base: u64,
    unit: u64,
) -> Result<u64> {
    loop {
        let most = image.skippable(base).min(HOLE);
        let len = reader.skip_hole(unit, most).map_err(|e| Error::reading("cannot read it", e))?;
        if len == 0 {
            return Ok(base);
        }
        let extents = image.skip(base, len)?;
        let end = base + len;
        let reached = Reached { window: 0, file: end };
        feed.send(Job { guest: base..end, extents, reached, ..feed.job() })?;
        base = end;
    }
}

/// Places the spooled ranges, window by window.
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
fn read_up_to(reader: &mut dyn HoleRead, buf: &mut Vec<u8>, want: usize) -> Result<bool> {
    let missing = want.saturating_sub(buf.len());
    // Reserved at once: reading to an unknown end doubles the buffer, and leaves as much again behind it in
    // the heap.
    buf.reserve_exact(missing);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::holes::Dense;
    use crate::run::engine::{Engine, Size};
    use crate::run::memory_targets::AnyOrder;
    use crate::run::sink::EngineSink;
    use crate::run::watch::Watch;
    use disk_format::image::Pushed;
    use disk_format::{Extent, Format};

    /// A reader that knows no extent before the end of its file. The test sets its position.
    #[derive(Default)]
    struct Late {
        at: u64,
        /// Extents that are known at the end of the file, window by window.
        leftover: VecDeque<Vec<Extent>>,
    }

    impl StreamImage for Late {
        fn format(&self) -> Format {
            Format::Qcow2
        }

        fn virtual_size(&self) -> Option<u64> {
            None
        }

        fn front(&self) -> Option<u64> {
            Some(500)
        }

        /// Bytes come again, so that a piece begins in the middle of another.
        fn lookback(&self) -> usize {
            100
        }

        fn push(&mut self, base: u64, piece: &[u8], last: bool) -> disk_format::Result<Pushed> {
            let end = base + piece.len() as u64;
            let keep_from = if last { end } else { end - 100 };
            Ok(Pushed { extents: vec![], spool: std::iter::once(base..keep_from).collect(), keep_from })
        }

        fn position(&self) -> Option<StreamPosition> {
            Some(StreamPosition { front: 0, at: self.at, pending: vec![] })
        }

        fn leftover(&mut self, _: &dyn ReadAt) -> disk_format::Result<Option<Vec<Extent>>> {
            Ok(self.leftover.pop_front())
        }
    }

    #[test]
    fn what_waits_in_the_spool_is_placed_in_the_end() {
        const CLUSTER: u64 = 4096;
        let file: Vec<u8> = (0..5 * CLUSTER).map(|i| (i % 251 + 1) as u8).collect();
        let raw = |guest, len, at| Extent { guest, len, data: Data::Raw { at } };
        let zero = Extent { guest: 2 * CLUSTER, len: CLUSTER, data: Data::Zero };
        let windows = [
            vec![raw(0, CLUSTER, 4 * CLUSTER), raw(CLUSTER, CLUSTER, 0), zero],
            vec![raw(3 * CLUSTER, 2 * CLUSTER, 2 * CLUSTER)],
        ];
        let guest = [
            &file[4 * CLUSTER as usize..],
            &file[..CLUSTER as usize],
            &[0; CLUSTER as usize],
            &file[2 * CLUSTER as usize..4 * CLUSTER as usize],
        ]
        .concat();
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::beside(folder.path(), 1 << 20).unwrap();
        let mut image = Late { leftover: windows.into(), ..Late::default() };
        let (target, watch) = (AnyOrder::of_size(guest.len()), Watch::default());
        let size = Size { workers: 1, readers: 0, buffers: 3, sum: false };
        let engine =
            |bytes| Engine { bytes, sink: EngineSink::Any(&target), watch: &watch, size, marks: None };
        let (mut arrived, mut reader) = (0, Dense(&file[..]));
        let standings = Standings::wanted(true);
        let end = engine(None)
            .run(|feed| {
                let all = arrive(feed, &mut image, &mut reader, 0, 1000, (&spool, &standings))?;
                arrived = all.file_size;
                Ok(())
            })
            .unwrap();
        assert_eq!((arrived, end.reached.file), (file.len() as u64, file.len() as u64));
        assert_eq!(standings.digest(500), Some(digest_of(&file[..500])));
        assert!(standings.last_before(0).is_some());
        assert!(target.0.lock().unwrap().iter().all(|&byte| byte == 0xAA), "nothing is understood yet");
        let spooled = spool.of_size(arrived);
        engine(Some(&spooled)).run(|feed| place(feed, &mut image, &spooled)).unwrap();
        assert!(*target.0.lock().unwrap() == guest);
    }

    /// Zeros that can be skipped, then data.
    struct Holed<'a>(u64, &'a [u8]);

    impl Read for Holed<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            let zeros = out.len().min(self.0 as usize);
            if zeros == 0 {
                return self.1.read(out);
            }
            out[..zeros].fill(0);
            self.0 -= zeros as u64;
            Ok(zeros)
        }
    }

    impl HoleRead for Holed<'_> {
        fn skip_hole(&mut self, unit: u64, most: u64) -> std::io::Result<u64> {
            let len = self.0.min(most) / unit * unit;
            self.0 -= len;
            Ok(len)
        }
    }

    #[test]
    fn a_hole_of_a_stream_becomes_zeros_of_the_disk() {
        let data: Vec<u8> = (0..20_000_u32).map(|i| (i % 251 + 1) as u8).collect();
        let hole = 3 * 4096 + 700;
        let size = hole as usize + data.len();
        let mut image = disk_format::stream(Format::Raw, disk_format::Limits::default()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::beside(folder.path(), 0).unwrap();
        let (target, watch) = (AnyOrder::of_size(size), Watch::default());
        let engine = Engine {
            bytes: None,
            sink: EngineSink::Any(&target),
            watch: &watch,
            size: Size { workers: 1, readers: 0, buffers: 3, sum: false },
            marks: None,
        };
        let standings = Standings::wanted(false);
        let run = engine.run(|feed| {
            arrive(feed, &mut *image, &mut Holed(hole, &data), 0, 4096, (&spool, &standings)).map(drop)
        });
        assert_eq!(run.unwrap().reached.file, size as u64);
        assert!(*target.0.lock().unwrap() == [&vec![0; hole as usize][..], &data].concat());
    }

    #[test]
    fn a_full_spool_ends_the_stream() {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::beside(folder.path(), 4096).unwrap();
        let (target, watch) = (AnyOrder::of_size(0), Watch::default());
        let size = Size { workers: 1, readers: 0, buffers: 3, sum: false };
        let engine = Engine { bytes: None, sink: EngineSink::Any(&target), watch: &watch, size, marks: None };
        let standings = Standings::wanted(false);
        let run = engine.run(|feed| {
            let (mut image, mut reader) = (Late::default(), Dense(&[7; 20_000][..]));
            arrive(feed, &mut image, &mut reader, 0, 1000, (&spool, &standings)).map(drop)
        });
        assert_eq!(run.unwrap_err().kind(), crate::ErrorKind::Refused);
    }

    #[test]
    fn states_are_kept_apart_and_of_many_every_second_one() {
        let standings = Standings::wanted(true);
        let note = |at| standings.note(&Late { at, ..Late::default() }, at);
        let before = |done| standings.last_before(done).map(|position| position.at);
        // One byte too near to the first one, then far enough.
        [0, APART - 1, APART].into_iter().for_each(note);
        assert_eq!(before(APART - 1), Some(0));
        assert_eq!(before(APART), Some(APART));
        assert_eq!(before(0), None, "older ones are dropped");
        // As many as are kept, then one more: every second one is dropped.
        let most = MOST as u64;
        (2..=most).for_each(|number| note(number * APART));
        assert_eq!(standings.list.lock().unwrap().len(), MOST);
        note((most + 1) * APART);
        let kept: Vec<u64> =
            standings.list.lock().unwrap().iter().map(|position| position.at / APART).collect();
        let expected: Vec<u64> = (1..=most).step_by(2).chain([most + 1]).collect();
        assert_eq!(kept, expected);
        assert_eq!(before(4 * APART), Some(3 * APART));
        let unwanted = Standings::wanted(false);
        unwanted.note(&Late::default(), 0);
        assert_eq!(unwanted.last_before(u64::MAX), None);
    }

    #[test]
    fn bytes_in_front_are_hashed_once_however_they_pass() {
        let bytes: Vec<u8> = (0..5000_u32).map(|i| (i % 251) as u8).collect();
        let push = |standings: &Standings, from: usize, to: usize| {
            standings.pass(Some(3000), from as u64, &bytes[from..to]);
        };
        // In parts, in one, with bytes that come again, and with more behind them.
        for cuts in [&[(0, 1000), (1000, 3000)][..], &[(0, 5000)], &[(0, 2000), (500, 2500), (2400, 4000)]] {
            let standings = Standings::wanted(true);
            standings.pass(None, 0, &bytes[..100]);
            assert_eq!(standings.digest(3000), None);
            cuts.iter().for_each(|&(from, to)| push(&standings, from, to));
            push(&standings, 4000, 5000);
            assert_eq!(standings.digest(3000), Some(digest_of(&bytes[..3000])), "{cuts:?}");
            assert_eq!(standings.digest(2999), None, "of others nothing is known");
        }
        let holed = Standings::wanted(true);
        push(&holed, 0, 1000);
        push(&holed, 2000, 3000);
        assert_eq!(holed.digest(3000), None);
        let unwanted = Standings::wanted(false);
        push(&unwanted, 0, 5000);
        assert_eq!(unwanted.digest(3000), None);
    }

    #[test]
    fn a_run_that_goes_on_has_the_digest_of_the_first_and_its_odd_images_are_read_anew() {
        let e = || Error::refused("an L2 table overlaps data");
        let first = Standings::wanted(true);
        assert!(
            first.judged(e()).kind() == crate::ErrorKind::Refused
                && first.judged(e()).to_string() == e().to_string()
        );
        let later = Standings::wanted(true).later(3000, "digest of the first".to_owned());
        later.pass(Some(3000), 2000, &[7; 2000]);
        assert_eq!(later.digest(3000).as_deref(), Some("digest of the first"));
        let judged = later.judged(Error::failed("the image reader asked for bytes outside the piece"));
        assert!(!judged.may_go_on() && judged.kind() == crate::ErrorKind::Failed, "{judged}");
        assert!(
            later.judged(e()).chain().contains("read anew"),
            "a refusal is not the end: the other run may have read it wrong"
        );
    }
}
