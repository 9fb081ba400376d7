//! State shared by splitter, workers and reader: the lanes, and the account of memory with its rules.
//!
//! Let `limit` be the bound without [`HEAD_PLAIN`] chunks, which always stay free for the head lane's output;
//! and no more than `extra` above the memory of the head's codec.
//! - The splitter may take a packed chunk when the sum stays under `limit` and would also do so if the hungriest lane
//!   that has not started ran alone; or when fewer than [`LEAST_PACKED`] exist. While the head is the only lane, it
//!   takes no more than is worth it: reading far into a unit without end gains nothing. Nor does reading on when
//!   [`READY`] whole units wait for a worker.
//! - A worker may start the head lane at any time: the lanes before it are gone, those behind start after it, so it
//!   is alone with packed chunks, and the rule above left room for it. Another lane starts when the sum allows it.
//! - A lane behind the head may take a plain chunk when the sum allows it; the head lane while fewer than
//!   [`HEAD_PLAIN`] of its own wait.
//!
//! So no thread waits for ever. The splitter reads the head's missing input next (while it is inside the
//! head's unit no other lane exists, and the head frees packed chunks), and the head's output leaves with the
//! reader.

use super::{CHUNK, Stop, Unit};
use crate::Error;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Packed chunks that may always exist.
pub(super) const LEAST_PACKED: usize = 4;
/// Plain chunks of the head lane that may wait for the reader.
pub(super) const HEAD_PLAIN: usize = 4;
/// The most units in flight, which bounds the book-keeping of very small ones.
const LANES: usize = 64;
/// Complete units that wait for a worker: more would only take memory.
const READY: usize = 2;

pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    lanes: VecDeque<Lane>,
    /// The number of `lanes[0]`, the head.
    first: u64,
    /// The number of the next lane that a worker takes.
    unstarted: u64,
    /// The number of the next lane that the splitter makes.
    made: u64,
    /// True once the head's boundary was reported to the reader.
    announced: bool,
    bound: u64,
    extra: u64,
    packed: usize,
    plain: usize,
    codecs: u64,
    idle_workers: usize,
    spare: Vec<Box<[u8]>>,
    /// Result of the splitter, once there will be no further lane.
    finished: Option<Result<(), io::Error>>,
    gone: bool,
}

struct Lane {
    unit: Unit,
    packed: VecDeque<Slice>,
    /// Set when no more packed bytes come; `false`: the splitter failed inside the unit.
    closed: Option<bool>,
    plain: VecDeque<Chunk>,
    done: Option<Result<(), io::Error>>,
}

/// The next item for the reader.
pub(super) enum Next {
    Chunk(Chunk),
    /// The unit that begins at `input` is now the head.
    Unit {
        input: u64,
        state: Vec<u8>,
    },
    End,
    Failed(io::Error),
}

/// A unit for a worker.
pub(super) struct LaneJob {
    pub(super) lane: u64,
    pub(super) at: u64,
    pub(super) memory: u64,
}

impl Shared {
    pub(super) fn new(bound: u64, extra: u64) -> Self {
        let state = State {
            lanes: VecDeque::new(),
            first: 0,
            unstarted: 0,
            made: 0,
            announced: false,
            bound,
            extra,
            packed: 0,
            plain: 0,
            codecs: 0,
            idle_workers: 0,
            spare: Vec::new(),
            finished: None,
            gone: false,
        };
        Shared { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Sets the bound on memory.
    pub(super) fn allow(&self, bound: u64) {
        self.lock().bound = bound;
        self.changed.notify_all();
    }

    /// Ends all threads, since the reader was dropped.
    pub(super) fn leave(&self) {
        let mut state = self.lock();
        state.gone = true;
        let lanes = std::mem::take(&mut state.lanes);
        state.first = state.made;
        state.spare = Vec::new();
        drop(state);
        self.changed.notify_all();
        drop(lanes);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

/// Methods of the splitter.
impl Shared {
    /// Waits for room and returns an empty chunk to read into.
    pub(super) fn packed_chunk(self: &Arc<Self>) -> Result<Chunk, Stop> {
        let mut state = self.lock();
        loop {
            if state.gone {
                return Err(Stop::Gone);
            }
            if state.packed < LEAST_PACKED || state.may_read() {
                state.packed += 1;
                let bytes = state.buffer();
                return Ok(Chunk { bytes, len: 0, account: Some((self.clone(), Use::Packed)) });
            }
            state = self.wait(state);
        }
    }

    /// Adds a unit. True if one more worker would be of use.
    pub(super) fn begin(&self, unit: Unit) -> Result<bool, Stop> {
        let mut state = self.lock();
        while !state.gone && state.lanes.len() >= LANES {
            state = self.wait(state);
        }
        if state.gone {
            return Err(Stop::Gone);
        }
        let packed = VecDeque::new();
        let plain = VecDeque::new();
        state.lanes.push_back(Lane { unit, packed, closed: None, plain, done: None });
        state.made += 1;
        let lanes_waiting = (state.made - state.unstarted.max(state.first)) as usize;
        let more = lanes_waiting > state.idle_workers;
        drop(state);
        self.changed.notify_all();
        Ok(more)
    }

    /// Passes bytes of the newest unit.
    pub(super) fn pass(&self, slice: Slice) -> Result<(), Stop> {
        let mut state = self.lock();
        let gone = state.gone;
        // A lane that has failed is still in line, but takes no more bytes.
        let lane = state.lanes.back_mut().filter(|lane| lane.closed.is_none() && lane.done.is_none());
        let unwanted = match lane {
            Some(lane) => {
                lane.packed.push_back(slice);
                None
            }
            None => Some(slice),
        };
        drop(state);
        drop(unwanted);
        self.changed.notify_all();
        if gone { Err(Stop::Gone) } else { Ok(()) }
    }

    /// Ends the newest unit: complete, or broken off.
    pub(super) fn close(&self, whole: bool) {
        let mut state = self.lock();
        if let Some(lane) = state.lanes.back_mut().filter(|lane| lane.closed.is_none()) {
            lane.closed = Some(whole);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the stream with this result; an earlier result is kept.
    pub(super) fn finish(&self, result: Result<(), io::Error>) {
        self.close(false);
        let mut state = self.lock();
        state.finished.get_or_insert(result);
        drop(state);
        self.changed.notify_all();
    }
}

/// Methods of a worker.
impl Shared {
    /// Waits until the next unit's codec has room; `None` at the end of the work.
    pub(super) fn job(&self) -> Option<LaneJob> {
        let mut state = self.lock();
        state.idle_workers += 1;
        loop {
            let done = state.finished.is_some() && state.unstarted == state.made;
            if state.gone || done {
                state.idle_workers -= 1;
                return None;
            }
            if state.unstarted < state.made {
                let lane = state.unstarted;
                let index = (lane - state.first) as usize;
                let (at, memory) = (state.lanes[index].unit.at, state.lanes[index].unit.memory);
                if index == 0 || state.sum() + memory <= state.limit() {
                    state.unstarted += 1;
                    state.codecs += memory;
                    let unneeded = state.trim();
                    state.idle_workers -= 1;
                    drop(state);
                    drop(unneeded);
                    self.changed.notify_all();
                    return Some(LaneJob { lane, at, memory });
                }
            }
            state = self.wait(state);
        }
    }

    /// The next packed bytes of a lane; `None` after the last.
    pub(super) fn next_packed(&self, lane: u64) -> Result<Option<Slice>, Stop> {
        let mut state = self.lock();
        loop {
            let lane = state.lane(lane).ok_or(Stop::Gone)?;
            if let Some(slice) = lane.packed.pop_front() {
                return Ok(Some(slice));
            }
            match lane.closed {
                Some(true) => return Ok(None),
                Some(false) => return Err(Stop::Gone),
                None => state = self.wait(state),
            }
        }
    }

    /// Waits for room and returns an empty chunk to decode into.
    pub(super) fn plain_chunk(self: &Arc<Self>, lane: u64) -> Result<Chunk, Stop> {
        let mut state = self.lock();
        loop {
            let head = lane == state.first;
            let waiting = state.lane(lane).ok_or(Stop::Gone)?.plain.len();
            let room = if head { waiting < HEAD_PLAIN } else { state.sum() + CHUNK as u64 <= state.limit() };
            if room {
                state.plain += 1;
                let bytes = state.buffer();
                return Ok(Chunk { bytes, len: 0, account: Some((self.clone(), Use::Plain)) });
            }
            state = self.wait(state);
        }
    }

    /// Passes on a decoded chunk.
    pub(super) fn push_plain(&self, lane: u64, chunk: Chunk) -> Result<(), Stop> {
        let mut state = self.lock();
        let unwanted = match state.lane(lane) {
            Some(lane) => {
                lane.plain.push_back(chunk);
                None
            }
            None => Some(chunk),
        };
        drop(state);
        self.changed.notify_all();
        match unwanted {
            Some(_) => Err(Stop::Gone),
            None => Ok(()),
        }
    }

    /// Ends a unit, decoded or failed, and frees its codec's memory.
    pub(super) fn done(&self, job: &LaneJob, result: Result<(), Stop>) {
        let mut state = self.lock();
        state.codecs = state.codecs.saturating_sub(job.memory);
        let mut rest = VecDeque::new();
        if let Some(lane) = state.lane(job.lane) {
            rest = std::mem::take(&mut lane.packed);
            lane.done = Some(match result {
                Ok(()) => Ok(()),
                Err(Stop::Error(e)) => Err(e),
                // Broken off: the splitter's error, which comes after the last lane, has the reason.
                Err(Stop::Gone) => Ok(()),
            });
        }
        drop(state);
        drop(rest);
        self.changed.notify_all();
    }
}

/// Methods of the reader.
impl Shared {
    pub(super) fn next_plain(&self) -> Next {
        let mut state = self.lock();
        loop {
            let announced = state.announced;
            if let Some(lane) = state.lanes.front_mut() {
                if !announced {
                    let (input, boundary) = (lane.unit.at, std::mem::take(&mut lane.unit.boundary));
                    state.announced = true;
                    return Next::Unit { input, state: boundary };
                }
                if let Some(chunk) = lane.plain.pop_front() {
                    drop(state);
                    self.changed.notify_all();
                    return Next::Chunk(chunk);
                }
                if let Some(done) = lane.done.take() {
                    let lane = state.lanes.pop_front();
                    state.first += 1;
                    state.announced = false;
                    drop(state);
                    drop(lane);
                    self.changed.notify_all();
                    if let Err(e) = done {
                        return Next::Failed(e);
                    }
                    state = self.lock();
                    continue;
                }
            } else if let Some(finished) = &mut state.finished {
                return match std::mem::replace(finished, Ok(())) {
                    Ok(()) => Next::End,
                    Err(e) => Next::Failed(e),
                };
            }
            state = self.wait(state);
        }
    }
}

impl State {
    fn lane(&mut self, number: u64) -> Option<&mut Lane> {
        let index = number.checked_sub(self.first)?;
        self.lanes.get_mut(usize::try_from(index).ok()?)
    }

    fn sum(&self) -> u64 {
        self.codecs + ((self.packed + self.plain) * CHUNK) as u64
    }

    /// The sum with the free chunks. These are kept for reuse while there is room: the allocator would keep
    /// them anyway, but in pieces.
    fn held(&self) -> u64 {
        self.sum() + (self.spare.len() * CHUNK) as u64
    }

    /// Takes out the free chunks that exceed the room.
    fn trim(&mut self) -> Vec<Box<[u8]>> {
        let over = self.held().saturating_sub(self.limit()).div_ceil(CHUNK as u64);
        let keep = self.spare.len().saturating_sub(usize::try_from(over).unwrap_or(usize::MAX));
        self.spare.split_off(keep)
    }

    fn limit(&self) -> u64 {
        let bound = self.bound.saturating_sub((HEAD_PLAIN * CHUNK) as u64);
        let head = self.lanes.front().map_or(0, |lane| lane.unit.memory);
        bound.min(head.saturating_add(self.extra))
    }

    fn may_read(&self) -> bool {
        let first = (self.unstarted - self.first.min(self.unstarted)) as usize;
        let hungriest = self.lanes.iter().skip(first).map(|lane| lane.unit.memory).max().unwrap_or(0);
        let packed = ((self.packed + 1) * CHUNK) as u64;
        let alone = packed + hungriest;
        let only = self.lanes.front().filter(|lane| self.lanes.len() == 1 && lane.closed.is_none());
        let whole = self.lanes.iter().skip(first).filter(|lane| lane.closed.is_some()).count();
        let worth_it = whole < READY && only.is_none_or(|lane| packed <= lane.unit.ahead);
        worth_it && self.sum() + CHUNK as u64 <= self.limit() && alone <= self.limit()
    }

    fn buffer(&mut self) -> Box<[u8]> {
        self.spare.pop().unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice())
    }
}

enum Use {
    Packed,
    Plain,
}

/// A buffer that counts in the account of memory until it is dropped.
pub(super) struct Chunk {
    bytes: Box<[u8]>,
    len: usize,
    account: Option<(Arc<Shared>, Use)>,
}

impl Chunk {
    /// A few bytes of another origin, not worth counting.
    fn of(bytes: Vec<u8>) -> Self {
        Chunk { len: bytes.len(), bytes: bytes.into_boxed_slice(), account: None }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.len..]
    }

    pub(super) fn grow(&mut self, n: usize) {
        self.len += n;
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let Some((shared, used)) = self.account.take() else { return };
        let mut state = shared.lock();
        match used {
            Use::Packed => state.packed -= 1,
            Use::Plain => state.plain -= 1,
        }
        if !state.gone && state.held() + CHUNK as u64 <= state.limit() {
            state.spare.push(std::mem::take(&mut self.bytes));
        }
        drop(state);
        shared.changed.notify_all();
    }
}

/// A part of a packed chunk, which may hold the end of one unit and the beginning of the next.
pub(super) struct Slice {
    chunk: Arc<Chunk>,
    range: Range<usize>,
}

impl Slice {
    pub(super) fn new(chunk: Arc<Chunk>, range: Range<usize>) -> Self {
        Slice { chunk, range }
    }

    pub(super) fn of(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        Slice { chunk: Arc::new(Chunk::of(bytes)), range }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.chunk.bytes()[self.range.clone()]
    }
}

/// Turns a panic of a thread into an error of the reader, which would wait for ever otherwise.
pub(super) struct Guard {
    shared: Arc<Shared>,
    lane: Option<u64>,
    calm: bool,
}

impl Guard {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Guard { shared, lane: None, calm: false }
    }

    /// A guard for a worker on a lane.
    pub(super) fn on(shared: Arc<Shared>, lane: u64) -> Self {
        Guard { shared, lane: Some(lane), calm: false }
    }

    pub(super) fn calm(mut self) {
        self.calm = true;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.calm {
            return;
        }
        let bug = || io::Error::from(Error::failed("a decoding thread panicked; this is a bug"));
        match self.lane {
            None => self.shared.finish(Err(bug())),
            Some(lane) => {
                let job = LaneJob { lane, at: 0, memory: 0 };
                self.shared.done(&job, Err(Stop::Error(bug())));
            }
        }
    }
}
