//! APIService: leads requests for `subresources.kubevirt.io` and `upload.cdi.kubevirt.io` from the API server to virt-api.

use super::config_map;
use super::mutating_webhooks::used;
use crate::objects::About;
use crate::objects::about::kept;

/// The APIServices of our groups and versions: the API server wants an APIService to be called after version and group.
pub const NAMES: [&str; 4] = [
    "v1.subresources.kubevirt.io",
    "v1alpha3.subresources.kubevirt.io",
    UPLOADS,
    "v1alpha1.upload.cdi.kubevirt.io",
];

/// The APIService of upload tokens, which upstream's CDI operator makes, too.
pub const UPLOADS: &str = "v1beta1.upload.cdi.kubevirt.io";

// The status is the API server's own: whether virt-api can be reached.
pub(crate) const ABOUT: About = About {
    kept: kept!(api_services),
    controller: used(&NAMES),
    // Another CDI operator shows itself there, too, and disks are left to it then.
    touches: |world, key| {
        let disks = super::cdi::disks(world).filter(|_| key.name == UPLOADS);
        (config_map::ABOUT.touches)(world, key)
            .into_iter()
            .chain(super::cdi::all(world))
            .chain(disks)
            .collect()
    },
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
