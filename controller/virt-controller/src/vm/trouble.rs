//! Problems of a VM: the condition `Failure` reports the current one, and an event its beginning.

use api::vm::{ConditionType, VirtualMachine};
use cluster_model::claim_moves::RECOVERY;
use cluster_model::objects::{Attempt, Failure, Kind};
use cluster_model::plan::Plan;

/// Problem that keeps a VM from its desired state.
#[derive(Clone, Copy, Debug)]
pub(super) struct VmProblem<'a> {
    pub(super) reason: &'static str,
    /// Text for the condition and the event.
    pub(super) why: &'a str,
    /// DataVolume that is not created.
    pub(super) disk: Option<&'a str>,
}

impl<'a> VmProblem<'a> {
    pub(super) fn new(reason: &'static str, why: &'a str) -> VmProblem<'a> {
        VmProblem { reason, why, disk: None }
    }

    /// The last write that failed. `disk`: the DataVolume to create next.
    pub(super) fn from_failure(failed: &'a Failure, disk: Option<&'a str>) -> VmProblem<'a> {
        let why = &failed.message;
        match failed.about {
            Attempt::Make(Kind::DataVolume) => {
                VmProblem { disk, ..VmProblem::new("FailedDataVolumeCreate", why) }
            }
            Attempt::Make(_) | Attempt::ScaleIn => VmProblem::new("FailedCreate", why),
            Attempt::Delete(_) => VmProblem::new("FailedDelete", why),
        }
    }

    /// Sends an event, if the VM's condition has changed.
    pub(super) fn record_event(&self, vm: &VirtualMachine, next: &VirtualMachine, plan: &mut Plan) {
        let VmProblem { reason, why, disk } = self;
        let name = disk.or(vm.metadata.name.as_deref()).unwrap_or_default();
        let message = match *reason {
            "FailedCreate" | RECOVERY => (*why).to_owned(),
            "FailedDataVolumeCreate" => format!("Error creating DataVolume {name}: {why}"),
            "UnauthorizedDataVolumeCreate" => format!("Not authorized to create DataVolume {name}: {why}"),
            "FailedDelete" => format!("Error deleting virtual machine instance {name}: {why}"),
            _ => return,
        };
        if current_message(next) != current_message(vm) {
            plan.record_event(Kind::VirtualMachine, &vm.metadata, true, reason, message);
        }
    }
}

/// Message of the current problem, from the VM's condition.
fn current_message(vm: &VirtualMachine) -> Option<&str> {
    let list = vm.status.as_ref().map_or(&[][..], |status| &status.conditions);
    list.iter().find(|condition| condition.r#type == ConditionType::Failure)?.message.as_deref()
}
