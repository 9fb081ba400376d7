//! VirtualMachinePreference: defaults for the VMs of its namespace.

use super::virtual_machine::sized_by;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, Selector, Use};
use api::instancetype::VirtualMachinePreference;
use api::meta::ObjectMeta;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(preferences),
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    // Needed to validate a VM and to show it with the values.
    api: Use { follows: &[Selector::ALL], verbs: &[(None, &["get"])], ..Use::NONE },
    // VMs wait for it. VMs that already use it have a revision.
    touches: sized_by,
    ..About::new(api::instancetype::API_VERSION, "VirtualMachinePreference", "virtualmachinepreferences")
};

impl StoredObject for VirtualMachinePreference {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
