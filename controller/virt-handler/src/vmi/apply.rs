//! Writes of virt-handler: the status of its VMIs, and events. Both go through the same client as
//! virt-controller's ([`cluster_client`]).

use super::decide::Event;
use crate::bounds;
use crate::error::{self, Error, Result};
use api::meta::ObjectMeta;
use api::vmi::VirtualMachineInstance;
use cluster_client::Writer;
use cluster_client::error::ErrorKind;
use cluster_model::objects::{Kind, key};
use cluster_model::plan::{EventRecord, Plan, Step};
use serde_json::Value;

/// Most characters of an event's message.
const SENTENCE: usize = 1000;

/// Client that writes statuses and events of VMIs.
pub trait Cluster: Send + Sync + 'static {
    /// Changes a VMI by a merge patch, if it still has the version of this metadata. Returns the new object;
    /// `None` if it has changed meanwhile, or is gone.
    fn change(&self, vmi: &ObjectMeta, change: &Value) -> impl Future<Output = Result<Option<Value>>> + Send;

    /// Records an event of a VMI. Errors are logged.
    fn record_event(&self, vmi: &ObjectMeta, event: &Event) -> impl Future<Output = ()> + Send;
}

impl Cluster for Writer {
    async fn change(&self, vmi: &ObjectMeta, change: &Value) -> Result<Option<Value>> {
        let (key, version) =
            (key(Kind::VirtualMachineInstance, vmi), vmi.resource_version.clone().unwrap_or_default());
        let step = Step::Patch { key: key.clone(), version, change: change.clone(), part: None };
        let mut done = self.carry_out(Plan { steps: vec![step], again: None }).await;
        let Some((_, error)) = done.failed else { return Ok(done.answers.pop().map(|(_, object)| object)) };
        match error.kind() {
            // The caller reads the VMI again.
            ErrorKind::Conflict | ErrorKind::Gone => {
                tracing::debug!("{key} changed meanwhile: {error}");
                Ok(None)
            }
            ErrorKind::Refused => {
                let what = format!("the API server refused the status of {key}");
                Err(Error::new(error::ErrorKind::Refused, what).because(error))
            }
            _ => Err(Error::failed(format!("cannot write the status of {key}")).because(error)),
        }
    }

    async fn record_event(&self, vmi: &ObjectMeta, event: &Event) {
        let note = EventRecord {
            key: key(Kind::VirtualMachineInstance, vmi),
            uid: vmi.uid.clone().unwrap_or_default(),
            warning: event.warning,
            reason: event.reason,
            message: bounds::text(&event.message, SENTENCE),
        };
        self.carry_out(Plan { steps: vec![Step::RecordEvent(note)], again: None }).await;
    }
}

/// Parses a VMI of the API server.
pub fn read(object: Value) -> Result<VirtualMachineInstance> {
    api::wire::read(object).map_err(|faults| {
        let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
        Error::refused(format!("cannot parse a VMI of the API server: {}", all.join("; ")))
    })
}
