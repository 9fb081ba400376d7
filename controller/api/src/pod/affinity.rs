//! Where a pod is drawn to, and what keeps it away.

use crate::meta::LabelSelector;
use crate::object;

object! {
    /// Nodes and pods that a pod is drawn to or kept away from.
    pub struct Affinity {
        /// Nodes.
        pub node_affinity: Option<NodeAffinity> = "nodeAffinity",
        /// Pods it wants to be near.
        pub pod_affinity: Option<PodAffinity> = "podAffinity",
        /// Pods it does not want to be near.
        pub pod_anti_affinity: Option<PodAffinity> = "podAntiAffinity",
    }
}

object! {
    /// Nodes that will do, and nodes that are liked.
    pub struct NodeAffinity {
        /// Nodes that will do, when it starts.
        pub required: Option<NodeSelector> = "requiredDuringSchedulingIgnoredDuringExecution",
        /// Nodes that are liked, each so much.
        pub preferred: Vec<PreferredNodes> = "preferredDuringSchedulingIgnoredDuringExecution",
    }
}

object! {
    /// Nodes that one of several terms is true of.
    pub struct NodeSelector (atomic) {
        /// One of them must be true.
        pub node_selector_terms: Vec<NodeTerm> = "nodeSelectorTerms",
    }
}

object! {
    /// What must be true of a node, all of it.
    pub struct NodeTerm (atomic) {
        /// Of its labels.
        pub match_expressions: Vec<Requirement> = "matchExpressions",
        /// Of its fields: `metadata.name`.
        pub match_fields: Vec<Requirement> = "matchFields",
    }
}

object! {
    /// Nodes that are liked.
    pub struct PreferredNodes {
        /// How much: from 1 to 100.
        pub weight: i64 = "weight",
        /// Which.
        pub preference: NodeTerm = "preference",
    }
}

object! {
    /// Something that must be true of one label or field.
    pub struct Requirement {
        /// Its name.
        pub key: String = "key",
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, and for nodes `Gt` and `Lt`.
        pub operator: String = "operator",
        /// What it is held against.
        pub values: Vec<String> = "values",
    }
}

object! {
    /// Pods that matter.
    pub struct PodAffinity {
        /// What must be true when it starts.
        pub required: Vec<PodTerm> = "requiredDuringSchedulingIgnoredDuringExecution",
        /// What is liked, each so much.
        pub preferred: Vec<PreferredPods> = "preferredDuringSchedulingIgnoredDuringExecution",
    }
}

object! {
    /// Pods that are liked or disliked.
    pub struct PreferredPods {
        /// How much: from 1 to 100.
        pub weight: i64 = "weight",
        /// Which.
        pub pod_affinity_term: PodTerm = "podAffinityTerm",
    }
}

object! {
    /// Pods, and what it means to be near them.
    pub struct PodTerm {
        /// Labels of the pods.
        pub label_selector: Option<LabelSelector> = "labelSelector",
        /// The namespaces of the pods; not said is the pod's own.
        pub namespaces: Vec<String> = "namespaces",
        /// The label that nodes near each other have in common.
        pub topology_key: String = "topologyKey",
        /// Labels of further namespaces; empty is all of them.
        pub namespace_selector: Option<LabelSelector> = "namespaceSelector",
        /// Labels that the pods must have in common with this one.
        pub match_label_keys: Vec<String> = "matchLabelKeys",
        /// Labels that the pods must not have in common with this one.
        pub mismatch_label_keys: Vec<String> = "mismatchLabelKeys",
    }
}
