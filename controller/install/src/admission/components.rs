//! virt-controller: what it changes of the programs of the installation, itself among them.
//!
//! | right | bound |
//! |---|---|
//! | patch `deployments`, `daemonsets`, by their names | the fields of [`kubernetes::placement`]: replicas, and of the pods placement and pull Secrets; one annotation |
//!
//! virt-handler is privileged on every node: whoever could change its image, its command or its volumes by virt-controller's
//! account would be root on all of them. So no field is open here that says what runs in a pod, as whom, or what it sees.

use super::controller::base;
use super::{Policy, differ_only, literal, rule, same};
use crate::Wishes;
use kubernetes::placement::{OF_PODS, PLACED, REPLICAS};

/// The API server itself counts the changes of a DaemonSet's template here.
const COUNTED: &str = "deprecated.daemonset.template.generation";

pub(super) fn policy(wishes: &Wishes) -> Policy {
    let only = |path: &str, names: &[&str]| differ_only(path, &format!("key in {}", literal(names)));
    base(
        wishes,
        "kubevirt-controller-components",
        vec![rule("apps", &["deployments", "daemonsets"], &["UPDATE"])],
        vec![
            (
                [
                    only("?spec", &[REPLICAS, "template"]),
                    only("spec.?template", &["spec"]),
                    only("spec.template.?spec", &OF_PODS),
                    "object.spec.?replicas.orValue(2) >= 1 && object.spec.?replicas.orValue(2) <= 100"
                        .to_owned(),
                ]
                .join(" && "),
                "changes of the programs of the installation how many pods they have (1 to 100), where those run, and by which Secrets their \
                 images are pulled, and nothing of what runs in them",
            ),
            (
                format!(
                    "{} && {}",
                    ["labels", "finalizers", "ownerReferences"]
                        .map(|field| same(&format!("metadata.{field}")))
                        .join(" && "),
                    only("metadata.?annotations", &[PLACED, COUNTED])
                ),
                "changes one annotation of the programs of the installation",
            ),
        ],
    )
}

#[cfg(test)]
mod tests {
    use crate::admission::tests::policy;
    use crate::objects;
    use crate::tests::wishes;
    use kubernetes::placement::{PRISTINE, of};
    use serde_json::{Value, json};

    /// How CEL compares is tried against a real API server; here: what it leaves open.
    #[test]
    fn virt_controller_changes_nothing_of_what_runs_in_a_component() {
        let policy = policy("kubevirt-controller-components");
        let who = &policy["spec"]["matchConditions"][0]["expression"];
        assert_eq!(
            who,
            "request.userInfo.username == \"system:serviceaccount:kubevirt:kubevirt-controller\""
        );
        let said = policy["spec"]["validations"][0]["expression"].as_str().unwrap();
        let open = r#"key in ["affinity","imagePullSecrets","nodeSelector","tolerations"] ||"#;
        for (path, keys) in [
            ("object.?spec", r#"key in ["replicas","template"] ||"#),
            ("object.spec.?template", r#"key in ["spec"] ||"#),
            ("object.spec.template.?spec", open),
        ] {
            assert!(said.contains(&format!("{path}.orValue({{}}).all(key, {keys}")), "{path}: {said}");
        }
        // All of it has to be true, and nothing stands beside it that would be enough.
        let keys = [r#"key in ["replicas","template"]"#, r#"key in ["spec"]"#, open.trim_end_matches(" ||")];
        let parts = ["?spec", "spec.?template", "spec.template.?spec"].into_iter().zip(keys);
        let mut parts: Vec<String> =
            parts.map(|(path, keys)| crate::admission::differ_only(path, keys)).collect();
        parts.push(
            "object.spec.?replicas.orValue(2) >= 1 && object.spec.?replicas.orValue(2) <= 100".to_owned(),
        );
        assert_eq!(said, parts.join(" && "));
        // An owner that is gone takes the component along.
        let said = policy["spec"]["validations"][1]["expression"].as_str().unwrap();
        let same = ["labels", "finalizers", "ownerReferences"]
            .map(|field| crate::admission::same(&format!("metadata.{field}")));
        let notes = r#"key in ["kubevirt.io/placed","deprecated.daemonset.template.generation"]"#;
        let notes = crate::admission::differ_only("metadata.?annotations", notes);
        assert_eq!(said, [&same[..], &[notes]].concat().join(" && "));
    }

    #[test]
    fn manifests_say_how_a_component_was_to_be_placed() {
        let all = objects(&wishes());
        let programs: Vec<&Value> = all
            .iter()
            .filter(|object| ["Deployment", "DaemonSet"].iter().any(|kind| object["kind"] == *kind))
            .collect();
        assert_eq!(programs.len(), 4);
        for object in programs {
            let said = object["metadata"]["annotations"][PRISTINE].as_str().unwrap();
            assert_eq!(serde_json::from_str::<Value>(said).unwrap(), Value::Object(of(object)));
            let has_two = object["kind"] == "Deployment";
            assert_eq!(of(object).get("replicas"), has_two.then(|| json!(2)).as_ref(), "{object}");
        }
    }
}
