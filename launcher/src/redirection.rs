//! USB devices of clients (usbredir): a client brings a device, and its stream goes to QEMU.
//!
//! ```text
//!  usbredirect ─ virtctl ─ virt-api ─ virt-handler ─► Redirection::reserve ─► a free slot ─► QEMU's socket
//!                                                       4 slots; a fifth client is refused
//! ```
//!
//! QEMU serves one client for each socket and lets others wait for ever, so clients are counted here. The
//! content of a stream is not read here.
//!
//! Called by `server`, which reserves a [`RedirectionSlot`] before it lets a stream leave HTTP.

use crate::error::{Error, ErrorKind, Result};
use crate::root::Root;
use api::machine::devices::REDIRECTIONS;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Time limit of connecting to QEMU's socket. It connects at once, or QEMU still has another client there.
const PATIENCE: Duration = Duration::from_secs(5);

/// Paths of QEMU's sockets for USB devices.
pub fn sockets(root: &Root) -> Vec<PathBuf> {
    (0..REDIRECTIONS).map(|n| root.socket(&format!("usbredir-{n}"))).collect()
}

/// The slots of a VM. All clones share their clients' count.
#[derive(Clone, Debug)]
pub struct Redirection {
    places: Arc<[(PathBuf, Arc<Semaphore>)]>,
}

/// A client's slot, until it is dropped.
#[derive(Debug)]
pub struct RedirectionSlot {
    qemu: UnixStream,
    _held: OwnedSemaphorePermit,
}

impl Redirection {
    /// The slots for these sockets.
    pub fn new(sockets: Vec<PathBuf>) -> Redirection {
        Redirection {
            places: sockets.into_iter().map(|socket| (socket, Arc::new(Semaphore::new(1)))).collect(),
        }
    }

    /// Reserves a free slot, or returns the reason of a refusal. For a server that must answer before it
    /// hands its stream over.
    pub async fn reserve(&self) -> Result<RedirectionSlot> {
        let mut fault = None;
        for (socket, place) in self.places.iter() {
            let Ok(held) = Arc::clone(place).try_acquire_owned() else { continue };
            match timeout(PATIENCE, UnixStream::connect(socket)).await {
                Ok(Ok(qemu)) => return Ok(RedirectionSlot { qemu, _held: held }),
                Ok(Err(e)) if e.kind() == io::ErrorKind::NotFound => {
                    let what = "the VM takes no USB devices of clients (spec.domain.devices.clientPassthrough), or does not run";
                    return Err(Error::new(ErrorKind::NotFound, what));
                }
                Ok(Err(e)) => {
                    fault = Some(Error::io(format!("cannot reach QEMU at {}", socket.display()), e))
                }
                Err(_) => {
                    let what = format!("QEMU did not answer at {} within {PATIENCE:?}", socket.display());
                    fault = Some(Error::new(ErrorKind::Failed, what));
                }
            }
        }
        let busy = || {
            let what = format!("all {} slots for USB devices of clients are in use", self.places.len());
            Error::new(ErrorKind::Busy, what)
        };
        Err(fault.unwrap_or_else(busy))
    }
}

impl RedirectionSlot {
    /// Copies both ways until both sides have ended, or one has failed.
    pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(mut self, mut client: S) {
        let done = copy_bidirectional(&mut client, &mut self.qemu).await;
        tracing::debug!("a USB device of a client: {done:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
    use tokio::net::UnixListener;

    #[tokio::test]
    async fn each_client_has_a_place_of_its_own_and_none_is_left_for_one_more() {
        let folder = tempfile::tempdir().unwrap();
        let sockets: Vec<_> = ["a", "b"].map(|name| folder.path().join(name)).into();
        let redirection = Redirection::new(sockets.clone());
        let nowhere = redirection.reserve().await.unwrap_err();
        assert_eq!(nowhere.kind(), ErrorKind::NotFound);
        assert!(nowhere.to_string().contains("clientPassthrough"), "{nowhere}");

        let listeners = sockets.iter().map(|socket| UnixListener::bind(socket).unwrap()).collect::<Vec<_>>();
        let (first, second) = (redirection.reserve().await.unwrap(), redirection.reserve().await.unwrap());
        let full = redirection.reserve().await.unwrap_err();
        assert_eq!(
            (full.kind(), full.to_string().as_str()),
            (ErrorKind::Busy, "all 2 slots for USB devices of clients are in use")
        );
        // What a client says comes to its own QEMU, and the other way.
        let (mut client, end) = duplex(64);
        let served = tokio::spawn(second.serve(end));
        let (mut qemu, _) = listeners[1].accept().await.unwrap();
        client.write_all(b"hello").await.unwrap();
        let mut heard = [0; 5];
        qemu.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"hello");
        qemu.write_all(b"there").await.unwrap();
        client.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"there");
        // A client that goes leaves its place.
        drop((client, qemu));
        served.await.unwrap();
        assert!(redirection.reserve().await.is_ok());
        drop(first);
    }
}
