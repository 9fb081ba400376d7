//! ResourceSlice: devices of a node, as their DRA driver reports them. It is not watched. virt-controller
//! lists those of one driver on one node when a launcher pod there has a device of that driver.

use crate::objects::{About, Use};

pub(crate) const ABOUT: About = About {
    controller: Use { verbs: &[(None, &["list"])], ..Use::NONE },
    ..About::new("resource.k8s.io/v1", "ResourceSlice", "resourceslices")
};
