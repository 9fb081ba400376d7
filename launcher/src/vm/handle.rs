//! The handle of the VM, for the rest of the launcher.

use super::prepare;
use crate::domain::host::Host;
use crate::error::{Error, ErrorKind};
use crate::hypervisor::Hypervisor;
use crate::root::Root;
use crate::threads::Slots;
use api::fault::Fault;
use api::launcher::{Answer, Credentials, Denial, DenialReason, Refusal, Request, State, Sync};
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};

/// Media that are inspected at once.
const LOOKS: usize = 2;
/// Time limit of inspecting media.
const LOOK: Duration = Duration::from_secs(10);

/// Slots for inspecting media.
pub(super) fn places() -> Slots {
    Slots::new("media", LOOKS, LOOK)
}

/// A command to the loop.
pub enum Command {
    /// Run this VM, or change the running one to it.
    Sync(Box<Sync>, oneshot::Sender<Result<Answer, SyncError>>),
    /// A request to the VM.
    Request(Request, oneshot::Sender<Answer>),
    /// Progress of the SSH keys and passwords into the guest.
    Credentials(Credentials),
    /// File systems of the guest were frozen (`true`) or thawed.
    Frozen(bool),
    /// End the launcher: the VM is shut down first.
    End,
}

/// A handle of the VM. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    /// Sender of commands to the loop.
    pub(super) commands: mpsc::Sender<Command>,
    /// Receiver of states from the publisher.
    pub(super) state: watch::Receiver<State>,
    /// The hypervisor, for calls that change nothing.
    pub hypervisor: Arc<dyn Hypervisor>,
    pub root: Root,
    pub(super) name: Arc<OnceLock<String>>,
    /// Slots for inspecting media that are to be inserted.
    pub(super) media: Slots,
}

impl Handle {
    /// Runs this VM, or changes the running one to it.
    pub async fn sync(&self, sync: Sync) -> Result<Answer, SyncError> {
        let (tell, told) = oneshot::channel();
        // A loop that has ended returns the command, with the sender of the answer, which is dropped.
        drop(self.commands.send(Command::Sync(Box::new(sync), tell)).await);
        told.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Ending, ENDING).into()))
    }

    /// Sends a request to the event loop of the VM. A medium to insert is inspected before that, on
    /// another thread: unreachable storage would block the loop.
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
                return Ok(Answer::Denied(Denial::new(DenialReason::Media, &[&reason])));
            }
        }
        let (tell, told) = oneshot::channel();
        drop(self.commands.send(Command::Request(request, tell)).await);
        told.await.map_err(|_| ending())
    }

    /// Reports the progress of the keys and passwords into the guest.
    pub(super) async fn credentials(&self, told: Credentials) {
        // If the loop has ended, there is no receiver.
        let _ = self.commands.send(Command::Credentials(told)).await;
    }

    /// Reports that file systems of the guest were frozen or thawed. Blocks.
    pub(super) fn frozen(&self, frozen: bool) {
        // If the loop has ended, there is no receiver.
        let _ = self.commands.blocking_send(Command::Frozen(frozen));
    }

    /// Ends the launcher, and with it the VM.
    pub async fn end(&self) {
        // A loop that is gone has ended already.
        let _ = self.commands.send(Command::End).await;
    }

    /// Receiver of the state and its changes.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.clone()
    }

    /// Name of the domain, once there is a VM.
    pub fn name(&self) -> Option<&str> {
        self.name.get().map(String::as_str)
    }
}

const ENDING: &str = "the launcher is ending";

fn ending() -> Refusal {
    Refusal { error: ENDING.into(), faults: Vec::new(), hint: None }
}

/// Error of a VM that was refused.
#[derive(Debug)]
pub struct SyncError {
    /// Faults of its spec. Only they are final: the VM cannot run as it is.
    pub faults: Vec<Fault>,
    /// Failure of the host, for example a full or broken disk. Another try may help.
    pub error: Error,
}

impl SyncError {
    /// The error of a spec with these faults.
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
pub(super) struct CurrentVm {
    pub(super) sync: Sync,
    pub(super) machine: Machine,
    pub(super) name: String,
    /// Locations of its parts, once they were found.
    pub(super) host: Option<Host>,
}

/// The checked VM of an object.
pub(super) fn judge(object: &Value) -> Result<Machine, Vec<Fault>> {
    let vmi: VirtualMachineInstance = api::wire::read(object.clone())?;
    for field in api::wire::unknown(&vmi) {
        tracing::warn!("{}: {field}", field.path);
    }
    Machine::check_again(&vmi)
}
