//! NetworkAttachmentDefinition: a network of Multus, which a cluster may not have. It is not watched.
//! virt-controller reads one when it creates a launcher pod on that network, for the device resource in its
//! annotation.

use crate::objects::{About, Use};

pub(crate) const ABOUT: About = About {
    controller: Use { verbs: &[(None, &["get"])], ..Use::NONE },
    ..About::new("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "network-attachment-definitions")
};
