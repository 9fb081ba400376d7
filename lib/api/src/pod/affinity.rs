//! Affinity of pods for nodes and other pods.

use crate::meta::{LabelSelector, Requirement};
use crate::object;

object! {
    /// Affinity rules of a pod for nodes and other pods.
    pub struct Affinity {
        /// Node affinity: rules about the labels of nodes.
        pub node_affinity: Option<NodeAffinity> = "nodeAffinity",
        /// Pod affinity: rules that place the pod near other pods.
        pub pod_affinity: Option<PodAffinity> = "podAffinity",
        /// Pod anti-affinity: rules that keep the pod away from other pods.
        pub pod_anti_affinity: Option<PodAffinity> = "podAntiAffinity",
    }
}

object! {
    /// Node affinity rules of a pod.
    pub struct NodeAffinity {
        /// Requirements that a node must meet when the pod is scheduled.
        pub required: Option<NodeSelector> = "requiredDuringSchedulingIgnoredDuringExecution",
        /// Preferences for nodes, each with a weight.
        pub preferred: Vec<PreferredNodes> = "preferredDuringSchedulingIgnoredDuringExecution",
    }
}

object! {
    /// Node selector; at least one term must match.
    pub struct NodeSelector (atomic) {
        /// Terms of the selector, of which at least one must match.
        pub node_selector_terms: Vec<NodeTerm> = "nodeSelectorTerms",
    }
}

object! {
    /// Term of a node selector; all of its requirements must match.
    pub struct NodeTerm (atomic) {
        /// Requirements for the labels of the node.
        pub match_expressions: Vec<Requirement> = "matchExpressions",
        /// Requirements for the fields of the node, for example `metadata.name`.
        pub match_fields: Vec<Requirement> = "matchFields",
    }
}

object! {
    /// Preference for nodes, with a weight.
    pub struct PreferredNodes {
        /// Weight of the preference, from 1 to 100.
        pub weight: i64 = "weight",
        /// Term that the preferred nodes match.
        pub preference: NodeTerm = "preference",
    }
}

object! {
    /// Affinity or anti-affinity rules for other pods.
    pub struct PodAffinity {
        /// Requirements that must be met when the pod is scheduled.
        pub required: Vec<PodTerm> = "requiredDuringSchedulingIgnoredDuringExecution",
        /// Preferences for other pods, each with a weight.
        pub preferred: Vec<PreferredPods> = "preferredDuringSchedulingIgnoredDuringExecution",
    }
}

object! {
    /// Preference for other pods, with a weight.
    pub struct PreferredPods {
        /// Weight of the preference, from 1 to 100.
        pub weight: i64 = "weight",
        /// Term that selects the other pods.
        pub pod_affinity_term: PodTerm = "podAffinityTerm",
    }
}

object! {
    /// Term that selects pods and a topology domain.
    pub struct PodTerm {
        /// Label selector of the pods. Unset: no pod matches.
        pub label_selector: Option<LabelSelector> = "labelSelector",
        /// Namespaces of the pods. Unset, without a namespace selector: the namespace of this pod.
        pub namespaces: Vec<String> = "namespaces",
        /// Node label that defines the topology domain, for example `kubernetes.io/hostname`.
        pub topology_key: String = "topologyKey",
        /// Label selector of further namespaces; an empty selector matches all namespaces.
        pub namespace_selector: Option<LabelSelector> = "namespaceSelector",
        /// Keys of labels that the pods must share with this pod.
        pub match_label_keys: Vec<String> = "matchLabelKeys",
        /// Keys of labels that the pods must not share with this pod.
        pub mismatch_label_keys: Vec<String> = "mismatchLabelKeys",
    }
}
