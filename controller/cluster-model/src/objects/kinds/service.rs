//! Service: a headless one for each upload pod, which cdi-uploadproxy connects to, and for each source pod of
//! a clone, which the importer pod connects to. It is not watched.

use crate::objects::{About, Use};

pub(crate) const ABOUT: About = About {
    // An existing Service is read, because it may belong to another owner.
    controller: Use { verbs: &[(None, &["create", "delete", "get"])], ..Use::NONE },
    ..About::new("v1", "Service", "services")
};
