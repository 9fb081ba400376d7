//! ValidatingWebhookConfiguration: leads the API server to the webhooks of virt-api that judge an object.

use super::config_map;
use super::mutating_webhooks::used;
use crate::objects::about::kept;
use crate::objects::{About, Scope};

/// The configuration of our webhooks.
pub const NAME: &str = "virt-api-validator";

pub(crate) const ABOUT: About = About {
    scope: Scope::Cluster,
    kept: kept!(validating_webhooks),
    controller: used(&[NAME]),
    touches: config_map::ABOUT.touches,
    ..About::named(
        "admissionregistration.k8s.io/v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    )
};
