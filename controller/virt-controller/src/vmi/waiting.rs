//! Conditions of a VMI that waits before it has a pod.
//!
//! ```text
//!                    Synchronized        PodScheduled     Provisioning      DataVolumesReady
//! a PVC is missing   FailedPvcNotFound   Unschedulable
//! it is filled                                            NotAllDVsReady    NotAllDVsReady
//! anything else      its reason
//! ```
//!
//! **Guarantees.** Conditions of an earlier wait are removed: the status of a VM and the autohealing of a pool depend on them.

use super::outcome::Outcome;
use super::{VmiReconcile, key_of, needs};
use api::machine::Machine;
use api::vmi::{Condition, ConditionType, Phase};
use cluster_model::conditions;
use cluster_model::objects::{Attempt, Kind};

/// The conditions of a wait.
const WAITING: [ConditionType; 3] =
    [ConditionType::Synchronized, ConditionType::PodScheduled, ConditionType::Provisioning];

/// Outcome of a VMI that waits for a PVC that does not exist.
pub(super) fn wait_for_claim(input: &VmiReconcile<'_>, message: &str) -> Outcome {
    forget_but(&[ConditionType::Synchronized, ConditionType::PodScheduled])
        .and(unsynchronized(input, "FailedPvcNotFound", message))
        .condition(ConditionType::PodScheduled, "False", "Unschedulable", message)
}

/// Outcome of a VMI that waits for a PVC that is being filled.
pub(super) fn wait_for_data(message: &str) -> Outcome {
    forget_but(&[ConditionType::Provisioning])
        .condition(ConditionType::DataVolumesReady, "False", "NotAllDVsReady", message)
        .condition(ConditionType::Provisioning, "True", "NotAllDVsReady", message)
        .phase(Phase::Pending)
}

/// The VMI waits for something else. An event is sent only when the wait begins.
pub(super) fn wait(input: &VmiReconcile<'_>, reason: &'static str, message: &str) -> Outcome {
    forget_but(&[ConditionType::Synchronized]).and(unsynchronized(input, reason, message))
}

/// Removes the conditions of a VMI that does not wait any more.
pub(super) fn forget_waiting() -> Outcome {
    forget_but(&[])
}

/// Condition of a VMI whose PVCs all have their content.
pub(super) fn data_is_there(input: &VmiReconcile<'_>) -> Outcome {
    if needs::has_data_volumes(input.vmi) {
        let message = "All of the VMI's DVs are bound and ready";
        Outcome::default().condition(ConditionType::DataVolumesReady, "True", "AllDVsReady", message)
    } else {
        // The condition was about PVCs that were being filled.
        Outcome::default().no_condition(ConditionType::DataVolumesReady)
    }
}

/// The pod, or the PVC for it, could not be created the last time: that is written first, and tried again after a pause, since quotas are
/// raised and webhooks come back. `None` where the next try is due.
pub(super) fn waits_after_failure(input: &VmiReconcile<'_>, machine: &Machine) -> Option<Outcome> {
    let failure = input.world.failures.get(&key_of(input.vmi))?;
    let waits = match failure.about {
        Attempt::Make(Kind::Pod) => wait(input, "FailedCreate", &create_failed(machine, &failure.message)),
        Attempt::Make(Kind::PersistentVolumeClaim) => {
            wait(input, "FailedBackendStorageCreate", &failure.message)
        }
        _ => return None,
    };
    let is_written = data_is_there(input).and(waits.clone()).apply(input) == *input.vmi;
    (!is_written || failure.retry > input.now).then(|| waits.retry_at(failure.retry))
}

fn unsynchronized(input: &VmiReconcile<'_>, reason: &'static str, message: &str) -> Outcome {
    let old = conditions::find(input.conditions(), &ConditionType::Synchronized);
    let is_new =
        |old: &Condition| old.reason.as_deref() != Some(reason) || old.message.as_deref() != Some(message);
    let outcome = match old.is_none_or(is_new) {
        true => Outcome::default().event(true, reason, message),
        false => Outcome::default(),
    };
    outcome.condition(ConditionType::Synchronized, "False", reason, message).phase(Phase::Pending)
}

/// Removes the conditions of a wait, except these, which keep their times.
fn forget_but(kept: &[ConditionType]) -> Outcome {
    WAITING.into_iter().filter(|kind| !kept.contains(kind)).fold(Outcome::default(), Outcome::no_condition)
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
