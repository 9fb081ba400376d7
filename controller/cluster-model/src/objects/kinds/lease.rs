//! Lease: the leader election of virt-controller.

use crate::objects::{About, Use};

/// Name of virt-controller's Lease.
pub const NAME: &str = "virt-controller";

pub(crate) const ABOUT: About = About {
    is_of_installation: true,
    controller: Use { verbs: &[(None, &["create", "get", "patch"])], names: &[NAME], ..Use::NONE },
    ..About::new("coordination.k8s.io/v1", "Lease", "leases")
};
