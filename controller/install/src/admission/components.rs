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
                ]
                .join(" && "),
                "changes of the programs of the installation how many pods they have, where those run, and by which Secrets their \
                 images are pulled, and nothing of what runs in them",
            ),
            (
                format!(
                    "{} && {}",
                    ["labels", "finalizers", "ownerReferences"]
                        .map(|field| same(&format!("metadata.{field}")))
                        .join(" && "),
                    only("metadata.?annotations", &[PLACED])
                ),
                "changes one annotation of the programs of the installation",
            ),
        ],
    )
}
