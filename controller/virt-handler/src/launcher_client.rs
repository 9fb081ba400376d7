//! Client of the launcher of one VMI on this node. It wraps the common client (`lib/launcher-client`), with a
//! connector that goes through the pod's folder and reports the listening process.
//!
//! The launcher belongs to a tenant: its answers are bounded in size and time. A launcher that accepts no
//! connection, or answers nothing, too little or without an end, delays its own VM only. Errors are converted
//! to virt-handler's here, except for requests that are passed on from virt-api, which keep the launcher's
//! own.

use super::error::{Error, ErrorKind, Result};
use super::pod::Process;
use ::launcher_client as one;
use api::launcher::{Answer, GuestFilesystem, GuestInfo, Info, Request, State, Stats, Sync};
use std::sync::Arc;
use std::time::Duration;

/// Time limits of requests from virt-api: shorter than its own, so that it learns which launcher does not
/// answer.
const PASSED_ON: one::Timeouts = one::Timeouts {
    answer: Duration::from_secs(15),
    sync: Duration::from_secs(15),
    state: Duration::from_secs(5),
};

/// Client of one launcher.
#[derive(Clone, Debug)]
pub struct Client(one::Client<Option<Process>>);

impl Client {
    /// Client of the launcher of the VMI `name`.
    pub fn new(name: &str, door: Arc<dyn one::Connector<Option<Process>>>) -> Client {
        Client(one::Client::new(format!("the launcher of {name}"), door))
    }

    /// Version and identity of the launcher.
    pub async fn info(&self) -> Result<Info> {
        self.0.info().await.map_err(from_client_error)
    }

    /// Tells the launcher what to run. It refuses a generation that is older than its own. The error is
    /// [`ErrorKind::Refused`] if the VMI has faults, and never because its launcher or its node has a
    /// problem.
    pub async fn sync(&self, sync: &Sync) -> Result<Answer> {
        self.0.sync(sync).await.map_err(|e| match e.refusal().is_some_and(|said| !said.faults.is_empty()) {
            true => of_kind(ErrorKind::Refused, e),
            false => of_kind(ErrorKind::Failed, e),
        })
    }

    pub async fn request(&self, request: &Request) -> Result<Answer> {
        self.0.request(request).await.map_err(from_client_error)
    }

    /// Resource usage of the VMI.
    pub async fn stats(&self) -> Result<Stats> {
        self.0.stats().await.map_err(from_client_error)
    }

    /// Report of the guest agent.
    pub async fn guest_info(&self) -> Result<GuestInfo> {
        self.0.guest_info().await.map_err(from_client_error)
    }

    /// File systems that the guest agent reports.
    pub async fn filesystems(&self) -> Result<Vec<GuestFilesystem>> {
        self.0.filesystems().await.map_err(from_client_error)
    }

    /// The common client, for requests from virt-api: its errors have the launcher's status and refusal.
    pub(crate) fn passes_on(&self) -> one::Client<Option<Process>> {
        self.0.clone().with(PASSED_ON)
    }

    /// The states of the VMI: the current one, and each new one. Also returns the listening process.
    pub async fn watch(&self) -> Result<(States, Option<Process>)> {
        let (states, process) = self.0.watch().await.map_err(from_client_error)?;
        Ok((States(states), process))
    }
}

/// Stream of the states of a VMI.
#[derive(Debug)]
pub struct States(one::States);

impl States {
    /// The next state; `None` at the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Result<Option<State>> {
        self.0.next().await.map_err(from_client_error)
    }
}

/// Error of virt-handler. An error of its connector is one already.
fn from_client_error(e: one::Error) -> Error {
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
