//! Defaults and plugins for network interfaces.

use crate::quantity::Quantity;
use crate::{object, string_enum};
use std::collections::BTreeMap;

object! {
    /// Defaults and plugins for network interfaces of VMIs.
    pub struct NetworkSettings {
        /// Binding of the interface that a VMI without networks gets: `bridge` or `masquerade`. Default:
        /// `bridge`.
        pub default_network_interface: Option<String> = "defaultNetworkInterface",
        /// Discontinued, without effect: permission for the slirp binding.
        pub permit_slirp_interface: Option<bool> = "permitSlirpInterface",
        /// Permits the bridge binding on the pod network. Default: true.
        pub permit_bridge_interface_on_pod_network: Option<bool> = "permitBridgeInterfaceOnPodNetwork",
        /// Network binding plugins by name. Unset: none.
        pub binding: BTreeMap<String, BindingPlugin> = "binding",
    }
}

object! {
    /// Network binding plugin, which connects interfaces of VMIs.
    pub struct BindingPlugin {
        /// Image of a sidecar container that configures the interface in the libvirt domain, by the protocol
        /// of hook sidecars. Unset: none.
        pub sidecar_image: Option<String> = "sidecarImage",
        /// NetworkAttachmentDefinition that prepares the launcher pod: `NAMESPACE/NAME` or `NAME`.
        pub network_attachment_definition: Option<String> = "networkAttachmentDefinition",
        /// Type of the interface in the libvirt domain. Required without `sidecarImage`. Unset: the sidecar
        /// writes the interface.
        pub domain_attachment_type: Option<DomainAttachment> = "domainAttachmentType",
        /// Support of the plugin for live migration. Unset: live migration is not possible.
        pub migration: Option<BindingMigration> = "migration",
        /// Network information that the sidecar receives, in the file `/etc/podinfo/network-info`. Unset:
        /// none.
        pub downward_api: Option<NetworkInfo> = "downwardAPI",
        /// Compute resources that the compute container needs for the plugin. Only the memory request has an
        /// effect.
        pub compute_resource_overhead: Option<ContainerResources> = "computeResourceOverhead",
    }
}

object! {
    /// Support of a network binding plugin for live migration.
    pub struct BindingMigration {
        /// Method that refreshes the network after the migration. Unset: no refresh.
        pub method: Option<BindingMigrationMethod> = "method",
    }
}

object! {
    /// Compute resources of a container.
    pub struct ContainerResources {
        /// Maximum of each resource that the container can use. Unset: no limit.
        pub limits: BTreeMap<String, Quantity> = "limits",
        /// Minimum of each resource that the scheduler reserves. Unset: the limits.
        pub requests: BTreeMap<String, Quantity> = "requests",
    }
}

string_enum! {
    /// Type of an interface in the libvirt domain.
    pub enum DomainAttachment {
        /// Existing tap device of the pod.
        Tap = "tap",
        /// Tap device that virt-handler creates.
        ManagedTap = "managedTap",
    }
}

string_enum! {
    /// Method that refreshes the network after a migration.
    pub enum BindingMigrationMethod {
        /// Link of the interface taken down and up, so that the guest renews its DHCP lease.
        LinkRefresh = "link-refresh",
    }
}

string_enum! {
    /// Network information that a sidecar receives.
    pub enum NetworkInfo {
        /// Device information of each network.
        DeviceInfo = "device-info",
    }
}
