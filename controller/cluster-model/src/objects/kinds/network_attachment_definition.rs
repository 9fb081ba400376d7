//! NetworkAttachmentDefinition: a network of Multus, which a cluster need not have. So none is followed: one is read when a launcher
//! pod is made that wants it, for the resource of its devices.

use crate::objects::{About, Use};

pub(crate) const ABOUT: About = About {
    controller: Use { verbs: &[(None, &["get"])], ..Use::NONE },
    ..About::named("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", "network-attachment-definitions")
};
