//! Messages of the kubelet's device plug-in API `v1beta1`: the fields that we read or write.
//!
//! Written by hand from the public API: eight messages and five methods. A compiler of `.proto` files would
//! cost sixty crates at build time.

use std::collections::HashMap;

/// Version of the API.
pub(crate) const VERSION: &str = "v1beta1";
pub(crate) const REGISTER: &str = "/v1beta1.Registration/Register";

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Empty {}

/// Registration of a plug-in with the kubelet.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct RegisterRequest {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    /// Name of its socket, beside the kubelet's.
    #[prost(string, tag = "2")]
    pub(crate) endpoint: String,
    #[prost(string, tag = "3")]
    pub(crate) resource_name: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) options: Option<Options>,
}

/// Optional features of a plug-in.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct Options {
    #[prost(bool, tag = "1")]
    pub(crate) pre_start_required: bool,
    #[prost(bool, tag = "2")]
    pub(crate) get_preferred_allocation_available: bool,
}

/// Current list of all devices.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Devices {
    #[prost(message, repeated, tag = "1")]
    pub(crate) devices: Vec<Device>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Device {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    /// Health of the device: `Healthy` or `Unhealthy`.
    #[prost(string, tag = "2")]
    pub(crate) health: String,
    /// NUMA nodes of the device.
    #[prost(message, optional, tag = "3")]
    pub(crate) topology: Option<Topology>,
}

impl Device {
    /// A device in this state, without an ID.
    pub(crate) fn with_health(healthy: bool) -> Device {
        let health = if healthy { "Healthy" } else { "Unhealthy" };
        Device { id: String::new(), health: health.into(), topology: None }
    }
}

/// Location of a device in the node.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct Topology {
    #[prost(message, repeated, tag = "1")]
    pub(crate) nodes: Vec<NumaNode>,
}

#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(crate) struct NumaNode {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

/// Request for devices of containers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct AllocateRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) containers: Vec<ContainerRequest>,
}

/// Devices for one container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ContainerRequest {
    #[prost(string, repeated, tag = "1")]
    pub(crate) ids: Vec<String>,
}

/// Answer for the containers.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct AllocateResponse {
    #[prost(message, repeated, tag = "1")]
    pub(crate) containers: Vec<ContainerResponse>,
}

/// Answer for one container.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ContainerResponse {
    #[prost(map = "string, string", tag = "1")]
    pub(crate) envs: HashMap<String, String>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) devices: Vec<DeviceSpec>,
}

/// Device file in a container.
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
    /// A device with the same path on the host and in the container.
    pub(crate) fn same_path(path: &str, permissions: &str) -> DeviceSpec {
        DeviceSpec { container_path: path.into(), host_path: path.into(), permissions: permissions.into() }
    }
}
