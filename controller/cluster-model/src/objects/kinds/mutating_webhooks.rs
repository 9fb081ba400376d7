//! MutatingWebhookConfiguration: registers the webhooks of virt-api that fill in defaults.

use super::config_map;
use crate::objects::about::kept;
use crate::objects::{About, Selector, Use};

/// The configuration of our webhooks.
pub const NAME: &str = "virt-api-mutator";
/// The configuration of our webhooks about kinds of CDI.
pub const CDI_NAME: &str = "virt-api-cdi-mutator";

pub(crate) const ABOUT: About = About {
    kept: kept!(mutating_webhooks),
    controller: use_by_controller(&[NAME, CDI_NAME]),
    touches: config_map::ABOUT.touches,
    ..About::new(
        "admissionregistration.k8s.io/v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
    )
};

/// Use by virt-controller of an object that routes requests from the API server to virt-api.
pub(super) const fn use_by_controller(names: &'static [&'static str]) -> Use {
    Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["create", "delete", "get", "patch"])],
        names,
        ..Use::NONE
    }
}
