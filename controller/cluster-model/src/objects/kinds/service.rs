//! Service: a headless one for each upload pod, by which cdi-uploadproxy finds the pod, and for each source pod of a clone, by
//! which the importer pod does. None is followed.

use crate::objects::{About, Use};

pub(crate) const ABOUT: About = About {
    // One that is there already is read: somebody else may have made it.
    controller: Use { verbs: &[(None, &["create", "delete", "get"])], ..Use::NONE },
    ..About::named("v1", "Service", "services")
};
