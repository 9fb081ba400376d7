//! State of a run for other threads, and the only way to stop it: counters, a phase, the first error.

use crate::filter::progress::Count;
use crate::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The source is opened, and the facts for the plan are gathered.
    Opening,
    /// The disk is read to find its zeros; nothing is written.
    Measuring,
    /// Bytes are moved from the source to the target.
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

    /// One word for messages.
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
    /// Counter of the bytes read, kept by the source; set while the source is read as a stream.
    stream: Mutex<Option<Count>>,
    stopped: AtomicBool,
    error: Mutex<Option<Error>>,
    /// Sentence about the files that stay, and true if they stay only behind a mark.
    kept: Mutex<Option<(String, bool)>>,
    /// True once a later run can go on behind the first byte.
    has_mark: AtomicBool,
}

impl Watch {
    pub fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.phase.load(Relaxed)) % Phase::ALL.len()]
    }

    /// Progress and length of the phase (length 0: not known), in bytes of the source for streams and of the
    /// guest's disk otherwise.
    pub fn progress(&self) -> (u64, u64) {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let done = stream.as_ref().map_or_else(|| self.done.load(Relaxed), Count::position);
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

    /// True if [`Watch::interrupt`] was called or the run has failed.
    pub fn interrupted(&self) -> bool {
        self.stopped()
    }

    /// A sentence about files that stay if the program ends now, and how to continue; `None` if none stay.
    pub fn kept(&self) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kept.filter(|&(_, needs_mark)| !needs_mark || self.has_mark()).map(|(sentence, _)| sentence)
    }

    /// True if a later run can go on behind the first byte: this run has written a mark to its journal, or goes on from one.
    pub(crate) fn has_mark(&self) -> bool {
        self.has_mark.load(Relaxed)
    }

    pub(crate) fn marked(&self) {
        self.has_mark.store(true, Relaxed);
    }

    /// `needs_mark`: nothing stays before the first mark.
    pub(crate) fn keeps(&self, sentence: String, needs_mark: bool) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((sentence, needs_mark));
    }

    pub(crate) fn enter(&self, phase: Phase, total: u64) {
        self.done.store(0, Relaxed);
        self.total.store(total, Relaxed);
        self.phase.store(phase as u8, Relaxed);
    }

    /// Takes the progress from this counter, until the next call.
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

    /// Records an error. The first one stops every thread; later ones follow from it and are dropped.
    pub(crate) fn fail(&self, error: Error) {
        let mut slot = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        slot.get_or_insert(error);
        self.stopped.store(true, Relaxed);
    }

    /// Resets the count of written bytes, since reading back writes none.
    pub(crate) fn forget_written_since(&self, before: u64) {
        self.written.store(before, Relaxed);
    }

    /// Resets a failed run that begins anew.
    pub(crate) fn begin_anew(&self) {
        self.written.store(0, Relaxed);
        self.has_mark.store(false, Relaxed);
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.stopped.store(false, Relaxed);
    }

    /// True if a later run may continue after the error that stopped this one.
    pub(crate) fn may_go_on(&self) -> bool {
        let slot = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        slot.as_ref().is_some_and(Error::may_go_on)
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Relaxed)
    }

    /// `Err` once the run has failed; the error itself stays for [`Watch::outcome`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_begins_anew_has_no_error_and_nothing_written() {
        let watch = Watch::default();
        assert!(!watch.interrupted() && watch.kept().is_none() && watch.outcome().is_ok());
        watch.count_written(7);
        watch.keeps("a .partial stays".to_owned(), true);
        assert_eq!(watch.kept(), None);
        watch.marked();
        watch.fail(Error::failed("the cable is out"));
        watch.interrupt();
        assert!(watch.interrupted() && watch.check().is_err());
        assert_eq!((watch.written(), watch.kept().as_deref()), (7, Some("a .partial stays")));
        watch.begin_anew();
        assert!(!watch.interrupted() && watch.check().is_ok() && watch.outcome().is_ok());
        assert_eq!((watch.written(), watch.kept(), watch.has_mark()), (0, None, false));
    }

    #[test]
    fn the_first_error_says_whether_a_later_run_may_go_on() {
        let after = |errors: Vec<Error>| {
            let watch = Watch::default();
            errors.into_iter().for_each(|e| watch.fail(e));
            (watch.may_go_on(), watch.outcome().err().map(|e| e.to_string()))
        };
        let refused = || Error::refused("an L2 table overlaps data");
        let failed = || Error::failed("the cable is out");
        assert_eq!(after(vec![]), (false, None));
        assert_eq!(after(vec![failed(), refused()]), (true, Some(failed().to_string())));
        assert_eq!(after(vec![refused(), failed()]), (false, Some(refused().to_string())));
    }

    #[test]
    fn a_phase_begins_at_nothing_and_is_the_one_that_was_entered() {
        let watch = Watch::default();
        assert_eq!(watch.phase(), Phase::Opening);
        for phase in Phase::ALL {
            watch.enter(phase, 100);
            assert_eq!((watch.phase(), watch.progress()), (phase, (0, 100)));
            watch.advance(30);
            assert_eq!(watch.progress(), (30, 100));
        }
        let mut names = Phase::ALL.map(Phase::name).to_vec();
        names.dedup();
        assert_eq!(names.len(), Phase::ALL.len());
    }

    #[test]
    fn bytes_of_a_stream_stay_counted_when_another_is_followed() {
        let (watch, first, second) = (Watch::default(), Count::default(), Count::after(1000));
        watch.enter(Phase::Converting, 0);
        watch.count_read(1);
        watch.follow(Some(first.clone()));
        first.add(10);
        assert_eq!((watch.progress().0, watch.read()), (10, 11));
        watch.follow(Some(second.clone()));
        second.add(100);
        assert_eq!((watch.progress().0, watch.read()), (1100, 111), "an earlier run has read 1000");
        watch.follow(None);
        watch.advance(5);
        assert_eq!((watch.progress().0, watch.read()), (5, 111));
    }
}
