//! APIService: leads requests for `subresources.kubevirt.io` and `upload.cdi.kubevirt.io` from the API server to virt-api.

use super::config_map;
use super::mutating_webhooks::used;
use crate::objects::About;
use crate::objects::about::kept;

/// The APIServices of our groups and versions: the API server wants an APIService to be called after version and group.
pub const NAMES: [&str; 4] = [
    "v1.subresources.kubevirt.io",
    "v1alpha3.subresources.kubevirt.io",
    "v1beta1.upload.cdi.kubevirt.io",
    "v1alpha1.upload.cdi.kubevirt.io",
];

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
    use api::cdi::{UPLOAD_GROUP, UPLOAD_VERSIONS};

    #[test]
    fn each_version_has_its_api_service() {
        let subresources = VERSIONS.map(|version| format!("{version}.{GROUP}"));
        let uploads = UPLOAD_VERSIONS.map(|version| format!("{version}.{UPLOAD_GROUP}"));
        assert_eq!(NAMES.map(str::to_owned).to_vec(), [subresources, uploads].concat());
    }
}
