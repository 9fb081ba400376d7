//! Launcher pods of another version than new ones: the label [`cluster_model::objects::OUTDATED`] of their VMIs.
//!
//! The comparison uses the name of the image behind its last slash, and its tag. A registry in front of it,
//! or a digest behind it, may come from a webhook of the cluster that rewrites pods (a mirror, a pinned
//! image). A new pod would have it as well, and an eviction of outdated pods would never end. For the same
//! reason a pod records the image that it was requested with.

use cluster_model::launcher::ASKED_IMAGE;
use cluster_model::objects::Pod;

/// True if a launcher pod was created with another image than this one. The image that virt-controller
/// requested counts, if the pod records it.
pub(crate) fn is_outdated(pod: &Pod, image: &str) -> bool {
    let asked = pod.meta.annotations.get(ASKED_IMAGE).or(pod.image.as_ref());
    asked.is_some_and(|asked| is_other_image(asked, image))
}

/// True if the image is not the one of `than`.
fn is_other_image(image: &str, than: &str) -> bool {
    let ((one, is_pinned), (other, _)) = (tagged(image), tagged(than));
    // A digest in place of the tag does not tell the version.
    let is_unknown = is_pinned && !one.contains(':');
    one != other && !is_unknown
}

/// Last part of an image's name with its tag, and true if a digest follows it.
fn tagged(image: &str) -> (&str, bool) {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    (name.rsplit_once('/').map_or(name, |(_, last)| last), digest.is_some())
}

#[cfg(test)]
mod tests {
    use super::{is_other_image, is_outdated};
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::{Kind, OUTDATED, Pod, StoredObject as _};
    use serde_json::json;

    #[test]
    fn an_image_is_outdated_by_its_tag() {
        let new = "registry.example:5000/coracle/virt-launcher:2";
        for old in [
            "registry.example:5000/coracle/virt-launcher:1",
            "virt-launcher:1",
            "a/virt-launcher",
            "a/other:2",
            "virt-launcher:1@sha256:0a",
        ] {
            assert!(is_other_image(old, new), "{old}");
        }
        for same in [
            new,
            "mirror.example/virt-launcher:2",
            "registry.example:5000/coracle/virt-launcher:2@sha256:0a",
            "mirror.example/virt-launcher@sha256:0a",
        ] {
            assert!(!is_other_image(same, new), "{same}");
        }
    }

    /// Else all VMs of a cluster whose webhook writes another tag would be evicted without end.
    #[test]
    fn what_was_asked_for_counts_and_not_what_a_webhook_made_of_it() {
        let pod = |notes: serde_json::Value| {
            let container = json!({"name": "compute", "image": "mirror.example/signed-launcher:2"});
            Pod::parse(json!({
                "metadata": {"namespace": "n", "name": "p", "uid": "u", "annotations": notes},
                "spec": {"containers": [container]},
            }))
            .unwrap()
        };
        let new = "registry.example/virt-launcher:2";
        assert!(!is_outdated(&pod(json!({"kubevirt.io/launcher-image": new})), new));
        assert!(is_outdated(
            &pod(json!({"kubevirt.io/launcher-image": "registry.example/virt-launcher:1"})),
            new
        ));
        assert!(is_outdated(&pod(json!({})), new));
    }

    #[test]
    fn a_vmi_of_before_the_upgrade_is_labelled_and_runs_on() {
        let mut sim = Sim::new();
        let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
        sim.boot(&key);
        assert!(sim.get(&key)["metadata"]["labels"][OUTDATED].is_null());
        sim.world.facts.launcher_image = "registry.example/virt-launcher:2".into();
        sim.settle();
        assert_eq!(sim.get(&key)["metadata"]["labels"][OUTDATED], "");
        assert_eq!(sim.get(&key)["status"]["phase"], "Running");
        let writes = sim.writes;
        sim.settle();
        assert_eq!(sim.writes, writes);
        // Whoever forges it changes nothing.
        sim.world.facts.launcher_image = "registry.example/virt-launcher:1".into();
        sim.change(&key, json!({"metadata": {"labels": {OUTDATED: "forged"}}}));
        sim.settle();
        assert!(sim.get(&key)["metadata"]["labels"][OUTDATED].is_null());
    }
}
