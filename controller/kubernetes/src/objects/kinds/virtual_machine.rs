//! VirtualMachine (VM).

use super::kubevirt::removed_with;
use super::virtual_machine_instance::{claim_of, uses};
use crate::objects::about::kept;
use crate::objects::store::{Kept, read};
use crate::objects::{About, Key, Kind, Mark, Selector, Use, owner};
use api::meta::ObjectMeta;
use api::vm::VirtualMachine;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(vms),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[
            (None, &["delete", "patch"]),
            (Some("status"), &["patch"]),
            (Some("finalizers"), &["update"]),
        ],
        ..Use::NONE
    },
    // Subresources are asked of them; and whether any is left, when the installation is to be deleted. What of a VM is
    // written is for the admission policies of the installation to see.
    api: Use { verbs: &[(None, &["get", "list", "patch"]), (Some("status"), &["patch"])], ..Use::NONE },
    // A VMI waits for its VM to let go of it.
    touches: |world, key| {
        let both = [key.clone(), Key::new(Kind::VirtualMachineInstance, &key.namespace, &key.name)];
        both.into_iter().chain(removed_with(world)).collect()
    },
    ..About::named("kubevirt.io/v1", "VirtualMachine", "virtualmachines")
};

impl Kept for VirtualMachine {
    fn take(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn marks(&self) -> Vec<Mark> {
        let volumes = self.spec.template.iter().flat_map(|template| &template.spec.volumes);
        let made = self.spec.data_volume_templates.iter();
        let made = made.filter_map(|template| template.metadata.as_ref()?.name.as_deref());
        owner::mark(&self.metadata)
            .into_iter()
            .chain(uses(&self.metadata, volumes.filter_map(claim_of).chain(made)))
            .collect()
    }
}
