//! The launcher of one VMI, as the virt-handler of its node speaks with it: by the one client (`lib/launcher-client`), through a
//! door into the pod's folder, which tells the process that listens.
//!
//! The launcher is a tenant's: what it sends is bounded, and it is given a time for all of it. Whoever takes no connection,
//! says nothing, too little or without an end holds up its own VM alone. Here its errors become virt-handler's, but for what
//! is passed on to virt-api, with the launcher's own.

use super::error::{Error, ErrorKind, Result};
use super::pod::Process;
use ::launcher_client as one;
use api::launcher::{Answer, GuestFilesystem, GuestInfo, Info, Request, State, Stats, Sync};
use std::sync::Arc;
use std::time::Duration;

/// Time limits of what virt-api asks: less than its own, so that it hears which launcher does not answer.
const PASSED_ON: one::Timeouts = one::Timeouts {
    answer: Duration::from_secs(15),
    sync: Duration::from_secs(15),
    state: Duration::from_secs(5),
};

/// One launcher.
#[derive(Clone, Debug)]
pub struct Client(one::Client<Option<Process>>);

impl Client {
    /// The launcher of the VMI `name`.
    pub fn new(name: &str, door: Arc<dyn one::Connector<Option<Process>>>) -> Client {
        Client(one::Client::new(format!("the launcher of {name}"), door))
    }

    /// Who it is.
    pub async fn info(&self) -> Result<Info> {
        self.0.info().await.map_err(ours)
    }

    /// Tells it what should run. It refuses a generation that is older than one it has. The error is [`ErrorKind::Refused`] where
    /// the VMI has faults, and never because its launcher or its node is not well.
    pub async fn sync(&self, sync: &Sync) -> Result<Answer> {
        self.0.sync(sync).await.map_err(|e| match e.refusal().is_some_and(|said| !said.faults.is_empty()) {
            true => of_kind(ErrorKind::Refused, e),
            false => of_kind(ErrorKind::Failed, e),
        })
    }

    /// Asks for something.
    pub async fn request(&self, request: &Request) -> Result<Answer> {
        self.0.request(request).await.map_err(ours)
    }

    /// What the VMI has used.
    pub async fn stats(&self) -> Result<Stats> {
        self.0.stats().await.map_err(ours)
    }

    /// What the guest agent says.
    pub async fn guest_info(&self) -> Result<GuestInfo> {
        self.0.guest_info().await.map_err(ours)
    }

    /// The file systems that the guest agent tells of.
    pub async fn filesystems(&self) -> Result<Vec<GuestFilesystem>> {
        self.0.filesystems().await.map_err(ours)
    }

    /// The one client as it is, for what virt-api asks: its errors have the launcher's status and refusal.
    pub(crate) fn passes_on(&self) -> one::Client<Option<Process>> {
        self.0.clone().with(PASSED_ON)
    }

    /// The states of the VMI: the one that it has, and each that comes. Also tells which process listens.
    pub async fn watch(&self) -> Result<(States, Option<Process>)> {
        let (states, process) = self.0.watch().await.map_err(ours)?;
        Ok((States(states), process))
    }
}

/// The states of a VMI, as they come.
#[derive(Debug)]
pub struct States(one::States);

impl States {
    /// The next one; `None` when the launcher says no more. May be dropped between, nothing is lost.
    pub async fn next(&mut self) -> Result<Option<State>> {
        self.0.next().await.map_err(ours)
    }
}

/// virt-handler's error: what a door of virt-handler says is its own already.
fn ours(e: one::Error) -> Error {
    let kind = match e.kind() {
        one::ErrorKind::NotListening | one::ErrorKind::NotFound => ErrorKind::NotFound,
        one::ErrorKind::Refused | one::ErrorKind::TooLarge => ErrorKind::Refused,
        one::ErrorKind::Unreachable | one::ErrorKind::TimedOut | one::ErrorKind::Failed => ErrorKind::Failed,
    };
    of_kind(kind, e)
}

fn of_kind(kind: ErrorKind, e: one::Error) -> Error {
    let error = Error::new(kind, e.to_string());
    match e.into_cause().map(|cause| cause.downcast::<Error>()) {
        Some(Ok(own)) => *own,
        Some(Err(cause)) => error.because(cause),
        None => error,
    }
}

#[cfg(test)]
#[path = "launcher_client_tests.rs"]
mod tests;
