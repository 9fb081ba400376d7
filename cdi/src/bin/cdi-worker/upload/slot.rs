//! The slot for one upload at a time, and its states. No I/O.
//!
//! ```text
//!            take                     hold (tus)
//!   Free ───────────► Busy ◄───────────────────────► Waiting
//!    ▲  ◄─── free ───  │ done      resume, take (another)
//!    │                 ▼
//!    └─ close ─► Shut  Done
//! ```

use super::conversion::Conversion;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot, watch};

/// The slot, shared by all connections of the upload server.
#[derive(Default)]
pub(super) struct Slot {
    state: Mutex<State>,
    /// Counts changes of the state, so that a connection can wait for the next one.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
enum State {
    #[default]
    Free,
    Busy {
        id: Option<String>,
        cut: Arc<Notify>,
    },
    Waiting(WaitingUpload),
    /// The disk is complete; with the ID of its upload, if it was a tus upload.
    Done(Option<String>),
    /// The deadline has passed.
    Shut,
}

/// A tus upload whose connection was lost, until the client connects again.
pub(super) struct WaitingUpload {
    pub(super) id: String,
    /// Bytes that were passed to the conversion.
    pub(super) offset: u64,
    pub(super) conversion: Conversion,
    /// Dropped at the end of the wait, which wakes the receiver.
    pub(super) _guard: oneshot::Sender<()>,
}

/// The right to use the slot; the caller must give it back.
pub(super) struct Turn {
    /// An upload that waited, and that must be abandoned first.
    pub(super) earlier: Option<Conversion>,
    /// Notified when another connection continues the same upload.
    pub(super) cut: Arc<Notify>,
}

/// The reason why the slot cannot be taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unavailable {
    /// Another upload is running.
    Busy,
    /// The disk exists already.
    Done,
    /// No upload is accepted any more.
    Shut,
}

/// The state of a tus upload.
pub(super) enum UploadState {
    /// No byte of it was taken; the slot is free for it.
    Nothing,
    /// The upload waits, after this number of bytes.
    At(u64),
    /// The upload is complete.
    Whole,
    /// The slot cannot be taken.
    Not(Unavailable),
}

impl Slot {
    /// Takes the slot for a new upload. One that waits for its connection gives way.
    pub(super) fn take(&self, id: Option<&str>) -> Result<Turn, Unavailable> {
        let mut state = self.state();
        match &*state {
            State::Free | State::Waiting(_) => {}
            State::Busy { .. } => return Err(Unavailable::Busy),
            State::Done(_) => return Err(Unavailable::Done),
            State::Shut => return Err(Unavailable::Shut),
        }
        let cut = Arc::new(Notify::new());
        let busy = State::Busy { id: id.map(str::to_owned), cut: Arc::clone(&cut) };
        let earlier = match std::mem::replace(&mut *state, busy) {
            State::Waiting(held) => Some(held.conversion),
            _ => None,
        };
        drop(state);
        self.tell();
        Ok(Turn { earlier, cut })
    }

    /// Looks up a tus upload. A connection that still sends it is closed, and its end awaited.
    pub(super) async fn find(&self, id: &str) -> UploadState {
        let mut changes = self.changed.subscribe();
        loop {
            match &*self.state() {
                State::Free => return UploadState::Nothing,
                State::Waiting(held) if held.id == id => return UploadState::At(held.offset),
                State::Waiting(_) => return UploadState::Nothing,
                State::Done(Some(done)) if done == id => return UploadState::Whole,
                State::Done(_) => return UploadState::Not(Unavailable::Done),
                State::Shut => return UploadState::Not(Unavailable::Shut),
                State::Busy { id: Some(busy), cut } if busy == id => cut.notify_one(),
                State::Busy { .. } => return UploadState::Not(Unavailable::Busy),
            }
            if changes.changed().await.is_err() {
                return UploadState::Not(Unavailable::Busy);
            }
        }
    }

    /// Resumes a tus upload that waits at this byte; `None` if it does not wait any more.
    pub(super) fn resume(&self, id: &str, offset: u64) -> Option<(Conversion, Arc<Notify>)> {
        let mut state = self.state();
        if !matches!(&*state, State::Waiting(held) if held.id == id && held.offset == offset) {
            return None;
        }
        let cut = Arc::new(Notify::new());
        let busy = State::Busy { id: Some(id.to_owned()), cut: Arc::clone(&cut) };
        let State::Waiting(held) = std::mem::replace(&mut *state, busy) else { return None };
        drop(state);
        self.tell();
        Some((held.conversion, cut))
    }

    /// Takes the slot from the upload of this ID, if it waits.
    pub(super) fn evict(&self, id: &str) -> Option<Conversion> {
        let mut state = self.state();
        if !matches!(&*state, State::Waiting(held) if held.id == id) {
            return None;
        }
        let busy = State::Busy { id: None, cut: Arc::new(Notify::new()) };
        let State::Waiting(held) = std::mem::replace(&mut *state, busy) else { return None };
        Some(held.conversion)
    }

    /// Makes the upload wait for its next connection.
    pub(super) fn hold(&self, held: WaitingUpload) {
        *self.state() = State::Waiting(held);
        self.tell();
    }

    /// The reason why no upload could begin, if there is one.
    pub(super) fn unavailable(&self) -> Option<Unavailable> {
        match &*self.state() {
            State::Free | State::Waiting(_) => None,
            State::Busy { .. } => Some(Unavailable::Busy),
            State::Done(_) => Some(Unavailable::Done),
            State::Shut => Some(Unavailable::Shut),
        }
    }

    pub(super) fn free(&self) {
        *self.state() = State::Free;
        self.tell();
    }

    pub(super) fn done(&self, id: Option<String>) {
        *self.state() = State::Done(id);
        self.tell();
    }

    /// Waits until the slot is free, and closes it; waits for ever if the disk exists.
    pub(super) async fn close(&self) {
        let mut changes = self.changed.subscribe();
        loop {
            {
                let mut state = self.state();
                if matches!(*state, State::Free) {
                    *state = State::Shut;
                    return;
                }
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count = count.wrapping_add(1));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    #[tokio::test]
    async fn a_deadline_waits_for_the_upload_in_flight_and_lets_nobody_in_behind_it() {
        let slot = Arc::new(Slot::default());
        assert!(slot.take(None).is_ok());
        let closing = tokio::spawn({
            let slot = Arc::clone(&slot);
            async move { slot.close().await }
        });
        tokio::task::yield_now().await;
        assert_eq!(slot.unavailable(), Some(Unavailable::Busy));
        assert!(!closing.is_finished());
        slot.free();
        closing.await.unwrap();
        assert_eq!(slot.take(None).err(), Some(Unavailable::Shut));
    }

    #[tokio::test]
    async fn who_comes_back_cuts_his_own_connection_and_no_other() {
        let slot = Arc::new(Slot::default());
        let turn = slot.take(Some("a")).ok().unwrap();
        assert!(matches!(slot.find("b").await, UploadState::Not(Unavailable::Busy)));
        assert!(timeout(Duration::ZERO, turn.cut.notified()).await.is_err());
        let found = tokio::spawn({
            let slot = Arc::clone(&slot);
            async move { slot.find("a").await }
        });
        turn.cut.notified().await;
        slot.done(Some("a".to_owned()));
        assert!(matches!(found.await.unwrap(), UploadState::Whole));
        assert!(matches!(slot.find("b").await, UploadState::Not(Unavailable::Done)));
        assert_eq!(slot.take(Some("a")).err(), Some(Unavailable::Done));
    }
}
