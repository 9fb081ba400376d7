//! The handle of the VM, for the rest of the launcher.

use super::prepare;
use crate::domain::host::Host;
use crate::error::{Error, ErrorKind};
use crate::hypervisor::Hypervisor;
use crate::root::Root;
use crate::threads::Places;
use api::fault::Fault;
use api::launcher::{Answer, Credentials, Refusal, Request, State, Sync};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Media that are looked at at once.
const LOOKS: usize = 2;
/// Time for one look at media.
const LOOK: Duration = Duration::from_secs(10);

/// Places for looks at media.
pub(super) fn places() -> Places {
    Places::new("media", LOOKS, LOOK)
}

/// A command to the loop.
pub enum Command {
    /// Run this VM.
    Sync(Box<Sync>, oneshot::Sender<Result<Answer, SyncError>>),
    /// A request to the VM.
    Request(Request, oneshot::Sender<Answer>),
    /// How far its keys and passwords are in the guest.
    Credentials(Credentials),
    /// File systems of the guest are frozen, or not any more.
    Frozen(bool),
    /// End the launcher: the VM is shut down first.
    End,
}

/// A handle of the VM. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    /// To the loop.
    pub(super) commands: mpsc::Sender<Command>,
    /// From the publisher.
    pub(super) state: watch::Receiver<State>,
    /// The hypervisor, for calls that change nothing.
    pub hypervisor: Arc<dyn Hypervisor>,
    /// The VM's folder.
    pub root: Root,
    pub(super) name: Arc<OnceLock<String>>,
    /// Looks at media that are to be inserted.
    pub(super) media: Places,
}

impl Handle {
    /// Runs this VM.
    pub async fn sync(&self, sync: Sync) -> Result<Answer, SyncError> {
        let (tell, told) = oneshot::channel();
        // From a loop that is gone the command comes back, and with it what would answer: to be dropped.
        drop(self.commands.send(Command::Sync(Box::new(sync), tell)).await);
        told.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Ending, ENDING).into()))
    }

    /// Sends a request to the VM. Media are looked at before, not by the loop: storage that is gone gives no answer.
    pub async fn request(&self, request: Request) -> Result<Answer, Refusal> {
        if let Request::Insert { path, format, .. } = &request {
            let (path, format) = (path.clone(), *format);
            let doing = format!("read {}", path.display());
            let found = self.media.ask(&doing, move || prepare::media(&path, format)).await;
            let denied = match found {
                Ok(found) => found.err().map(|e| e.chain()),
                Err(e) => Some(e.to_string()),
            };
            if let Some(reason) = denied {
                return Ok(Answer::Denied { reason });
            }
        }
        let (tell, told) = oneshot::channel();
        drop(self.commands.send(Command::Request(request, tell)).await);
        told.await.map_err(|_| ending())
    }

    /// Says how far the keys and passwords are in the guest.
    pub(super) async fn credentials(&self, told: Credentials) {
        // A loop that is gone has nobody to tell it.
        let _ = self.commands.send(Command::Credentials(told)).await;
    }

    /// Says that file systems of the guest are frozen, or that none are any more. Blocks.
    pub(super) fn frozen(&self, frozen: bool) {
        // A loop that is gone has nobody to tell it.
        let _ = self.commands.blocking_send(Command::Frozen(frozen));
    }

    /// Ends the launcher.
    pub async fn end(&self) {
        // A loop that is gone has ended already.
        let _ = self.commands.send(Command::End).await;
    }

    /// The state, and its changes.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// The domain's name, once there is a VM.
    pub fn name(&self) -> Option<&str> {
        self.name.get().map(String::as_str)
    }
}

const ENDING: &str = "the launcher is ending";

fn ending() -> Refusal {
    Refusal { error: ENDING.into(), faults: Vec::new(), hint: None }
}

/// Why a VM was not taken.
#[derive(Debug)]
pub struct SyncError {
    /// The faults of its spec. They alone are final: the VM cannot run as it is.
    pub faults: Vec<Fault>,
    /// What failed: of a host that is full, or has a broken disk, it may be tried again.
    pub error: Error,
}

impl SyncError {
    /// A spec has these faults.
    pub(super) fn of_faults(faults: Vec<Fault>) -> SyncError {
        let what = match faults.as_slice() {
            [one] => one.to_string(),
            all => format!("the VM has {} faults", all.len()),
        };
        SyncError { faults, error: Error::refused(what) }
    }
}

impl From<Error> for SyncError {
    fn from(error: Error) -> SyncError {
        SyncError { faults: Vec::new(), error }
    }
}

/// The VM and its locations.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) sync: Sync,
    pub(super) machine: api::machine::Machine,
    pub(super) name: String,
    /// The locations of its parts, once they were found.
    pub(super) host: Option<Host>,
}
