//! APIService: routes requests for `subresources.kubevirt.io` and `upload.cdi.kubevirt.io` from the API
//! server to virt-api.

use super::config_map;
use super::mutating_webhooks::use_by_controller;
use crate::objects::About;
use crate::objects::about::kept;

/// The APIServices of our groups and versions. The API server requires the name `VERSION.GROUP`.
pub const NAMES: [&str; 4] = [
    "v1.subresources.kubevirt.io",
    "v1alpha3.subresources.kubevirt.io",
    UPLOADS,
    "v1alpha1.upload.cdi.kubevirt.io",
];

/// The APIService of upload tokens. Upstream's CDI operator creates it, too.
pub const UPLOADS: &str = "v1beta1.upload.cdi.kubevirt.io";

// The API server writes the status: whether virt-api is reachable.
pub(crate) const ABOUT: About = About {
    kept: kept!(api_services),
    controller: use_by_controller(&NAMES),
    // This APIService also shows that another CDI operator is installed. Disks are left to that operator
    // then.
    touches: |world, key| {
        let disks = super::cdi::disks(world).filter(|_| key.name == UPLOADS);
        (config_map::ABOUT.touches)(world, key)
            .into_iter()
            .chain(super::cdi::all(world))
            .chain(disks)
            .collect()
    },
    ..About::new("apiregistration.k8s.io/v1", "APIService", "apiservices")
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
