//! The source's word to the target that its domain is gone.

use api::launcher::Release;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Time for the word to be taken by the connection.
const TAKEN: Duration = Duration::from_secs(5);

/// The connection on which the target waits. It is made before the migration: the guest stands still when the word is sent.
pub(super) struct ReleaseSender(UnixStream);

impl ReleaseSender {
    pub(super) fn connect(socket: &Path) -> io::Result<ReleaseSender> {
        let stream = UnixStream::connect(socket)?;
        stream.set_write_timeout(Some(TAKEN))?;
        Ok(ReleaseSender(stream))
    }

    /// Tells the target. If that fails, virt-handler tells it later.
    pub(super) fn send(mut self, release: Release) {
        let sent = serde_json::to_vec(&release).map_err(io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            self.0.write_all(&line)
        });
        if let Err(e) = sent {
            tracing::warn!("the target was not told that the VM is gone here: {e}");
        }
    }
}
