//! What interfaces are attached to.

use crate::object;

object! {
    /// A network; exactly one source.
    pub struct Network {
        /// Its name, which its interface has too.
        pub name: String = "name",
        /// The pod's.
        pub pod: Option<PodNetwork> = "pod",
        /// Another one.
        pub multus: Option<MultusNetwork> = "multus",
        /// One that comes with a device that the cluster allocates.
        pub resource_claim: Option<ClaimRequest> = "resourceClaim",
    }
}

object! {
    /// The pod's network.
    pub struct PodNetwork {
        /// The guest's network behind a masquerade.
        pub vm_network_cidr: Option<String> = "vmNetworkCIDR",
        /// The same in IPv6.
        pub vm_ipv6_network_cidr: Option<String> = "vmIPv6NetworkCIDR",
    }
}

object! {
    /// Another network.
    pub struct MultusNetwork {
        /// Its definition's name.
        pub network_name: String = "networkName",
        /// It takes the place of the pod's.
        pub default: Option<bool> = "default",
    }
}

object! {
    /// A device that the cluster allocates.
    pub struct ClaimRequest {
        /// The claim's name.
        pub claim_name: Option<String> = "claimName",
        /// The request of that claim.
        pub request_name: Option<String> = "requestName",
    }
}
