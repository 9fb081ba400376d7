//! EndpointSlice: the address of virt-handler on each node, for virt-api. Not kept in the World.

use crate::objects::{About, Selector, Use};

/// The label selector of the EndpointSlices of virt-handler's Service.
const OF_HANDLERS: &str = "kubernetes.io/service-name=virt-handler";

pub(crate) const ABOUT: About = About {
    is_of_installation: true,
    api: Use { follows: &[Selector { labels: Some(OF_HANDLERS), ..Selector::ALL }], ..Use::NONE },
    ..About::new("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::HANDLERS;

    #[test]
    fn the_endpoint_slices_are_those_of_the_service_that_is_installed() {
        assert_eq!(OF_HANDLERS.split_once('='), Some(("kubernetes.io/service-name", HANDLERS)));
    }
}
