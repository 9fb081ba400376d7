//! A conversion of an upload: the process that reads foreign bytes, and the pipe to it.

use crate::attempt_process::{Attempt, AttemptResult};
use crate::fault::FAILED;
use crate::protocol::{Fault, Order, ProgressLine};
use crate::server::SharedProgress;
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

/// A running conversion: the pipe to its process, and the state of that process.
pub(super) struct Conversion {
    pipe: pipe::Sender,
    state: watch::Receiver<ConversionState>,
    stop: Stop,
    decoded: Decoded,
}

/// The state of a conversion.
#[derive(Debug, Clone)]
pub(super) enum ConversionState {
    Runs,
    /// All bytes came and were valid.
    Whole,
    Ended(AttemptResult),
}

impl Conversion {
    pub(super) async fn start(order: Order, stop: &Stop, shown: &Arc<SharedProgress>) -> Result<Conversion> {
        let (tell, state) = watch::channel(ConversionState::Runs);
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
        Ok(Conversion { pipe, state, stop: stop.clone(), decoded })
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
    pub(super) async fn finish(&mut self, is_async: bool) -> ConversionState {
        // If this fails the process has ended, and its result is the better error.
        let _ = self.pipe.write_all(&END).await;
        let state = self.state.wait_for(|state| match state {
            ConversionState::Runs => false,
            ConversionState::Whole => is_async,
            ConversionState::Ended(_) => true,
        });
        state.await.map_or_else(|_| ConversionState::Ended(lost()), |state| state.clone())
    }

    /// The count of decompressed bytes.
    pub(super) fn decoded(&self) -> Decoded {
        self.decoded.clone()
    }

    /// A handle to wait for the end while bytes are written.
    pub(super) fn end(&self) -> End {
        End(self.state.clone())
    }

    /// Ends the conversion before its end, and waits for that.
    pub(super) async fn abandon(self) {
        let Conversion { pipe, state, stop, .. } = self;
        let mut end = End(state);
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
pub(super) struct End(watch::Receiver<ConversionState>);

impl End {
    pub(super) async fn wait(&mut self) -> AttemptResult {
        match self.0.wait_for(|state| matches!(state, ConversionState::Ended(_))).await.as_deref() {
            Ok(ConversionState::Ended(ended)) => ended.clone(),
            _ => lost(),
        }
    }
}

fn lost() -> AttemptResult {
    let message = "the process that converts was lost".to_owned();
    AttemptResult::Failed(Fault { reason: FAILED.to_owned(), message, may_retry: true, ..Fault::default() })
}

/// Reads the lines of the attempt until it ends.
fn follow(
    mut attempt: Attempt,
    shown: &SharedProgress,
    counts: &Decoded,
    tell: &watch::Sender<ConversionState>,
) {
    while let Some(said) = attempt.next() {
        match said {
            ProgressLine::Moved { done, total, is_finishing, decoded } => {
                counts.set(decoded);
                let mut progress = shown.progress.lock().unwrap_or_else(PoisonError::into_inner);
                progress.moved(done, total, is_finishing, Instant::now());
            }
            ProgressLine::Whole => drop(tell.send(ConversionState::Whole)),
            // These lines are the result of the attempt.
            ProgressLine::Planned | ProgressLine::Done(_) | ProgressLine::Failed(_) => {}
        }
    }
    let ended = attempt.end().unwrap_or_else(|e| {
        AttemptResult::Failed(Fault {
            reason: FAILED.to_owned(),
            message: e.chain(),
            may_retry: true,
            ..Fault::default()
        })
    });
    tell.send_replace(ConversionState::Ended(ended));
}
