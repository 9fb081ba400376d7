//! What a VMI waits for, before it has a pod.
//!
//! ```text
//!                    Synchronized        PodScheduled     Provisioning      DataVolumesReady
//! a PVC is missing   FailedPvcNotFound   Unschedulable
//! it is filled                                            NotAllDVsReady    NotAllDVsReady
//! anything else      its reason
//! ```
//!
//! **Guarantees.** What was waited for before is not said any more: others act on these words (a VM's status, autohealing of a pool).

use super::{Round, key_of, needs};
use api::machine::Machine;
use api::vmi::{Condition, ConditionType, Phase};
use cluster_model::conditions;
use cluster_model::objects::{Attempt, Kind};

/// The conditions that say what a VMI waits for.
const WAITING: [ConditionType; 3] =
    [ConditionType::Synchronized, ConditionType::PodScheduled, ConditionType::Provisioning];

impl Round<'_> {
    /// A PVC is not there.
    pub(super) fn wait_for_claim(&mut self, message: &str) {
        self.forget_but(&[ConditionType::Synchronized, ConditionType::PodScheduled]);
        self.is_unsynchronized("FailedPvcNotFound", message);
        self.say(ConditionType::PodScheduled, "False", "Unschedulable", message);
    }

    /// A PVC is being filled.
    pub(super) fn wait_for_data(&mut self, message: &str) {
        self.forget_but(&[ConditionType::Provisioning]);
        self.say(ConditionType::DataVolumesReady, "False", "NotAllDVsReady", message);
        self.say(ConditionType::Provisioning, "True", "NotAllDVsReady", message);
        self.set_phase(Phase::Pending);
    }

    /// It waits for something else, and says so; an event only when it begins to.
    pub(super) fn wait(&mut self, reason: &'static str, message: &str) {
        self.forget_but(&[ConditionType::Synchronized]);
        self.is_unsynchronized(reason, message);
    }

    /// What it waited for is there.
    pub(super) fn forget_waiting(&mut self) {
        self.forget_but(&[]);
    }

    pub(super) fn say_data_is_there(&mut self) {
        if needs::has_data_volumes(self.vmi) {
            let message = "All of the VMI's DVs are bound and ready";
            self.say(ConditionType::DataVolumesReady, "True", "AllDVsReady", message);
        } else {
            // It was said of PVCs that were being filled.
            conditions::drop(&mut self.status().conditions, &ConditionType::DataVolumesReady);
        }
    }

    /// The pod, or the PVC for it, could not be created the last time: that is said first, and it is tried again after a pause,
    /// for quotas are raised and webhooks come back.
    pub(super) fn waits_after_failure(&mut self, machine: &Machine) -> bool {
        let Some(failure) = self.world.failures.get(&key_of(self.vmi)) else { return false };
        let before = self.next.clone();
        match failure.about {
            Attempt::Make(Kind::Pod) => self.wait("FailedCreate", &create_failed(machine, &failure.message)),
            Attempt::Make(Kind::PersistentVolumeClaim) => {
                self.wait("FailedBackendStorageCreate", &failure.message)
            }
            _ => return false,
        }
        let is_said = self.next == *self.vmi;
        if !is_said || failure.retry > self.now {
            self.after.look_again(failure.retry);
            return true;
        }
        self.next = before;
        false
    }

    fn is_unsynchronized(&mut self, reason: &'static str, message: &str) {
        let list = self.vmi.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let old = conditions::of(list, &ConditionType::Synchronized);
        let is_new = |old: &Condition| {
            old.reason.as_deref() != Some(reason) || old.message.as_deref() != Some(message)
        };
        if old.is_none_or(is_new) {
            self.tell(true, reason, message);
        }
        self.say(ConditionType::Synchronized, "False", reason, message);
        self.set_phase(Phase::Pending);
    }

    /// What stays keeps its time.
    fn forget_but(&mut self, kept: &[ConditionType]) {
        for kind in WAITING.iter().filter(|kind| !kept.contains(kind)) {
            conditions::drop(&mut self.status().conditions, kind);
        }
    }
}

fn create_failed(machine: &Machine, why: &str) -> String {
    if why.contains("violates PodSecurity") {
        let (namespace, name) = (&machine.namespace, &machine.name);
        return format!(
            "failed to create pod for vmi {namespace}/{name}, it needs a privileged namespace to run: {why}"
        );
    }
    why.to_owned()
}
