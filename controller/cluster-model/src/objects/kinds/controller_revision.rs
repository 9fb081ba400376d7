//! ControllerRevision: the spec that a VirtualMachine was started with, and copies of the instance type and
//! the preference that it uses, taken at first use. Revisions of VMs are read by name on demand; those of
//! instance types and preferences are watched, by their label.

use super::virtual_machine::sized_by;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, meta};
use crate::objects::{About, Key, Kind, Selector, Use, owner};
use api::meta::ObjectMeta;
use serde_json::Value;

/// Name prefix of the revisions of VMs.
pub const REVISION: &str = "revision-start-vm-";

/// Labels on the revision of an instance type or preference that identify the copied object.
pub mod object_labels {
    pub const GENERATION: &str = "instancetype.kubevirt.io/object-generation";
    pub const KIND: &str = "instancetype.kubevirt.io/object-kind";
    pub const NAME: &str = "instancetype.kubevirt.io/object-name";
    pub const UID: &str = "instancetype.kubevirt.io/object-uid";
    /// API version in which the object was read.
    pub const VERSION: &str = "instancetype.kubevirt.io/object-version";
}

pub(crate) const ABOUT: About = About {
    kept: kept!(revisions),
    controller: Use {
        follows: &[Selector { labels: Some(object_labels::KIND), ..Selector::ALL }],
        verbs: &[(None, &["create", "delete", "get"])],
        ..Use::NONE
    },
    // Needed to show a VM with the values of its instance type.
    api: Use { verbs: &[(None, &["get"])], ..Use::NONE },
    touches: |world, key| {
        let revision = world.revisions.get(&key.namespace, &key.name);
        let owner = revision.and_then(|revision| owner::controller(&revision.meta));
        let of_vm = owner.filter(|owner| owner.kind == Kind::VirtualMachine.name());
        let of_vm = of_vm.map(|owner| Key::new(Kind::VirtualMachine, &*key.namespace, &*owner.name));
        of_vm.into_iter().chain(sized_by(world, key)).collect()
    },
    ..About::new("apps/v1", "ControllerRevision", "controllerrevisions")
};

/// True for the name of a revision that we created for a VM. A status may be forged, so revisions of other
/// programs are never read or deleted.
pub fn is_revision(name: &str) -> bool {
    name.starts_with(REVISION)
}

/// The revision of an instance type or of a preference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Revision {
    pub meta: ObjectMeta,
    /// The object at the time of the copy.
    pub data: Value,
}

impl StoredObject for Revision {
    /// Revisions of VMs are not kept: nothing reads them from the World.
    fn parse(mut object: Value) -> Option<Self> {
        let meta = meta(&object)?;
        meta.labels.contains_key(object_labels::KIND).then_some(())?;
        Some(Revision { meta, data: object["data"].take() })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}
