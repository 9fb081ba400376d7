//! Position of virt-api in the order of an upgrade: after virt-controller (see its `order`).
//!
//! A virt-api that is newer than the acting virt-controller is not ready: until then the pods of the previous
//! version serve. It never waits longer than [`MOST`].

use cluster_model::objects::Plain;
use cluster_model::versions::is_older;
use std::time::Duration;

/// Maximum wait for virt-controller.
pub(crate) const MOST: Duration = Duration::from_secs(1800);

/// True if a virt-api of this version has to wait, according to the KubeVirt objects of the cluster.
pub(crate) fn waits<'o>(all: impl IntoIterator<Item = &'o Plain>, namespace: &str, own: &str) -> bool {
    let ours = all.into_iter().find(|object| object.meta.namespace.as_deref() == Some(namespace));
    let Some(status) = ours.map(|object| &object.object["status"]) else { return false };
    let text = |name: &str| status[name].as_str().unwrap_or_default();
    let (observed, target) = (text("observedKubeVirtVersion"), text("targetKubeVirtVersion"));
    let is_update = !observed.is_empty() && observed != target;
    is_update && is_older(text("operatorVersion"), own)
}

#[cfg(test)]
mod tests {
    use super::waits;
    use api::meta::ObjectMeta;
    use cluster_model::objects::Plain;
    use serde_json::json;

    fn of(observed: &str, target: &str, operator: &str) -> Plain {
        let status = json!({
            "observedKubeVirtVersion": observed, "targetKubeVirtVersion": target, "operatorVersion": operator,
        });
        let meta = ObjectMeta { namespace: Some("kubevirt".into()), ..ObjectMeta::default() };
        Plain { meta, object: json!({"status": status}) }
    }

    #[test]
    fn virt_api_waits_in_an_upgrade_for_a_virt_controller_that_is_not_older() {
        let waits = |object: Plain| waits([&object], "kubevirt", "2.0.0");
        assert!(waits(of("1.0.0", "2.0.0", "1.0.0")));
        assert!(!waits(of("1.0.0", "2.0.0", "2.0.0")), "it acts");
        assert!(!waits(of("2.0.0", "2.0.0", "1.0.0")), "nothing is replaced");
        assert!(!waits(of("", "2.0.0", "")), "it is installed");
        assert!(!super::waits([&of("1.0.0", "2.0.0", "1.0.0")], "other", "2.0.0"));
        assert!(!super::waits([], "kubevirt", "2.0.0"));
    }
}
