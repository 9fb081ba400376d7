//! Service: a headless one for each upload pod, by which cdi-uploadproxy finds the pod. None is followed.

use crate::objects::{About, Use};

pub(crate) const ABOUT: About = About {
    // One that is there already is read: somebody else may have made it.
    controller: Use { verbs: &[(None, &["create", "delete", "get"])], ..Use::NONE },
    ..About::named("v1", "Service", "services")
};
