//! APIService: leads requests for `subresources.kubevirt.io` from the API server to virt-api.

use super::config_map;
use super::mutating_webhooks::used;
use crate::objects::About;
use crate::objects::about::kept;

/// The APIServices of our versions: the API server wants an APIService to be called after version and group.
pub const NAMES: [&str; 2] = ["v1.subresources.kubevirt.io", "v1alpha3.subresources.kubevirt.io"];

// The status is the API server's own: whether virt-api can be reached.
pub(crate) const ABOUT: About = About {
    kept: kept!(api_services),
    controller: used(&NAMES),
    touches: config_map::ABOUT.touches,
    ..About::named("apiregistration.k8s.io/v1", "APIService", "apiservices")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subresources::{GROUP, VERSIONS};

    #[test]
    fn each_version_has_its_api_service() {
        assert_eq!(NAMES.map(str::to_owned), VERSIONS.map(|version| format!("{version}.{GROUP}")));
    }
}
