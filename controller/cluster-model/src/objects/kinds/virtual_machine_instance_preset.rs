//! VirtualMachineInstancePreset: what the new VMIs of its namespace with certain labels get.

use crate::objects::about::kept;
use crate::objects::store::{Kept, read};
use crate::objects::{About, Selector, Use};
use api::meta::ObjectMeta;
use api::preset::{VirtualMachineInstancePreset, faults, reduced};
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(presets),
    // The VMI of a VM is complete when it is made.
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    api: Use { follows: &[Selector::ALL], ..Use::NONE },
    ..About::named("kubevirt.io/v1", "VirtualMachineInstancePreset", "virtualmachineinstancepresets")
};

impl Kept for VirtualMachineInstancePreset {
    /// One that is too large was written while no webhook was asked, and reaches nobody.
    fn take(object: Value) -> Option<Self> {
        read(object).filter(|preset| faults(preset).is_empty()).map(reduced)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}
