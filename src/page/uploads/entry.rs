//! An upload in the browser: its task and its progress.

use super::Begin;
use crate::virt::client::Cluster;
use crate::virt::upload::{At, Bytes, Errand, Handed, Hears, Phase, run};
use cdi::Result;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

/// An upload that is running or has ended.
pub(super) struct Entry {
    begin: Begin,
    handed: Arc<Handed>,
    sent: Arc<AtomicU64>,
    told: Arc<Told>,
    task: AbortHandle,
}

/// Progress of an upload, written by its task.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    phase: Option<Phase>,
    /// Message: the reason why it waits, or of a broken attempt.
    note: String,
    end: Option<Result<(), String>>,
}

impl Entry {
    /// Starts the task of an upload to the DataVolume of this name.
    pub(super) fn begin(cluster: Cluster, name: String, begin: Begin, at: At) -> Entry {
        let wish = begin.wish(name);
        let handed = Arc::new(Handed::new(begin.file.clone(), begin.length));
        let bytes = Bytes::handed(Arc::clone(&handed));
        let (sent, told) = (bytes.sent(), Arc::<Told>::default());
        let hears = Arc::clone(&told);
        let task = tokio::spawn(async move {
            let errand = Errand { cluster: &cluster, wish: &wish, hears: &*hears };
            let ended = run(errand, &at, &bytes).await;
            hears.state().end = Some(ended.map_err(|e| e.chain()));
        });
        Entry { begin, handed, sent, told, task: task.abort_handle() }
    }

    /// Receiver of the file's bytes, and the progress to update.
    pub(super) fn hands(&self) -> (Arc<Handed>, Arc<Told>) {
        (Arc::clone(&self.handed), Arc::clone(&self.told))
    }

    /// Name of its file.
    pub(super) fn file(&self) -> &str {
        &self.begin.file
    }

    /// True if the form is about the same file.
    pub(super) fn is_of(&self, other: &Begin) -> bool {
        let facts = |begin: &Begin| (begin.file.clone(), begin.length, begin.modified);
        facts(&self.begin) == facts(other)
    }

    /// True if the upload has succeeded or failed.
    pub(super) fn has_ended(&self) -> bool {
        self.told.state().end.is_some()
    }

    /// Cancels the upload by aborting its task.
    pub(super) fn end(&self) {
        self.task.abort();
    }

    /// The progress as JSON for the page.
    pub(super) fn shown(&self, namespace: &str, name: &str) -> Value {
        let state = self.told.state();
        let (phase, error) = match (&state.end, state.phase) {
            (Some(Ok(())), _) => ("done", None),
            (Some(Err(why)), _) => ("failed", Some(why)),
            (None, Some(Phase::Sending)) => ("sending", None),
            (None, Some(Phase::Processing)) => ("processing", None),
            (None, Some(Phase::Waiting)) => ("waiting", None),
            (None, Some(Phase::Preparing) | None) => ("preparing", None),
        };
        json!({
            "namespace": namespace, "name": name,
            "file": self.begin.file, "length": self.begin.length, "modified": self.begin.modified,
            "phase": phase, "note": state.note, "error": error,
            "sent": self.sent.load(Relaxed), "wants": self.handed.at(), "held": self.handed.is_held(),
        })
    }
}

impl Told {
    /// Clears the message, since bytes are moving again.
    pub(super) fn moves(&self) {
        self.state().note.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hears for Told {
    fn out(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn say(&self, sentence: &str) {
        sentence.clone_into(&mut self.state().note);
    }

    fn begins(&self, phase: Phase) {
        let mut state = self.state();
        (state.phase, state.note) = (Some(phase), String::new());
    }
}
