//! ControllerRevision: the spec that a VirtualMachine was started with. Read by its name where it is needed.

use crate::objects::{About, Use};

pub(crate) const ABOUT: About = About {
    controller: Use { verbs: &[(None, &["create", "delete", "get"])], ..Use::NONE },
    ..About::named("apps/v1", "ControllerRevision", "controllerrevisions")
};
