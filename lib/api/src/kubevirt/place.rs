//! Placement and customization of components.

use crate::pod::{Affinity, Toleration};
use crate::{object, string_enum};
use serde_json::Value;
use std::collections::BTreeMap;

/// Objects of the installation that patches may change, by kind and name.
pub const PATCHED: [(&str, &str); 4] = [
    ("Deployment", "virt-controller"),
    ("Deployment", "virt-api"),
    ("Deployment", "cdi-uploadproxy"),
    ("DaemonSet", "virt-handler"),
];

/// Numbers of replicas that a component may have.
pub const REPLICAS: std::ops::RangeInclusive<u64> = 1..=100;

object! {
    /// Placement and replicas of components.
    pub struct ComponentConfig {
        /// Nodes that the pods of the components may run on. Unset: every node qualifies.
        pub node_placement: Option<NodePlacement> = "nodePlacement",
        /// Number of replicas of each component of `infra`, from 1 to 100. Default: 2.
        pub replicas: Option<u32> = "replicas",
    }
}

object! {
    /// Nodes that pods may run on.
    pub struct NodePlacement {
        /// Labels that a node must have. Unset: every node qualifies.
        pub node_selector: BTreeMap<String, String> = "nodeSelector",
        /// Affinity rules for nodes and other pods, in the form of a pod's `affinity`.
        pub affinity: Option<Value> = "affinity" as Option<Affinity>,
        /// Node taints that the pods tolerate, in the form of a pod's `tolerations`.
        pub tolerations: Vec<Value> = "tolerations" as Vec<Toleration>,
    }
}

object! {
    /// Patches and arguments for installed components.
    pub struct CustomizeComponents {
        /// Patches for single objects of the installation.
        pub patches: Vec<ComponentPatch> = "patches",
        /// Additional command line arguments of the components.
        pub flags: Option<ComponentFlags> = "flags",
    }
}

object! {
    /// Patch for an object of the installation.
    pub struct ComponentPatch {
        /// Name of the object to patch.
        pub resource_name: String = "resourceName",
        /// Kind of the object to patch, for example `Deployment`.
        pub resource_type: String = "resourceType",
        /// Content of the patch as JSON.
        pub patch: String = "patch",
        /// Type of the patch: `json` (RFC 6902), `merge` (RFC 7386) or `strategic` merge.
        pub r#type: PatchType = "type",
    }
}

object! {
    /// Additional command line arguments of the components: name and value.
    pub struct ComponentFlags {
        /// Additional arguments of virt-api.
        pub api: BTreeMap<String, String> = "api",
        /// Additional arguments of virt-controller.
        pub controller: BTreeMap<String, String> = "controller",
        /// Additional arguments of virt-handler.
        pub handler: BTreeMap<String, String> = "handler",
    }
}

impl ComponentPatch {
    /// True if the patch applies to the object of this kind and name; `*` matches all.
    pub fn is_for(&self, kind: &str, name: &str) -> bool {
        let says = |said: &str, word: &str| said == "*" || said.eq_ignore_ascii_case(word);
        says(&self.resource_type, kind) && says(&self.resource_name, name)
    }

    /// True if the patch applies to an object that may be changed.
    pub fn has_target(&self) -> bool {
        PATCHED.iter().any(|(kind, name)| self.is_for(kind, name))
    }
}

string_enum! {
    /// Type of a patch.
    pub enum PatchType {
        /// JSON patch: a list of operations (RFC 6902).
        Json = "json",
        /// JSON merge patch: a part of the object (RFC 7386).
        Merge = "merge",
        /// Strategic merge patch: lists are merged by the keys of their entries.
        Strategic = "strategic",
    }
}
