//! VirtualMachineInstancePreset: settings for new VMIs of its namespace that match a label selector.

use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, Selector, Use};
use api::meta::ObjectMeta;
use api::preset::{VirtualMachineInstancePreset, faults, reduced};
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(presets),
    // The VMI of a VM gets its presets when it is created.
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    api: Use { follows: &[Selector::ALL], ..Use::NONE },
    ..About::new("kubevirt.io/v1", "VirtualMachineInstancePreset", "virtualmachineinstancepresets")
};

impl StoredObject for VirtualMachineInstancePreset {
    /// A preset over the limit was written while the webhook was unreachable. It is ignored.
    fn parse(object: Value) -> Option<Self> {
        read(object).filter(|preset| faults(preset).is_empty()).map(reduced)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
