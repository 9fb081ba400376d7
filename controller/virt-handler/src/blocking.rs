//! Blocking work outside the runtime's workers: files, mounts, namespaces, `/proc`.
//!
//! ```text
//!  keeper of one VM ──run──► a place in line, `most` at once ──► a thread of its own: openat2, mount, setns, …
//!        │                            │
//!        │ waits at most `patience`   └─ kept until the kernel lets the thread go, however long the caller waited
//!        └─ all places taken: refused by the name of what is still at work
//! ```
//!
//! A tenant can make a system call block for ever: an NFS server that is gone, a FUSE program that never
//! answers, a lease on a file. A worker of the runtime that blocks serves no VM any more, and there are two
//! of them. So virt-handler makes such calls only here; `clippy.toml` of this package enforces that.
//!
//! **Guarantees.** No caller waits longer than its time limit. One [`Blocking`] has at most `most` threads;
//! each VM has its own, so a hostile VM takes none from another. The threads do not come from the runtime's
//! blocking pool: that is shared by the whole program, including name look-ups, and the program could not end
//! while one of its threads is blocked.
#![expect(clippy::disallowed_methods, reason = "this is where threads are begun")]

use super::error::{Error, Result};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;

/// Threads for the blocking work of one VM, or of the node itself.
#[derive(Clone, Debug)]
pub struct Blocking(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Owner of the work: `the pod UID`.
    whose: String,
    places: Arc<Semaphore>,
    /// Names of the work in progress, for the error of a caller that finds no free place.
    at_work: Mutex<Vec<&'static str>>,
}

impl Blocking {
    /// At most `most` threads at once. `whose` is the owner's name in errors.
    pub fn new(whose: impl Into<String>, most: usize) -> Blocking {
        let places = Arc::new(Semaphore::new(most));
        Blocking(Arc::new(Shared { whose: whose.into(), places, at_work: Mutex::default() }))
    }

    /// Runs `work` on a thread of its own, and waits for it at most `patience`. `doing` names the work in
    /// errors ("still busy with …").
    pub async fn run<T: Send + 'static>(
        &self,
        doing: &'static str,
        patience: Duration,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let whose = &self.0.whose;
        let whole = async {
            let place = self.0.places.clone().acquire_owned().await;
            let place = place.map_err(|e| Error::failed("virt-handler ends").because(e))?;
            let place = Turn::new(self.0.clone(), doing, place);
            let (tell, told) = oneshot::channel();
            let thread = thread::Builder::new().name("blocking".into()).spawn(move || {
                let done = work();
                drop(place);
                // The caller may have given up.
                drop(tell.send(done));
            });
            thread.map_err(|e| Error::io(format!("cannot start a thread for {whose}"), e))?;
            told.await
                .map_err(|_| Error::failed(format!("bug in virt-handler: panic in '{doing}' of {whose}")))?
        };
        timeout(patience, whole).await.map_err(|_| self.timeout_error(doing, patience))?
    }

    fn timeout_error(&self, doing: &str, patience: Duration) -> Error {
        let Shared { whose, at_work, .. } = &*self.0;
        let at_work = at_work.lock().unwrap_or_else(PoisonError::into_inner).join(", ");
        Error::failed(format!(
            "{doing} of {whose} took more than {} s (at work: {at_work}); a file system of the pod may not answer",
            patience.as_secs()
        ))
    }
}

/// A place of a thread. It is free again when the thread has ended, even if the caller no longer waits.
struct Turn {
    shared: Arc<Shared>,
    doing: &'static str,
    _permit: OwnedSemaphorePermit,
}

impl Turn {
    fn new(shared: Arc<Shared>, doing: &'static str, permit: OwnedSemaphorePermit) -> Turn {
        shared.at_work.lock().unwrap_or_else(PoisonError::into_inner).push(doing);
        Turn { shared, doing, _permit: permit }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut at_work = self.shared.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = at_work.iter().position(|doing| *doing == self.doing) {
            at_work.swap_remove(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn work_that_never_comes_back_is_left_alone_and_takes_one_place() {
        let blocking = Blocking::new("the pod a", 1);
        let (let_go, caught) = mpsc::channel::<()>();
        let said = blocking.run("reading", SHORT, move || Ok(caught.recv())).await.unwrap_err().to_string();
        assert!(said.contains("reading of the pod a took more than"), "{said}");
        // The place is still taken: no second thread starts beside the blocked one.
        let said = blocking.run("mounting", SHORT, || Ok(())).await.unwrap_err().to_string();
        assert!(said.contains("mounting of the pod a") && said.contains("at work: reading"), "{said}");
        // Another VM is not affected.
        Blocking::new("the pod b", 1).run("reading", LONG, || Ok(())).await.unwrap();
        let_go.send(()).unwrap();
        assert_eq!(blocking.run("reading", LONG, || Ok(7)).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_fault_in_the_work_is_an_error_and_frees_its_place() {
        let blocking = Blocking::new("the pod a", 1);
        let said = blocking.run("reading", LONG, || -> Result<()> { panic!("a fault") }).await.unwrap_err();
        assert!(said.to_string().contains("panic in 'reading' of the pod a"), "{said}");
        blocking.run("reading", LONG, || Ok(())).await.unwrap();
    }
}
