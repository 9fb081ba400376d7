//! Everybody: the clone token of a DataVolume is written when the DataVolume is made, and never afterwards.
//!
//! virt-api signs a token for whoever reaches it with a review, which may be made up: what is signed counts because virt-api's webhook
//! alone puts it into a DataVolume, in the place of what its maker wrote. The webhook is asked when a DataVolume is made; this policy
//! holds ever after, also while no virt-api answers. A token may be taken away.

use super::{Policy, literal, rule};
use cluster_model::clones::CLONE_TOKEN;

pub(super) fn policies() -> [Policy; 1] {
    let token =
        |object: &str| format!("{object}.metadata.?annotations[?{}].orValue('')", literal(CLONE_TOKEN));
    [Policy {
        name: "kubevirt-clone-tokens",
        rules: vec![rule("cdi.kubevirt.io", &["datavolumes"], &["UPDATE"])],
        when: vec![("token-changes", format!("{} != {}", token("object"), token("oldObject")))],
        validations: vec![(
            format!("{} == ''", token("object")),
            format!(
                "virt-api alone writes the annotation {CLONE_TOKEN}, when a DataVolume is made: make the DataVolume again"
            ),
        )],
        ..Policy::default()
    }]
}
