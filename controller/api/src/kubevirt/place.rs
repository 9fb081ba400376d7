//! Where components run, and how they differ from what is shipped.

use crate::pod::{Affinity, Toleration};
use crate::{object, words};
use serde_json::Value;
use std::collections::BTreeMap;

object! {
    /// Where components run, and how many of each.
    pub struct ComponentConfig {
        /// On which nodes.
        pub node_placement: Option<NodePlacement> = "nodePlacement",
        /// How many; not said is 2, on a single node 1.
        pub replicas: Option<u32> = "replicas",
    }
}

object! {
    /// On which nodes pods may run.
    pub struct NodePlacement {
        /// Labels a node must have.
        pub node_selector: BTreeMap<String, String> = "nodeSelector",
        /// Nodes and pods it is drawn to or kept away from, as in a pod: `Affinity`.
        pub affinity: Option<Value> = "affinity" as Option<Affinity>,
        /// Taints of nodes that are no hindrance, as in a pod: `Toleration`.
        pub tolerations: Vec<Value> = "tolerations" as Vec<Toleration>,
    }
}

object! {
    /// Changes to what is installed.
    pub struct CustomizeComponents {
        /// Patches to single objects.
        pub patches: Vec<ComponentPatch> = "patches",
        /// Further arguments of the programs.
        pub flags: Option<ComponentFlags> = "flags",
    }
}

object! {
    /// A patch to an object of the installation.
    pub struct ComponentPatch {
        /// The object's name.
        pub resource_name: String = "resourceName",
        /// The object's kind.
        pub resource_type: String = "resourceType",
        /// The patch as JSON.
        pub patch: String = "patch",
        /// What kind of patch it is.
        pub r#type: PatchType = "type",
    }
}

object! {
    /// Further arguments of the programs: name and value.
    pub struct ComponentFlags {
        /// Those of virt-api.
        pub api: BTreeMap<String, String> = "api",
        /// Those of virt-controller.
        pub controller: BTreeMap<String, String> = "controller",
        /// Those of virt-handler.
        pub handler: BTreeMap<String, String> = "handler",
    }
}

words! {
    /// What kind of patch it is.
    pub enum PatchType {
        /// A list of operations, RFC 6902.
        Json = "json",
        /// A part that is laid over the object, RFC 7386.
        Merge = "merge",
        /// The same, where lists are joined by the keys of their entries.
        Strategic = "strategic",
    }
}
