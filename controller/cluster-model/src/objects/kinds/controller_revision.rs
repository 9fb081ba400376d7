//! ControllerRevision: what a VirtualMachine was started with, and the instance type and preference that it uses, as they were
//! when it first used them. The former is read by its name where it is needed; the latter are followed, by their label.

use super::virtual_machine::sized_by;
use crate::objects::about::kept;
use crate::objects::store::{Kept, meta};
use crate::objects::{About, Key, Kind, Selector, Use, owner};
use api::meta::ObjectMeta;
use serde_json::Value;

/// What the names of all revisions of VMs begin with.
pub const REVISION: &str = "revision-start-vm-";

/// Labels of the revision of an instance type or of a preference: of which object it is.
pub mod object_labels {
    /// Its generation.
    pub const GENERATION: &str = "instancetype.kubevirt.io/object-generation";
    /// Its kind.
    pub const KIND: &str = "instancetype.kubevirt.io/object-kind";
    /// Its name.
    pub const NAME: &str = "instancetype.kubevirt.io/object-name";
    /// Its uid.
    pub const UID: &str = "instancetype.kubevirt.io/object-uid";
    /// The version in which it was read.
    pub const VERSION: &str = "instancetype.kubevirt.io/object-version";
}

pub(crate) const ABOUT: About = About {
    kept: kept!(revisions),
    controller: Use {
        follows: &[Selector { labels: Some(object_labels::KIND), ..Selector::ALL }],
        verbs: &[(None, &["create", "delete", "get"])],
        ..Use::NONE
    },
    // A VM is shown with the values that it uses.
    api: Use { verbs: &[(None, &["get"])], ..Use::NONE },
    touches: |world, key| {
        let revision = world.revisions.get(&key.namespace, &key.name);
        let owner = revision.and_then(|revision| owner::controller(&revision.meta));
        let of_vm = owner.filter(|owner| owner.kind == Kind::VirtualMachine.name());
        let of_vm = of_vm.map(|owner| Key::new(Kind::VirtualMachine, &*key.namespace, &*owner.name));
        of_vm.into_iter().chain(sized_by(world, key)).collect()
    },
    ..About::named("apps/v1", "ControllerRevision", "controllerrevisions")
};

/// A name that only a revision of ours has: a status may be forged, and others' revisions are none of our business.
pub fn is_revision(name: &str) -> bool {
    name.starts_with(REVISION)
}

/// The revision of an instance type or of a preference.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Revision {
    /// Its name and the like.
    pub meta: ObjectMeta,
    /// The object, as it was.
    pub data: Value,
}

impl Kept for Revision {
    /// Those of VMs are not kept: nobody looks at them.
    fn take(mut object: Value) -> Option<Self> {
        let meta = meta(&object)?;
        meta.labels.contains_key(object_labels::KIND).then_some(())?;
        Some(Revision { meta, data: object["data"].take() })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}
