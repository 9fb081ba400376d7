//! ResourceClaim: devices of a node for a pod (dynamic resource allocation), which a cluster need not have. So none is followed: one
//! is read when a launcher pod runs that has devices of it.

use crate::objects::{About, Use};

pub(crate) const ABOUT: About = About {
    controller: Use { verbs: &[(None, &["get"])], ..Use::NONE },
    ..About::named("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
};
