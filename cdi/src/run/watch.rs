//! What the outside sees of a run, and the one way it stops it: shared counters, a phase, a first error.

use crate::filter::progress::Count;
use crate::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Facts are gathered.
    Opening,
    /// The disk is read to find its zeros; nothing is written.
    Measuring,
    /// Bytes move.
    Converting,
    /// Clusters that came before their table are put in place.
    Placing,
    /// The target is read back and compared.
    Verifying,
    /// The last bytes go to stable storage.
    Finishing,
}

impl Phase {
    const ALL: [Phase; 6] = [
        Phase::Opening,
        Phase::Measuring,
        Phase::Converting,
        Phase::Placing,
        Phase::Verifying,
        Phase::Finishing,
    ];

    /// One word for people.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Opening => "opening",
            Phase::Measuring => "measuring",
            Phase::Converting => "converting",
            Phase::Placing => "placing",
            Phase::Verifying => "verifying",
            Phase::Finishing => "finishing",
        }
    }
}

/// Counters of a run; cheap to read at any time from any thread.
#[derive(Debug, Default)]
pub struct Watch {
    phase: AtomicU8,
    total: AtomicU64,
    done: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    /// The source's own counter, while the run is a stream.
    stream: Mutex<Option<Count>>,
    stopped: AtomicBool,
    error: Mutex<Option<Error>>,
    kept: Mutex<Option<String>>,
}

impl Watch {
    /// What it is doing now.
    pub fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Relaxed)) % Phase::ALL.len()]
    }

    /// How far the phase is, and how far it goes (0: not known), in bytes of the source for streams and of the
    /// guest's disk else.
    pub fn progress(&self) -> (u64, u64) {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let done = stream.as_ref().map_or_else(|| self.done.load(Relaxed), Count::get);
        (done, self.total.load(Relaxed))
    }

    /// Bytes taken from the source so far.
    pub fn read(&self) -> u64 {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        self.read.load(Relaxed) + stream.as_ref().map_or(0, Count::get)
    }

    /// Bytes given to the target so far.
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Asks the run to stop; it returns an error of kind `Interrupted` at the next piece.
    pub fn interrupt(&self) {
        self.fail(Error::new(ErrorKind::Interrupted, "interrupted"));
    }

    /// Whether [`Watch::interrupt`] was called or something failed.
    pub fn interrupted(&self) -> bool {
        self.stopped()
    }

    /// What stays behind if the program ends now, and how to go on from it; `None` when nothing does.
    pub fn kept(&self) -> Option<String> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn keeps(&self, sentence: String) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(sentence);
    }

    pub(crate) fn enter(&self, phase: Phase, total: u64) {
        self.done.store(0, Relaxed);
        self.total.store(total, Relaxed);
        self.phase.store(phase as u8, Relaxed);
    }

    /// Progress is what this counter says, until another call says otherwise.
    pub(crate) fn follow(&self, counter: Option<Count>) {
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut *stream, counter) {
            self.read.fetch_add(before.get(), Relaxed);
        }
    }

    pub(crate) fn advance(&self, bytes: u64) {
        self.done.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn count_read(&self, bytes: u64) {
        self.read.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn count_written(&self, bytes: u64) {
        self.written.fetch_add(bytes, Relaxed);
    }

    /// The first error stops every thread; later ones are its echo and are dropped.
    pub(crate) fn fail(&self, error: Error) {
        let mut slot = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert(error);
        self.stopped.store(true, Relaxed);
    }

    /// Reading back writes nowhere.
    pub(crate) fn forget_written_since(&self, before: u64) {
        self.written.store(before, Relaxed);
    }

    /// The run has failed, and begins anew.
    pub(crate) fn begin_anew(&self) {
        self.written.store(0, Relaxed);
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.stopped.store(false, Relaxed);
    }

    /// Whether it was stopped by something that a later run may go on after.
    pub(crate) fn may_go_on(&self) -> bool {
        let slot = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().is_some_and(Error::may_go_on)
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// `Err` once the run has failed: an echo, the error itself stays for [`Watch::outcome`].
    pub(crate) fn check(&self) -> crate::Result<()> {
        if self.stopped() {
            Err(Error::new(ErrorKind::Interrupted, "stopped after an earlier error"))
        } else {
            Ok(())
        }
    }

    /// The error that stopped the run, once.
    pub(crate) fn outcome(&self) -> crate::Result<()> {
        let mut slot = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        slot.take().map_or(Ok(()), Err)
    }
}
