//! ValidatingWebhookConfiguration: registers the webhooks of virt-api that validate objects.

use super::mutating_webhooks::{self, use_by_controller};
use crate::objects::About;
use crate::objects::about::kept;

/// The configuration of our webhooks.
pub const NAME: &str = "virt-api-validator";
/// The configuration of our webhooks about kinds of CDI.
pub const CDI_NAME: &str = "virt-api-cdi-validator";

pub(crate) const ABOUT: About = About {
    kept: kept!(validating_webhooks),
    controller: use_by_controller(&[NAME, CDI_NAME]),
    ..mutating_webhooks::ABOUT.renamed("ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
};
