//! How machines are connected, unless they say otherwise.

use crate::quantity::Quantity;
use crate::{object, words};
use std::collections::BTreeMap;

object! {
    /// How machines are connected, unless they say otherwise.
    pub struct NetworkSettings {
        /// How a machine is connected that says nothing: `bridge` or `masquerade`; not said is `bridge`.
        pub default_network_interface: Option<String> = "defaultNetworkInterface",
        /// Discontinued: it has no effect.
        pub permit_slirp_interface: Option<bool> = "permitSlirpInterface",
        /// A bridge may be used on the pods' network; not said is yes.
        pub permit_bridge_interface_on_pod_network: Option<bool> = "permitBridgeInterfaceOnPodNetwork",
        /// Plugins that connect machines, by name.
        pub binding: BTreeMap<String, BindingPlugin> = "binding",
    }
}

object! {
    /// A plugin that connects machines.
    pub struct BindingPlugin {
        /// The image of a container that runs beside the machine and draws the interface.
        pub sidecar_image: Option<String> = "sidecarImage",
        /// The NetworkAttachmentDefinition that prepares the pod: `NAMESPACE/NAME` or `NAME`.
        pub network_attachment_definition: Option<String> = "networkAttachmentDefinition",
        /// How the interface is drawn without a sidecar.
        pub domain_attachment_type: Option<DomainAttachment> = "domainAttachmentType",
        /// The machine can move with it; not said, it cannot.
        pub migration: Option<BindingMigration> = "migration",
        /// What the sidecar is told of the network.
        pub downward_api: Option<NetworkInfo> = "downwardAPI",
        /// What it takes beside the machine's own.
        pub compute_resource_overhead: Option<ContainerResources> = "computeResourceOverhead",
    }
}

object! {
    /// How a machine moves with a plugin.
    pub struct BindingMigration {
        /// What is done when it has arrived.
        pub method: Option<BindingMigrationMethod> = "method",
    }
}

object! {
    /// What a container asks for.
    pub struct ContainerResources {
        /// What it may have.
        pub limits: BTreeMap<String, Quantity> = "limits",
        /// What it needs.
        pub requests: BTreeMap<String, Quantity> = "requests",
    }
}

words! {
    /// How an interface is drawn.
    pub enum DomainAttachment {
        /// A tap that is there.
        Tap = "tap",
        /// A tap that is made.
        ManagedTap = "managedTap",
    }
}

words! {
    /// What is done when a machine has arrived.
    pub enum BindingMigrationMethod {
        /// The link goes down and up, so that the guest asks for its address anew.
        LinkRefresh = "link-refresh",
    }
}

words! {
    /// What a sidecar is told.
    pub enum NetworkInfo {
        /// The device of each network.
        DeviceInfo = "device-info",
    }
}
