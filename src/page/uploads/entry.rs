//! An upload in the browser: its task and its progress.

use super::Begin;
use crate::error::Result;
use crate::virt::client::Cluster;
use crate::virt::upload::{BrowserUpload, Bytes, Phase, ProxySettings, UploadContext, UploadObserver, run};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::AbortHandle;

/// An upload that is running or has ended.
pub(super) struct Entry {
    begin: Begin,
    browser: Arc<BrowserUpload>,
    sent: Arc<AtomicU64>,
    told: Arc<UploadProgress>,
    task: AbortHandle,
}

/// Progress of an upload, written by its task.
#[derive(Debug, Default)]
pub(super) struct UploadProgress(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    phase: Option<Phase>,
    /// Message: the reason why it waits, or of a broken attempt.
    note: String,
    end: Option<Result<(), String>>,
}

impl Entry {
    /// Starts the task of an upload to the DataVolume of this name.
    pub(super) fn begin(cluster: Cluster, name: String, begin: Begin, at: ProxySettings) -> Entry {
        let params = begin.params(name);
        let browser = Arc::new(BrowserUpload::new(begin.file.clone(), begin.length));
        let bytes = Bytes::from_browser(Arc::clone(&browser));
        let (sent, told) = (bytes.sent(), Arc::<UploadProgress>::default());
        let observer = Arc::clone(&told);
        let task = tokio::spawn(async move {
            let context = UploadContext { cluster: &cluster, params: &params, observer: &*observer };
            let ended = run(context, &at, &bytes).await;
            observer.state().end = Some(ended.map_err(|e| e.chain()));
        });
        Entry { begin, browser, sent, told, task: task.abort_handle() }
    }

    /// Receiver of the file's bytes, and the progress to update.
    pub(super) fn receiver(&self) -> (Arc<BrowserUpload>, Arc<UploadProgress>) {
        (Arc::clone(&self.browser), Arc::clone(&self.told))
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
            "sent": self.sent.load(Relaxed), "wants": self.browser.at(), "held": self.browser.is_active(),
        })
    }
}

impl UploadProgress {
    /// Clears the message, since bytes are moving again.
    pub(super) fn moves(&self) {
        self.state().note.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UploadObserver for UploadProgress {
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
