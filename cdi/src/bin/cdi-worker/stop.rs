//! The end of the pod by the kubelet: the signal is recorded, passed to the running attempt, and wakes
//! waiting threads.

use cdi::{Error, Result};
use std::process::{Child, ChildStdin};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// Time for an attempt to write its mark; then it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A shared flag: the process was asked to end. The first process of a container would ignore the signal
/// without a handler.
#[derive(Clone, Default)]
pub(crate) struct Stop(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    asked: tokio::sync::watch::Sender<bool>,
}

#[derive(Default)]
struct State {
    is_asked: bool,
    running: Option<Running>,
}

/// The process of an attempt, and the way to end it.
pub(crate) struct Running {
    pub(crate) child: Child,
    /// The input pipe, open until the attempt is asked to end; `None` if it carries an upload.
    pub(crate) wanted: Option<ChildStdin>,
}

impl Running {
    fn ask(&mut self) {
        self.wanted = None;
    }

    fn kill(&mut self) {
        // The process may have ended just now.
        let _ = self.child.kill();
    }
}

impl Stop {
    /// Listens for the signals that ask a process to end.
    pub(crate) fn listen() -> Result<Stop> {
        let stop = Stop::default();
        let runtime = fetch::runtime()?;
        let _inside = runtime.enter();
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let mut asked = signal(kind).map_err(|e| Error::io("cannot listen for signals", e))?;
            let stop = stop.clone();
            runtime.spawn(async move {
                while asked.recv().await.is_some() {
                    stop.ask();
                    tokio::time::sleep(GRACE).await;
                    stop.insist();
                }
            });
        }
        Ok(stop)
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.state().is_asked
    }

    /// Waits until the process is asked to end.
    pub(crate) async fn asked(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.asked.subscribe().wait_for(|is_asked| *is_asked).await;
    }

    /// Waits for this time, or until the process is asked to end.
    pub(crate) fn wait(&self, time: Duration) {
        let until = Instant::now() + time;
        let mut state = self.state();
        while !state.is_asked {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Registers an attempt that must end with this process; a late one is asked to end at once.
    pub(crate) fn runs(&self, mut running: Running) {
        let mut state = self.state();
        if state.is_asked {
            running.ask();
        }
        state.running = Some(running);
    }

    /// Unregisters the attempt and waits for its end with `wait`, so that no signal reaches a reused process
    /// ID.
    pub(crate) fn ended<T>(&self, wait: impl FnOnce(Option<Running>) -> T) -> T {
        let mut state = self.state();
        let running = state.running.take();
        wait(running)
    }

    fn ask(&self) {
        let mut state = self.state();
        state.is_asked = true;
        if let Some(running) = &mut state.running {
            running.ask();
        }
        drop(state);
        self.0.changed.notify_all();
        self.0.asked.send_replace(true);
    }

    /// Kills the running attempt.
    pub(crate) fn insist(&self) {
        if let Some(running) = &mut self.state().running {
            running.kill();
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
