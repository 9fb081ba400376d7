//! `VirtualMachineInstanceReplicaSet` of `kubevirt.io/v1`: a number of identical VMIs.
//!
//! ```text
//! replicas, selector, template ──► VirtualMachineInstance × replicas, found by their labels
//! the scale subresource ──► spec.replicas; an autoscaler finds the VMIs by status.labelSelector
//! ```

use crate::condition::ConditionKind;
use crate::meta::{LabelSelector, ObjectMeta};
use crate::vm::Template;
use crate::{object, string_enum};

object! {
    /// VirtualMachineInstanceReplicaSet: keeps a number of identical VMIs running.
    pub struct VirtualMachineInstanceReplicaSet {
        /// API version of this object: `kubevirt.io/v1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VirtualMachineInstanceReplicaSet`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the replica set: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Desired state of the replica set: number, selector and template of the VMIs.
        pub spec: Spec = "spec",
        /// Observed state of the replica set, written by the control plane.
        pub status: Option<Status> = "status",
    }
}

object! {
    /// Desired state of a replica set: number, selector and template of the VMIs.
    pub struct Spec {
        /// Number of VMIs to keep running. Default: 1.
        pub replicas: Option<i64> = "replicas",
        /// Label selector of the VMIs in the replica set; must match the labels of the template.
        pub selector: LabelSelector = "selector",
        /// Template of the VMIs. A change applies only to VMIs that are created later.
        pub template: Option<Template> = "template",
        /// Pauses the replica set: no VMI is created or deleted. Default: false.
        pub paused: Option<bool> = "paused",
    }
}

object! {
    /// Observed state of a replica set.
    pub struct Status {
        /// Number of VMIs that neither have ended nor are being deleted.
        pub replicas: Option<i64> = "replicas",
        /// Number of VMIs with a true Ready condition.
        pub ready_replicas: Option<i64> = "readyReplicas",
        /// Conditions of the replica set, one per type.
        pub conditions: Vec<Condition> = "conditions",
        /// Label selector as text, for the scale subresource and autoscalers.
        pub label_selector: Option<String> = "labelSelector",
    }
}

/// Condition of the replica set, for example ReplicaPaused.
pub type Condition = crate::condition::Condition<ConditionType>;

impl ConditionKind for ConditionType {
    const DESCRIPTION: &'static str = "Condition of the replica set, for example ReplicaPaused.";
}

string_enum! {
    /// Type of a condition of a replica set.
    pub enum ConditionType {
        /// Creation or deletion of a VMI failed.
        ReplicaFailure = "ReplicaFailure",
        /// Replica set paused: no VMI is created or deleted.
        ReplicaPaused = "ReplicaPaused",
    }
}
