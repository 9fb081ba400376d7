//! A conversion of an upload: the process that reads foreign bytes, and the pipe to it.

use crate::fault::FAILED;
use crate::running::{Attempt, Ended};
use crate::said::{Fault, Order, Said};
use crate::server::Shown;
use crate::stop::Stop;
use bytes::{Buf as _, Bytes};
use cdi::source::upload::{END, before};
use cdi::{Error, Result};
use fetch::Decoded;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ChildStdin;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// A pipe of this size means fewer switches between the two processes.
const PIPE: usize = 1 << 20;
/// Time for an abandoned process to clean up; then it is killed.
const GRACE: Duration = Duration::from_secs(1);

/// A running conversion.
pub(super) struct Conversion {
    pipe: pipe::Sender,
    told: watch::Receiver<Told>,
    stop: Stop,
    decoded: Decoded,
}

/// The state of a conversion.
#[derive(Debug, Clone)]
pub(super) enum Told {
    Runs,
    /// All bytes came and were valid.
    Whole,
    Ended(Ended),
}

impl Conversion {
    pub(super) async fn start(order: Order, stop: &Stop, shown: &Arc<Shown>) -> Result<Conversion> {
        let (tell, told) = watch::channel(Told::Runs);
        let (give, input) = oneshot::channel();
        let (shown, for_thread) = (Arc::clone(shown), stop.clone());
        let decoded = Decoded::default();
        let counts = decoded.clone();
        // The process ends with this thread.
        let thread = move || match Attempt::start_with_input(&order, &for_thread) {
            Err(e) => drop(give.send(Err(e))),
            Ok((attempt, stdin)) => {
                drop(give.send(Ok(stdin)));
                follow(attempt, &shown, &counts, &tell);
            }
        };
        let started = std::thread::Builder::new().name("conversion".to_owned()).spawn(thread);
        started.map_err(|e| Error::io("cannot start a thread", e))?;
        let stdin: ChildStdin =
            input.await.map_err(|_| Error::failed("the process that converts was not started"))??;
        // If that is not allowed it works as it is.
        if let Err(e) = rustix::pipe::fcntl_setpipe_size(&stdin, PIPE) {
            tracing::debug!("the pipe keeps its size: {e}");
        }
        let pipe = pipe::Sender::from_owned_fd(OwnedFd::from(stdin));
        let pipe = pipe.map_err(|e| Error::io("cannot use the pipe of the process that converts", e))?;
        Ok(Conversion { pipe, told, stop: stop.clone(), decoded })
    }

    /// Passes bytes on; waits until the conversion has taken those before them.
    pub(super) async fn put(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            // A piece of the announced length.
            let piece = bytes.split_to(bytes.len().min(length as usize));
            let head = before(length);
            self.pipe.write_all_buf(&mut (&head[..]).chain(piece)).await?;
        }
        Ok(())
    }

    /// Ends the input. Waits for the end of the conversion, or until all bytes are known to be valid.
    pub(super) async fn finish(&mut self, is_async: bool) -> Told {
        // If this fails the process has ended, and its result is the better error.
        let _ = self.pipe.write_all(&END).await;
        let told = self.told.wait_for(|told| match told {
            Told::Runs => false,
            Told::Whole => is_async,
            Told::Ended(_) => true,
        });
        told.await.map_or_else(|_| Told::Ended(lost()), |told| told.clone())
    }

    /// The count of decompressed bytes.
    pub(super) fn decoded(&self) -> Decoded {
        self.decoded.clone()
    }

    /// A handle to wait for the end while bytes are written.
    pub(super) fn end(&self) -> End {
        End(self.told.clone())
    }

    /// Ends the conversion before its end, and waits for that.
    pub(super) async fn abandon(self) {
        let Conversion { pipe, told, stop, .. } = self;
        let mut end = End(told);
        // Without its last piece the upload is a broken one.
        drop(pipe);
        if timeout(GRACE, end.wait()).await.is_err() {
            // The process may be in the middle of a system call; only its own thread holds a lock meanwhile.
            stop.insist();
            end.wait().await;
        }
    }
}

/// A handle to wait for the end of a conversion.
pub(super) struct End(watch::Receiver<Told>);

impl End {
    pub(super) async fn wait(&mut self) -> Ended {
        match self.0.wait_for(|told| matches!(told, Told::Ended(_))).await.as_deref() {
            Ok(Told::Ended(ended)) => ended.clone(),
            _ => lost(),
        }
    }
}

fn lost() -> Ended {
    let message = "the process that converts was lost".to_owned();
    Ended::Failed(Fault { reason: FAILED.to_owned(), message, may_retry: true, ..Fault::default() })
}

/// Reads the lines of the attempt until it ends.
fn follow(mut attempt: Attempt, shown: &Shown, counts: &Decoded, tell: &watch::Sender<Told>) {
    while let Some(said) = attempt.next() {
        match said {
            Said::Moved { done, total, is_finishing, decoded } => {
                counts.set(decoded);
                let mut progress = shown.progress.lock().unwrap_or_else(PoisonError::into_inner);
                progress.moved(done, total, is_finishing, Instant::now());
            }
            Said::Whole => drop(tell.send(Told::Whole)),
            // These lines are the result of the attempt.
            Said::Planned | Said::Done(_) | Said::Failed(_) => {}
        }
    }
    let ended = attempt.end().unwrap_or_else(|e| {
        Ended::Failed(Fault {
            reason: FAILED.to_owned(),
            message: e.chain(),
            may_retry: true,
            ..Fault::default()
        })
    });
    tell.send_replace(Told::Ended(ended));
}
