//! Threads for calls that may never return: libvirt, the guest agent, files on unreachable storage.
//!
//! ```text
//!  run("driver", call)       one thread for one call, which ends with the call; no call waits for another
//!  Slots::ask(what, call)    the same for clients, with a bound: a slot is in use as long as the call lasts,
//!                            even after its client has gone
//! ```
//!
//! A thread pool shared by all kinds of calls would be full of hanging calls when an important one comes.

use crate::hypervisor::{Error, ErrorKind, Result};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

/// A call on its own thread. Its result is awaited; a call whose result is dropped goes on.
#[derive(Debug)]
pub(crate) struct Running<T> {
    name: &'static str,
    result: oneshot::Receiver<T>,
    /// The thread, or the reason why it did not start.
    thread: std::result::Result<JoinHandle<()>, String>,
}

/// Starts a call on its own thread with this name.
pub(crate) fn run<T: Send + 'static>(
    name: &'static str,
    call: impl FnOnce() -> T + Send + 'static,
) -> Running<T> {
    let (tell, result) = oneshot::channel();
    // The result is dropped if it is not awaited any more.
    let thread = Builder::new().name(name.to_owned()).spawn(move || drop(tell.send(call())));
    let thread = thread.map_err(|e| format!("the launcher cannot begin the thread '{name}': {e}"));
    Running { name, result, thread }
}

impl<T> Running<T> {
    /// True if the call has returned.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.as_ref().map_or(true, JoinHandle::is_finished)
    }
}

/// The error is a fault of the launcher: a thread that could not start, or that panicked.
impl<T> Future for Running<T> {
    type Output = std::result::Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Err(why) = &self.thread {
            return Poll::Ready(Err(why.clone()));
        }
        let name = self.name;
        let panicked = |_| format!("the launcher has a fault: its thread '{name}' panicked");
        Pin::new(&mut self.result).poll(context).map(|result| result.map_err(panicked))
    }
}

/// Slots for calls of one kind by clients. Its clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    name: &'static str,
    /// Time for which a client waits for a slot, and again for the call.
    patience: Duration,
    free: Arc<Semaphore>,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// A call that has not returned.
#[derive(Debug)]
struct Call {
    doing: String,
    since: Instant,
}

/// A slot in use, until its call returns.
struct Slot {
    calls: Arc<Mutex<Vec<Call>>>,
    since: Instant,
    _permit: OwnedSemaphorePermit,
}

impl Slots {
    /// `count` slots, whose threads have this name.
    pub(crate) fn new(name: &'static str, count: usize, patience: Duration) -> Slots {
        Slots { name, patience, free: Arc::new(Semaphore::new(count)), calls: Arc::default() }
    }

    /// Makes a call when a slot is free. A call that does not return in time goes on without its client.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        doing: &str,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let place = self.slot(doing).await?;
        let running = run(self.name, move || {
            let result = call();
            drop(place);
            result
        });
        match timeout(self.patience, running).await {
            Ok(done) => done.map_err(|why| Error::new(ErrorKind::Failed, doing, why)),
            Err(_) => {
                let why = format!("there was no answer for {} s", self.patience.as_secs());
                Err(Error::new(ErrorKind::TimedOut, doing, why))
            }
        }
    }

    async fn slot(&self, doing: &str) -> Result<Slot> {
        let Ok(Ok(permit)) = timeout(self.patience, self.free.clone().acquire_owned()).await else {
            let calls = locked(&self.calls);
            let calls: Vec<String> = calls
                .iter()
                .map(|call| format!("{} ({} s)", call.doing, call.since.elapsed().as_secs()))
                .collect();
            let why = format!("these calls have not returned yet: {}", calls.join(", "));
            return Err(Error::new(ErrorKind::Unavailable, doing, why));
        };
        let since = Instant::now();
        locked(&self.calls).push(Call { doing: doing.to_owned(), since });
        Ok(Slot { calls: self.calls.clone(), since, _permit: permit })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut calls = locked(&self.calls);
        if let Some(at) = calls.iter().position(|call| call.since == self.since) {
            calls.remove(at);
        }
    }
}

fn locked(calls: &Mutex<Vec<Call>>) -> MutexGuard<'_, Vec<Call>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn a_call_that_hangs_is_named_to_the_clients_that_wait_for_it() {
        let places = Slots::new("test", 1, Duration::from_millis(50));
        let (release, held) = mpsc::channel::<()>();
        let late = places.ask("read the disk", move || held.recv().is_err()).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        assert_eq!(late.to_string(), "cannot read the disk: there was no answer for 0 s");
        let busy = places.ask("read another", || ()).await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Unavailable);
        assert!(busy.to_string().contains("not returned yet: read the disk (0 s)"), "{busy}");
        drop(release);
        let places = Slots { patience: Duration::from_secs(60), ..places };
        assert_eq!(places.ask("read a third", || 7).await.unwrap(), 7);
        assert!(locked(&places.calls).is_empty());
    }

    #[tokio::test]
    async fn a_call_that_panics_is_a_fault_of_the_launcher() {
        let panics = run("test", || -> () { panic!("no") });
        assert!(panics.await.unwrap_err().contains("'test' panicked"));
        let running = run("test", || 7);
        assert_eq!(running.await.unwrap(), 7);
    }
}
