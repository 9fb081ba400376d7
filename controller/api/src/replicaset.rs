//! So many instances that are all alike: `VirtualMachineInstanceReplicaSet` of `kubevirt.io/v1`.
//!
//! ```text
//! replicas, selector, template ──► VirtualMachineInstance × replicas, found again by their labels
//! the scale subresource ──► spec.replicas; whoever scales by load finds the instances by status.labelSelector
//! ```

use crate::meta::{LabelSelector, ObjectMeta};
use crate::vm::Template;
use crate::{object, words};

object! {
    /// So many instances that are all alike.
    pub struct VirtualMachineInstanceReplicaSet {
        /// `kubevirt.io/v1`.
        pub api_version: Option<String> = "apiVersion",
        /// `VirtualMachineInstanceReplicaSet`.
        pub kind: Option<String> = "kind",
        /// Its name and the like.
        pub metadata: ObjectMeta = "metadata",
        /// What is wanted.
        pub spec: Spec = "spec",
        /// How it is.
        pub status: Option<Status> = "status",
    }
}

object! {
    /// What is wanted of a replica set.
    pub struct Spec {
        /// How many instances there are to be; not said is 1.
        pub replicas: Option<i64> = "replicas",
        /// The labels by which its instances are found; the template's labels must be among them.
        pub selector: LabelSelector = "selector",
        /// What an instance looks like. A change reaches only instances that are made after it.
        pub template: Option<Template> = "template",
        /// No instance is made and none is deleted.
        pub paused: Option<bool> = "paused",
    }
}

object! {
    /// How it is with a replica set.
    pub struct Status {
        /// How many instances there are; those that have ended or are being deleted do not count.
        pub replicas: Option<i64> = "replicas",
        /// How many of them are ready.
        pub ready_replicas: Option<i64> = "readyReplicas",
        /// What is true or false of it, by type.
        pub conditions: Vec<Condition> = "conditions",
        /// The selector as text, for whoever scales it.
        pub label_selector: Option<String> = "labelSelector",
    }
}

object! {
    /// One thing that is true or false of a replica set.
    pub struct Condition by "type" {
        /// What it is about.
        pub r#type: ConditionType = "type",
        /// `True`, `False` or `Unknown`.
        pub status: String = "status",
        /// When it was last looked at; RFC 3339.
        pub last_probe_time: Option<String> = "lastProbeTime",
        /// Since when it is so; RFC 3339.
        pub last_transition_time: Option<String> = "lastTransitionTime",
        /// A word for it.
        pub reason: Option<String> = "reason",
        /// A sentence for it.
        pub message: Option<String> = "message",
    }
}

words! {
    /// What a condition is about.
    pub enum ConditionType {
        /// An instance could not be made or deleted.
        ReplicaFailure = "ReplicaFailure",
        /// Nothing is made or deleted, because somebody paused it.
        ReplicaPaused = "ReplicaPaused",
    }
}
