//! Networks of a VMI.

use crate::object;

object! {
    /// Network of a VMI with exactly one of `pod`, `multus` and `resourceClaim`.
    pub struct Network {
        /// Name of the network; must equal the name of an interface.
        pub name: String = "name",
        /// Default pod network of the cluster. At most one network can be of this type.
        pub pod: Option<PodNetwork> = "pod",
        /// Secondary network from a NetworkAttachmentDefinition (Multus).
        pub multus: Option<MultusNetwork> = "multus",
        /// Network device from a ResourceClaim (dynamic resource allocation).
        pub resource_claim: Option<ClaimRequest> = "resourceClaim",
    }
}

object! {
    /// Default pod network of the cluster.
    pub struct PodNetwork {
        /// IPv4 CIDR of the guest behind a masquerade interface. Default: `10.0.2.0/24`.
        pub vm_network_cidr: Option<String> = "vmNetworkCIDR",
        /// IPv6 CIDR of the guest behind a masquerade interface. Default: `fd10:0:2::/120`.
        pub vm_ipv6_network_cidr: Option<String> = "vmIPv6NetworkCIDR",
    }
}

object! {
    /// Secondary network from a NetworkAttachmentDefinition (Multus).
    pub struct MultusNetwork {
        /// Name of the NetworkAttachmentDefinition: `NAME`, or `NAMESPACE/NAME`. Default namespace: that of
        /// the VMI.
        pub network_name: String = "networkName",
        /// Replaces the default pod network by this network. At most one network can be the default. Default:
        /// false.
        pub default: Option<bool> = "default",
    }
}

object! {
    /// Device request of a ResourceClaim.
    pub struct ClaimRequest {
        /// Name of an entry in `resourceClaims` of the VMI.
        pub claim_name: Option<String> = "claimName",
        /// Name of the device request within the ResourceClaim.
        pub request_name: Option<String> = "requestName",
    }
}
