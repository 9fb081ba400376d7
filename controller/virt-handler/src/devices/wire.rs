//! The kubelet's words for device plug-ins, `v1beta1`: the fields that we read or write.
//!
//! Written out by hand from the public API: eight messages and five methods, and no compiler of `.proto` files, which would be
//! sixty crates at build time.

use std::collections::HashMap;

/// The API's version.
pub(crate) const VERSION: &str = "v1beta1";
/// `Registration.Register`
pub(crate) const REGISTER: &str = "/v1beta1.Registration/Register";

/// Nothing.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Empty {}

/// A plug-in tells the kubelet of itself.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RegisterRequest {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    /// The name of its socket, beside the kubelet's.
    #[prost(string, tag = "2")]
    pub(crate) endpoint: String,
    #[prost(string, tag = "3")]
    pub(crate) resource_name: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) options: Option<Options>,
}

/// What a plug-in can do beyond the usual.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Options {
    #[prost(bool, tag = "1")]
    pub(crate) pre_start_required: bool,
    #[prost(bool, tag = "2")]
    pub(crate) get_preferred_allocation_available: bool,
}

/// All devices, as they are now.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Devices {
    #[prost(message, repeated, tag = "1")]
    pub(crate) devices: Vec<Device>,
}

/// One device.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Device {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    /// `Healthy` or `Unhealthy`.
    #[prost(string, tag = "2")]
    pub(crate) health: String,
    /// The NUMA nodes that it is near to.
    #[prost(message, optional, tag = "3")]
    pub(crate) topology: Option<Topology>,
}

impl Device {
    /// A device in this state, without a name.
    pub(crate) fn of(healthy: bool) -> Device {
        let health = if healthy { "Healthy" } else { "Unhealthy" };
        Device { id: String::new(), health: health.into(), topology: None }
    }
}

/// Where a device is in the node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Topology {
    #[prost(message, repeated, tag = "1")]
    pub(crate) nodes: Vec<NumaNode>,
}

/// A NUMA node.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct NumaNode {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

/// Containers that are given devices.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct AllocateRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) containers: Vec<ContainerRequest>,
}

/// A container that is given devices.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ContainerRequest {
    #[prost(string, repeated, tag = "1")]
    pub(crate) ids: Vec<String>,
}

/// What containers are given.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct AllocateResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) containers: Vec<ContainerResponse>,
}

/// What a container is given.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ContainerResponse {
    #[prost(map = "string, string", tag = "1")]
    pub(crate) envs: HashMap<String, String>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) devices: Vec<DeviceSpec>,
}

/// A device in a container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct DeviceSpec {
    #[prost(string, tag = "1")]
    pub(crate) container_path: String,
    #[prost(string, tag = "2")]
    pub(crate) host_path: String,
    #[prost(string, tag = "3")]
    pub(crate) permissions: String,
}

impl DeviceSpec {
    /// A device that has the same name on the host.
    pub(crate) fn of(path: &str, permissions: &str) -> DeviceSpec {
        DeviceSpec { container_path: path.into(), host_path: path.into(), permissions: permissions.into() }
    }
}
