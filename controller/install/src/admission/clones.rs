//! All users: the clone token of a DataVolume is set at its creation, and never afterwards.
//!
//! virt-api signs a token for any client that sends it a review, which may be forged. A token is trusted
//! because only virt-api's webhook puts it into a DataVolume, in place of the author's value. The webhook is
//! called when a DataVolume is created. This policy holds afterwards, also while no virt-api answers. A token
//! may be removed.

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
