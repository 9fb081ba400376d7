//! `evacuate/cancel`: cancels the evacuation of a VMI from its node. Pure.
//!
//! The evacuation was requested by an eviction of the launcher pod (`status.evacuationNodeName`;
//! `evictionStrategy: External`). A further eviction requests it again, so a running drain must be stopped by
//! its user.

use crate::refusal::{Refusal, Result, Subject};
use api::vmi::VirtualMachineInstance;
use cluster_model::subresources::EVACUATION;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// Options of a request to cancel an evacuation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct EvacuateCancelOptions {
    /// The node whose evacuation is cancelled; empty for any node.
    #[serde(deserialize_with = "text")]
    pub(crate) evacuation_node_name: String,
    pub(crate) dry_run: Vec<String>,
}

/// Reads a string or null.
fn text<'a, D: Deserializer<'a>>(from: D) -> std::result::Result<String, D::Error> {
    Option::deserialize(from).map(Option::unwrap_or_default)
}

/// The merge patch of the VMI; `None` if no evacuation of this node is requested.
pub(crate) fn cancel(vmi: &VirtualMachineInstance, options: &EvacuateCancelOptions) -> Result<Option<Value>> {
    let node = vmi.status.as_ref().and_then(|status| status.evacuation_node_name.as_deref());
    let Some(node) = node.filter(|node| !node.is_empty()) else { return Ok(None) };
    let wanted = options.evacuation_node_name.as_str();
    if !wanted.is_empty() && wanted != node {
        let name = vmi.metadata.name.as_deref().unwrap_or_default();
        let why = format!("the VMI is evacuated from node {node:?}, not from {wanted:?}");
        return Err(Refusal::conflict(Subject { kind: "virtualmachineinstance", name }, &why));
    }
    Ok(Some(json!({"status": {EVACUATION: null}})))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vmi(status: &Value) -> VirtualMachineInstance {
        let object = json!({"metadata": {"name": "web"}, "spec": {}, "status": status});
        api::wire::read_in_part(object, &mut Vec::new()).unwrap()
    }

    fn options(body: &str) -> EvacuateCancelOptions {
        serde_json::from_str(body).unwrap()
    }

    #[test]
    fn the_evacuation_that_is_meant_is_cancelled_and_no_other() {
        let clears = || Ok(Some(json!({"status": {"evacuationNodeName": null}})));
        let other =
            Err("Operation cannot be fulfilled on virtualmachineinstance.kubevirt.io \"web\": the VMI is \
                         evacuated from node \"node1\", not from \"node2\"");
        let (node1, node2) = (r#"{"evacuationNodeName": "node1"}"#, r#"{"evacuationNodeName": "node2"}"#);
        let is = json!({"nodeName": "node1", "evacuationNodeName": "node1"});
        for (status, body, expected) in [
            (&is, node1, clears()),
            (&is, "{}", clears()),
            (&is, r#"{"evacuationNodeName": ""}"#, clears()),
            (&is, r#"{"evacuationNodeName": null}"#, clears()),
            (&is, node2, other),
            (&json!({"nodeName": "node1"}), node1, Ok(None)),
            (&json!({"nodeName": "node1"}), node2, Ok(None)),
            (&json!({"evacuationNodeName": ""}), node1, Ok(None)),
            (&json!(null), node1, Ok(None)),
        ] {
            let found = cancel(&vmi(status), &options(body));
            let found = found.as_ref().cloned().map_err(|refused| &*refused.message);
            assert_eq!(found, expected, "{status} {body}");
        }
        assert_eq!(options(r#"{"dryRun": ["All"]}"#).dry_run, ["All"]);
    }
}
