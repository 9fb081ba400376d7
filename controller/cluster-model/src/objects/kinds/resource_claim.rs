//! ResourceClaim: devices of a node for a pod (dynamic resource allocation), which a cluster may not have. It
//! is not watched. virt-controller reads one when a launcher pod with such devices runs.

use crate::objects::{About, Use};

pub(crate) const ABOUT: About = About {
    controller: Use { verbs: &[(None, &["get"])], ..Use::NONE },
    ..About::new("resource.k8s.io/v1", "ResourceClaim", "resourceclaims")
};
