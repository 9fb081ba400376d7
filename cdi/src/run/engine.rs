//! The engine: a producer cuts jobs, readers fill them, workers turn them into guest bytes, a collector puts
//! results in order and keeps the journal.
//!
//! ```text
//!  producer ──jobs──► readers (remote only) ──► workers ──outcomes──► collector (the calling thread)
//!     ▲ buffers from a pool: the memory bound      │ Any: write here       │ Guest order: commit here
//!     └────────────────────────────────────────────┘                      └─ marks: sync, then journal
//! ```
//!
//! The first error stops all threads: it is kept in [`Watch`]; every thread sees it at its next job, drains
//! and ends. A run that stops marks once more what it has completed, unless a mark is what failed.
//!
//! Producer and workers see foreign bytes and the decoders' C code, so they give up all rights but open
//! descriptors ([`guard::confine::parser`]). Readers of a remote source connect to servers, and the collector
//! reads no foreign byte; both keep the program's rights.

use super::job::{Job, Reached};
use super::pace::{Pace, Took};
use super::pool::Pool;
use super::sink::{EngineSink, Packed};
use super::sum::DiskSum;
use super::watch::Watch;
use super::watermark::Watermark;
use super::worker::Worker;
use crate::{Error, Result};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use disk_format::ReadAt;
use guard::confine::parser;
use std::collections::BTreeMap;
use std::thread::Scope;
use std::time::{Duration, Instant};

/// Numbers of threads and sizes of buffers of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    /// Threads that decode and write.
    pub(crate) workers: usize,
    /// Threads that wait for a remote source; 0: workers read for themselves.
    pub(crate) readers: usize,
    /// The number of buffers.
    pub(crate) buffers: usize,
    /// True if guest bytes are summed for `--verify`.
    pub(crate) sum: bool,
}

/// Makes the progress of a row of jobs durable; `None` if a later run could not go on from there.
pub(crate) type Marker<'a> = &'a mut dyn FnMut(&End) -> Result<Option<Took>>;

/// The marks of a run.
pub(crate) struct Marks<'a> {
    pub(crate) pace: Pace,
    /// The progress of the last mark; at first, where the run begins.
    pub(crate) last: Reached,
    pub(crate) write: Marker<'a>,
}

/// Input of a run of the engine.
pub(crate) struct Engine<'a> {
    /// Source of the jobs' spans; `None` if the producer fills every job itself.
    pub(crate) bytes: Option<&'a dyn ReadAt>,
    pub(crate) sink: EngineSink<'a>,
    pub(crate) watch: &'a Watch,
    pub(crate) size: Size,
    /// Called now and then with the progress of an unbroken row of jobs.
    pub(crate) marks: Option<Marks<'a>>,
}

/// State at the end of a row of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) reached: Reached,
    /// Bytes of data that these jobs have written to a target of any order.
    pub(crate) written: u64,
    pub(crate) sum: DiskSum,
}

impl End {
    /// Bytes of data written before this offset of a stream. Everything behind it counts as data, so that these
    /// are never too many.
    pub(crate) fn written_before(&self, file: u64) -> u64 {
        self.written.saturating_sub(self.reached.file.saturating_sub(file))
    }
}

/// A worker's result of a job.
pub(crate) struct Outcome {
    pub(crate) seq: u64,
    pub(crate) end: End,
    /// Guest order only: the bytes to commit.
    pub(crate) packed: Option<Packed>,
}

/// The producer's end: empty jobs with a buffer, and the channel for them.
pub(crate) struct Feed<'a> {
    pub(crate) watch: &'a Watch,
    jobs: Sender<(Job, Option<Packed>)>,
    buffers: Pool<Vec<u8>>,
    packed: Option<Pool<Packed>>,
    next: std::cell::Cell<u64>,
}

impl Feed<'_> {
    /// The next job in the fixed order, with an empty buffer. Waits for one.
    pub(crate) fn job(&self) -> Job {
        let seq = self.next.replace(self.next.get() + 1);
        let mut bytes = self.buffers.take();
        bytes.clear();
        Job { seq, bytes, ..Job::default() }
    }

    /// Sends a job; an error once the run has failed.
    pub(crate) fn send(&self, job: Job) -> Result<()> {
        self.watch.check()?;
        let packed = self.packed.as_ref().map(Pool::take);
        self.jobs.send((job, packed)).map_err(|_| Error::failed("the workers have stopped"))
    }
}

impl Engine<'_> {
    /// Runs `produce` and the rest of the engine. Returns the state at the end of the whole row of jobs.
    pub(crate) fn run(mut self, produce: impl FnOnce(&Feed<'_>) -> Result<()> + Send) -> Result<End> {
        let Size { workers, readers, buffers, .. } = self.size;
        let pool = Pool::<Vec<u8>>::new(buffers);
        let packed = matches!(self.sink, EngineSink::Ordered(_)).then(|| Pool::<Packed>::new(buffers));
        let (jobs, todo) = bounded::<(Job, Option<Packed>)>(buffers);
        let (ready_in, ready) = bounded::<(Job, Option<Packed>)>(buffers);
        // Outcomes without bytes may wait, so that workers go on while the collector makes a mark.
        let waiting = if packed.is_some() { buffers + workers + readers } else { OUTCOMES };
        let (out, outcomes) = bounded::<Outcome>(waiting);
        let (watch, bytes, sink, sum) = (self.watch, self.bytes, &self.sink, self.size.sum);
        let end = std::thread::scope(|scope| {
            let feed = Feed {
                watch,
                jobs,
                buffers: pool.clone(),
                packed: packed.clone(),
                next: std::cell::Cell::new(0),
            };
            let work = if readers > 0 { ready } else { todo.clone() };
            for _ in 0..readers {
                let (todo, ready_in) = (todo.clone(), ready_in.clone());
                start(scope, watch, move || read_ahead(&todo, &ready_in, bytes, watch));
            }
            drop((todo, ready_in));
            for _ in 0..workers {
                let (work, out, pool, packed) = (work.clone(), out.clone(), pool.clone(), packed.clone());
                start(scope, watch, move || {
                    parser();
                    let mut worker = Worker::new(sink, watch, sum);
                    for (mut job, to_pack) in &work {
                        let seq = job.seq;
                        let outcome = shielded(|| {
                            fill(&mut job, bytes, watch)?;
                            worker.work(&job, to_pack)
                        });
                        pool.give(std::mem::take(&mut job.bytes));
                        match outcome {
                            Ok((packed, written, sum)) => {
                                let end = End { reached: job.reached, written, sum };
                                // The collector outlives the workers; it never hangs up first.
                                let _ = out.send(Outcome { seq, end, packed });
                            }
                            Err(e) => {
                                watch.fail(e);
                                packed.as_ref().inspect(|pool| pool.give(Packed::default()));
                            }
                        }
                    }
                });
            }
            drop((out, work));
            // The producer starts last: if a thread cannot be started, it would wait for buffers that never
            // come back.
            start(scope, watch, move || {
                parser();
                if let Err(e) = produce(&feed) {
                    watch.fail(e);
                }
            });
            collect(&outcomes, sink, watch, packed.as_ref(), self.marks.take())
        });
        watch.outcome()?;
        Ok(end)
    }
}

/// Starts a thread of the engine; if that fails, the run ends with an error.
fn start<'s>(scope: &'s Scope<'s, '_>, watch: &Watch, work: impl FnOnce() + Send + 's) {
    if let Err(e) = std::thread::Builder::new().spawn_scoped(scope, work) {
        watch.fail(Error::io("cannot start a thread that converts", e));
    }
}

/// Turns a panic in a worker (a bug that an image may have found) into an error of this run, not a hang.
fn shielded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::failed("internal error: a worker panicked; please report the image that did it"))
    })
}

/// A reader of a remote source: several requests are in flight while workers decode.
fn read_ahead(
    todo: &Receiver<(Job, Option<Packed>)>,
    ready: &Sender<(Job, Option<Packed>)>,
    bytes: Option<&dyn ReadAt>,
    watch: &Watch,
) {
    for (mut job, packed) in todo {
        if let Err(e) = shielded(|| fill(&mut job, bytes, watch)) {
            watch.fail(e);
        }
        if ready.send((job, packed)).is_err() {
            return;
        }
    }
}

/// Reads a job's spans, if no reader has done so yet.
fn fill(job: &mut Job, bytes: Option<&dyn ReadAt>, watch: &Watch) -> Result<()> {
    watch.check()?;
    let want = job.read_len();
    if job.bytes.len() >= want {
        return Ok(());
    }
    let Some(bytes) = bytes else {
        return Err(Error::failed("a job came without its bytes"));
    };
    // Growing zero-fills only once: the buffer keeps its capacity as it goes round.
    job.bytes.resize(want, 0);
    for span in &job.spans {
        bytes.read_exact_at(&mut job.bytes[span.at..span.at + span.len], span.file).map_err(|e| {
            Error::reading(format!("cannot read {} bytes at offset {:#x}", span.len, span.file), e)
        })?;
    }
    watch.count_read(want as u64);
    Ok(())
}

/// Takes outcomes until the workers are gone: commits in order if the sink needs that, and makes marks.
fn collect(
    outcomes: &Receiver<Outcome>,
    sink: &EngineSink<'_>,
    watch: &Watch,
    packed: Option<&Pool<Packed>>,
    mut marks: Option<Marks<'_>>,
) -> End {
    let mut row = Watermark::<End>::new();
    let mut line = InOrder { sink, watch, packed, early: BTreeMap::new(), next: 0 };
    let mut marked = (Instant::now(), watch.written());
    let (mut ended, mut made) = (false, false);
    while !ended {
        let wait = marks.as_ref().map_or(LOOK, |marks| marks.pace.wait().min(LOOK));
        match outcomes.recv_timeout(wait) {
            Ok(outcome) => {
                row.done(outcome.seq, outcome.end, |old, new| {
                    let old = old.unwrap_or_default();
                    End {
                        reached: new.reached,
                        written: old.written + new.written,
                        sum: old.sum.join(new.sum),
                    }
                });
                line.commit(outcome.seq, outcome.packed);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => ended = true,
        }
        if watch.stopped() {
            line.give_up();
        }
        // A stopped run that may be continued makes a mark at once: readers that wait for the network may
        // hold it up longer than the user waits.
        let Some(marking) = &mut marks else { continue };
        let bytes = watch.written().saturating_sub(marked.1);
        let due = match watch.stopped() {
            true => watch.may_go_on(),
            false => marking.pace.is_due(marked.0.elapsed(), bytes),
        };
        // A run that is stopped before its first mark makes one, even at the very beginning: the user is told
        // that the same command goes on.
        let nothing_yet = watch.stopped() && !made;
        let Some(end) =
            row.reached().filter(|end| due && (end.reached != marking.last || nothing_yet)).copied()
        else {
            continue;
        };
        match (marking.write)(&end) {
            Ok(None) => continue,
            Ok(Some(took)) => {
                watch.marked();
                marking.pace.marked(took, outcomes.is_full());
            }
            Err(e) => {
                // The next sync would succeed, although this one has lost data.
                watch.fail(e);
                marks = None;
                continue;
            }
        }
        (made, marking.last) = (true, end.reached);
        marked = (Instant::now(), watch.written());
    }
    row.reached().copied().unwrap_or_default()
}

/// Interval at which the collector looks if the run was stopped, also when nothing arrives.
const LOOK: Duration = Duration::from_millis(100);

/// Outcomes that may wait for the collector: a GiB or two of disk, in some 100 KiB of memory.
const OUTCOMES: usize = 1024;

/// Queue that commits prepared parts of the disk in the order of the disk. It stays empty for a target that
/// accepts any order.
struct InOrder<'a> {
    sink: &'a EngineSink<'a>,
    watch: &'a Watch,
    packed: Option<&'a Pool<Packed>>,
    early: BTreeMap<u64, Packed>,
    next: u64,
}

impl InOrder<'_> {
    fn commit(&mut self, seq: u64, packed: Option<Packed>) {
        let (Some(packed), EngineSink::Ordered(sink)) = (packed, self.sink) else { return };
        self.early.insert(seq, packed);
        while let Some(first) = self.early.remove(&self.next) {
            self.next += 1;
            if !self.watch.stopped() {
                sink.commit(&first).unwrap_or_else(|e| self.watch.fail(e));
            }
            self.give_back(first);
        }
    }

    /// Returns the buffers that wait for a failed predecessor, so that the producer cannot hang.
    fn give_up(&mut self) {
        for (_, packed) in std::mem::take(&mut self.early) {
            self.give_back(packed);
        }
    }

    fn give_back(&self, packed: Packed) {
        if let Some(pool) = self.packed {
            pool.give(packed);
        }
    }
}
