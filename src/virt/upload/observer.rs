//! Progress and messages of an upload, received by a terminal or a page.

use crate::error::Result;

/// Phase of an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The DataVolume or the PVC is looked up or created.
    Preparing,
    /// The upload waits for its pod.
    Waiting,
    /// The bytes are being sent.
    Sending,
    /// All bytes are sent; the disk is not complete yet.
    Processing,
}

/// Receiver of an upload's progress.
pub(crate) trait UploadObserver: Send + Sync {
    /// A finished step, as a line of virtctl with its line end.
    fn out(&self, line: &str) -> Result<()>;

    /// A message for the user.
    fn say(&self, sentence: &str);

    /// A new reason why the upload waits.
    fn waits(&self, what: &str) {
        self.say(&format!("waits: {what}"));
    }

    /// The upload enters its next phase.
    fn begins(&self, phase: Phase);
}
