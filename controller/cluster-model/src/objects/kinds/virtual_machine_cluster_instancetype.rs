//! VirtualMachineClusterInstancetype: sizes of the VMs of all namespaces.

use super::virtual_machine::sized_by;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, Selector, Use};
use api::instancetype::VirtualMachineClusterInstancetype;
use api::meta::ObjectMeta;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(cluster_instancetypes),
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    // Needed to validate a VM and to show it with the values.
    api: Use { follows: &[Selector::ALL], verbs: &[(None, &["get"])], ..Use::NONE },
    // VMs wait for it. VMs that already use it have a revision.
    touches: sized_by,
    ..About::new(
        api::instancetype::API_VERSION,
        "VirtualMachineClusterInstancetype",
        "virtualmachineclusterinstancetypes",
    )
};

impl StoredObject for VirtualMachineClusterInstancetype {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
