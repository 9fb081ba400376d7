//! ControllerRevision: the spec that a VirtualMachine was started with. Read by its name where it is needed.

use crate::objects::{About, Use};

/// What the names of all of them begin with.
pub const REVISION: &str = "revision-start-vm-";

pub(crate) const ABOUT: About = About {
    controller: Use { verbs: &[(None, &["create", "delete", "get"])], ..Use::NONE },
    ..About::named("apps/v1", "ControllerRevision", "controllerrevisions")
};

/// A name that only a revision of ours has: a status may be forged, and others' revisions are none of our business.
pub fn is_revision(name: &str) -> bool {
    name.starts_with(REVISION)
}
