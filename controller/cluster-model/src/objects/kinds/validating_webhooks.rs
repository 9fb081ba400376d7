//! ValidatingWebhookConfiguration: registers the webhooks of virt-api that validate objects.

use super::mutating_webhooks::{self, used};
use crate::objects::About;
use crate::objects::about::kept;

/// The configuration of our webhooks.
pub const NAME: &str = "virt-api-validator";
/// The configuration of our webhooks about kinds of CDI.
pub const CDI_NAME: &str = "virt-api-cdi-validator";

pub(crate) const ABOUT: About = About {
    kept: kept!(validating_webhooks),
    controller: used(&[NAME, CDI_NAME]),
    ..mutating_webhooks::ABOUT.called("ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
};
