//! The word of the source that the guest may go on here.

use super::listen;
use crate::error::Result;
use api::launcher::Release;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixListener;
use tokio::time::timeout;

/// Longest message.
const LONGEST: u64 = 4 << 10;

/// Socket on which the source sends its [`Release`]. It is removed with the value.
#[derive(Debug)]
pub struct ReleaseListener {
    listener: UnixListener,
    socket: PathBuf,
}

impl ReleaseListener {
    pub(super) fn bind(socket: &Path) -> Result<ReleaseListener> {
        Ok(ReleaseListener { listener: listen(socket)?, socket: socket.to_owned() })
    }

    /// Waits for the message. `None` if the connection ends without one, or at the time limit. One connection is read: the source
    /// makes it before its migration.
    pub async fn message(&self, limit: Duration) -> Option<Release> {
        let read = async {
            let (source, _) = self.listener.accept().await?;
            let mut line = String::new();
            BufReader::new(source.take(LONGEST)).read_line(&mut line).await?;
            serde_json::from_str(&line).map_err(std::io::Error::from)
        };
        match timeout(limit, read).await {
            Ok(Ok(release)) => Some(release),
            Ok(Err(e)) => {
                tracing::warn!("the source has not said that its VM is gone: {e}");
                None
            }
            Err(_) => {
                tracing::warn!("the source has not said within {} s that its VM is gone", limit.as_secs());
                None
            }
        }
    }
}

impl Drop for ReleaseListener {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.socket));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    #[tokio::test]
    async fn a_message_counts_and_the_end_of_a_connection_does_not() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("release");
        let long = format!("{{\"runs\": true{}}}", " ".repeat(5000));
        for (text, expected) in [
            ("{\"runs\":true}\n", Some(Release { runs: true })),
            ("{\"runs\":false}\n", Some(Release { runs: false })),
            ("", None),
            ("{}\n", None),
            (long.as_str(), None),
        ] {
            let listener = ReleaseListener::bind(&socket).unwrap();
            let mut source = UnixStream::connect(&socket).unwrap();
            source.write_all(text.as_bytes()).unwrap();
            drop(source);
            assert_eq!(listener.message(Duration::from_secs(60)).await, expected, "{text}");
            drop(listener);
            assert!(!socket.exists());
        }
    }

    #[tokio::test]
    async fn a_source_that_says_nothing_is_not_waited_for_without_end() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("release");
        let listener = ReleaseListener::bind(&socket).unwrap();
        let _source = UnixStream::connect(&socket).unwrap();
        assert_eq!(listener.message(Duration::from_millis(50)).await, None);
    }
}
