//! `VirtualMachinePool` of `pool.kubevirt.io/v1beta1`: a number of VMs of one template.
//!
//! ```text
//! replicas, virtualMachineTemplate ──► VirtualMachine NAME-0, NAME-1, … each with DataVolumes of its own
//! the scale subresource ──► spec.replicas; an autoscaler finds the VMs by status.labelSelector
//! ```

mod check;

pub use check::faults;

use crate::condition::ConditionKind;
use crate::duration::Duration;
use crate::meta::{Empty, LabelSelector, ObjectMeta, Requirement};
use crate::pod::NumberOrName;
use crate::vm;
use crate::{object, string_enum};
use serde_json::Value;

/// The group of the kind.
pub const GROUP: &str = "pool.kubevirt.io";
/// The version of the kind that is stored.
pub const VERSION: &str = "v1beta1";
/// Group and version, as in `apiVersion`.
pub const API_VERSION: &str = "pool.kubevirt.io/v1beta1";
/// A version that is served for old manifests.
pub const OLD_VERSION: &str = "v1alpha1";
/// Default number of consecutive start failures after which a VM is replaced.
pub const FAILURES: i64 = 3;
/// Default number of nanoseconds that a VM has to fail before it is replaced.
pub const FAILING: i64 = 5 * 60 * 1_000_000_000;
/// Label of a VM and of its VMI: the ControllerRevision of the pool that each was created from.
pub const REVISION: &str = "kubevirt.io/vm-pool-revision-name";
/// Annotation of a VM of a pool: time of the first of its consecutive start failures.
pub const FAILING_SINCE: &str = "kubevirt.io/vm-pool-failing-since";

object! {
    /// VirtualMachinePool: keeps a number of VMs of one template, each with disks of its own.
    pub struct VirtualMachinePool {
        /// API version of this object: `pool.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VirtualMachinePool`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the pool: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Desired state of the pool: number, selector and template of the VMs.
        pub spec: Spec = "spec",
        /// Observed state of the pool, written by the control plane.
        pub status: Option<Status> = "status",
    }
}

object! {
    /// Desired state of a pool: number, selector and template of the VMs, and strategies for changes.
    pub struct Spec {
        /// Number of VMs to keep. Default: 1.
        pub replicas: Option<i64> = "replicas",
        /// Label selector of the VMs in the pool; must match the labels of the template. A VM with other
        /// labels leaves the pool.
        pub selector: LabelSelector = "selector",
        /// Template of the VMs. DataVolume templates get the number of the VM as a suffix of their names.
        pub virtual_machine_template: Option<Template> = "virtualMachineTemplate",
        /// Pauses the pool: no VM is created, updated or deleted. A VM that the selector does not match
        /// leaves a paused pool too. Default: false.
        pub paused: Option<bool> = "paused",
        /// Names of ConfigMaps and Secrets with the number of the VM as a suffix. Unset: all VMs use the same
        /// ones.
        pub name_generation: Option<NameGeneration> = "nameGeneration",
        /// Number or percentage of VMs that a proactive update may make unavailable at a time, or autohealing
        /// may replace. Default: `100%`, of autohealing 1; 1 at least.
        pub max_unavailable: Option<NumberOrName> = "maxUnavailable",
        /// Strategy for the deletion of VMs when `replicas` is lowered. Default: `proactive`.
        pub scale_in_strategy: Option<ScaleInStrategy> = "scaleInStrategy",
        /// Strategy for VMs of an older template. Default: `proactive`.
        pub update_strategy: Option<UpdateStrategy> = "updateStrategy",
        /// Replacement of VMs that fail to start, with their disks. Unset: VMs that fail to start are kept.
        pub autohealing: Option<Autohealing> = "autohealing",
    }
}

object! {
    /// Template of a VirtualMachine.
    pub struct Template {
        /// Labels and annotations of the VM.
        pub metadata: Option<ObjectMeta> = "metadata",
        /// Desired state of the VM: run strategy, VMI template and DataVolume templates.
        pub spec: vm::Spec = "spec",
    }
}

object! {
    /// Names of ConfigMaps and Secrets with the number of the VM as a suffix.
    pub struct NameGeneration {
        /// Appends the number of the VM to the names of ConfigMaps in volumes. Default: false.
        pub append_index_to_config_map_refs: Option<bool> = "appendIndexToConfigMapRefs",
        /// Appends the number of the VM to the names of Secrets in volumes, also those of cloud-init and
        /// Sysprep. Default: false.
        pub append_index_to_secret_refs: Option<bool> = "appendIndexToSecretRefs",
    }
}

object! {
    /// Strategy for the deletion of VMs when `replicas` is lowered; at most one of the three.
    pub struct ScaleInStrategy {
        /// Deletes no VM, as long as the pool exists.
        pub unmanaged: Option<Empty> = "unmanaged",
        /// Deletes no VM; VMs that users delete are not replaced until `replicas` is reached.
        pub opportunistic: Option<OpportunisticScaleIn> = "opportunistic",
        /// Deletes VMs at once.
        pub proactive: Option<ProactiveScaleIn> = "proactive",
    }
}

object! {
    /// Opportunistic strategy for the deletion of VMs.
    pub struct OpportunisticScaleIn {
        /// Preservation of the disks of VMs that users delete: `Disabled` deletes them with the VM. Default:
        /// `Disabled`.
        pub state_preservation: Option<StatePreservation> = "statePreservation",
    }
}

object! {
    /// Proactive strategy for the deletion of VMs.
    pub struct ProactiveScaleIn {
        /// Order and selection of the VMs to delete. Default: order `Random`, all VMs.
        pub selection_policy: Option<SelectionPolicy> = "selectionPolicy",
        /// Preservation of the disks of deleted VMs: `Disabled` deletes them with the VM. Default:
        /// `Disabled`.
        pub state_preservation: Option<StatePreservation> = "statePreservation",
    }
}

object! {
    /// Order and selection of VMs.
    pub struct SelectionPolicy {
        /// Order of the VMs: by their numbers, by their age or random. Default: `Random`.
        pub sort_policy: Option<SortPolicy> = "sortPolicy",
        /// Selectors of the VMs; all of them must match. Unset: all VMs.
        pub selectors: Option<Selectors> = "selectors",
    }
}

object! {
    /// Selectors of VMs; all of them must match.
    pub struct Selectors {
        /// Label selector for the labels of the VMI template.
        pub label_selector: Option<LabelSelector> = "labelSelector",
        /// Requirements for the node selector of the VMI template: key, operator and values.
        pub node_selector_requirement_matcher: Vec<Value> =
            "nodeSelectorRequirementMatcher" as Vec<Requirement>,
    }
}

object! {
    /// Strategy for VMs of an older template; at most one of the three.
    pub struct UpdateStrategy {
        /// Updates neither VMs nor VMIs.
        pub unmanaged: Option<Empty> = "unmanaged",
        /// Updates VMs; VMIs that run are not restarted.
        pub opportunistic: Option<Empty> = "opportunistic",
        /// Updates VMs, and restarts VMIs within `maxUnavailable`.
        pub proactive: Option<ProactiveUpdate> = "proactive",
    }
}

object! {
    /// Proactive strategy for VMs of an older template.
    pub struct ProactiveUpdate {
        /// Order and selection of the VMs to update. Default: order `Random`, all VMs.
        pub selection_policy: Option<SelectionPolicy> = "selectionPolicy",
    }
}

object! {
    /// Replacement of VMs that fail to start.
    pub struct Autohealing {
        /// Number of consecutive start failures after which the VM is replaced. Default: 3.
        pub start_up_failure_threshold: Option<i64> = "startUpFailureThreshold",
        /// Time that a VM has to be in a failing state (for example `CrashLoopBackOff`) before the VM is
        /// replaced. Default: 5m.
        pub min_failing_to_start_duration: Option<Duration> = "minFailingToStartDuration",
    }
}

object! {
    /// Observed state of a pool.
    pub struct Status {
        /// Number of VMs in the pool, including those that are being deleted.
        pub replicas: Option<i64> = "replicas",
        /// Number of VMs with a true Ready condition.
        pub ready_replicas: Option<i64> = "readyReplicas",
        /// Conditions of the pool, one per type.
        pub conditions: Vec<Condition> = "conditions",
        /// Label selector as text, for the scale subresource and autoscalers.
        pub label_selector: Option<String> = "labelSelector",
    }
}

/// Condition of the pool, for example ReplicaPaused.
pub type Condition = crate::condition::Condition<ConditionType>;

impl ConditionKind for ConditionType {
    const DESCRIPTION: &'static str = "Condition of the pool, for example ReplicaPaused.";
}

string_enum! {
    /// Type of a condition of a pool.
    pub enum ConditionType {
        /// Creation, update or deletion of a VM failed.
        ReplicaFailure = "ReplicaFailure",
        /// Pool paused: no VM is created, updated or deleted.
        ReplicaPaused = "ReplicaPaused",
    }
}

string_enum! {
    /// Order of the VMs of a pool.
    pub enum SortPolicy {
        AscendingOrder = "AscendingOrder",
        DescendingOrder = "DescendingOrder",
        Newest = "Newest",
        Oldest = "Oldest",
        Random = "Random",
    }
}

string_enum! {
    /// Preservation of the disks of VMs that leave a pool.
    pub enum StatePreservation {
        Disabled = "Disabled",
        Offline = "Offline",
        Online = "Online",
    }
}

/// The number of VMs that a pool of `replicas` may have unavailable at a time; `None` if `said` is not a
/// number.
pub fn max_unavailable(said: Option<&NumberOrName>, replicas: usize) -> Option<usize> {
    let number = match said {
        None => replicas,
        Some(NumberOrName::Number(number)) => usize::try_from(*number).ok()?,
        Some(NumberOrName::Name(text)) => {
            let percent: u8 = text.strip_suffix('%')?.parse().ok().filter(|percent| *percent <= 100)?;
            replicas.checked_mul(usize::from(percent))? / 100
        }
    };
    Some(number.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_vms_may_be_unavailable_and_one_at_least() {
        let text = |text: &str| Some(NumberOrName::Name(text.to_owned()));
        for (said, replicas, expected) in [
            (None, 10, Some(10)),
            (None, 0, Some(1)),
            (Some(NumberOrName::Number(3)), 10, Some(3)),
            (Some(NumberOrName::Number(0)), 10, Some(1)),
            (text("25%"), 10, Some(2)),
            (text("1%"), 10, Some(1)),
            (text("101%"), 10, None),
            (text("ten"), 10, None),
            (text("-5%"), 10, None),
        ] {
            assert_eq!(max_unavailable(said.as_ref(), replicas), expected, "{said:?}");
        }
    }
}
