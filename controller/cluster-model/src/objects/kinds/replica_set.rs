//! VirtualMachineInstanceReplicaSet: stored whole, since there are few.

use super::kubevirt::removed_with;
use crate::objects::about::kept;
use crate::objects::{About, Selector, Use};

pub(crate) const ABOUT: About = About {
    kept: kept!(replica_sets),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["delete"]), (Some("status"), &["patch"]), (Some("finalizers"), &["update"])],
        ..Use::NONE
    },
    // Checks that none is left before the installation is deleted.
    api: Use { verbs: &[(None, &["list"])], ..Use::NONE },
    touches: |world, key| [key.clone()].into_iter().chain(removed_with(world)).collect(),
    ..About::new("kubevirt.io/v1", "VirtualMachineInstanceReplicaSet", "virtualmachineinstancereplicasets")
};
