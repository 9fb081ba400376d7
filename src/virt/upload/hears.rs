//! Who hears how an upload goes: whoever typed the command, or a page.

use cdi::Result;

/// How far an upload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The DataVolume or the PVC is looked for, or made.
    Preparing,
    /// The upload pod is waited for.
    Waiting,
    /// Bytes are sent.
    Sending,
    /// All bytes are sent, and the disk is not whole yet.
    Processing,
}

/// Hears what is said of an upload on its way.
pub(crate) trait Hears: Send + Sync {
    /// A step that is done, in the words of virtctl, with the end of its line.
    fn out(&self, line: &str) -> Result<()>;

    /// A sentence for people.
    fn say(&self, sentence: &str);

    /// What the upload waits for now.
    fn waits(&self, what: &str) {
        self.say(&format!("waits: {what}"));
    }

    /// The next phase begins.
    fn begins(&self, phase: Phase);
}
