//! KubeVirt's protocol of hook sidecars: `kubevirt.hooks.info` and `kubevirt.hooks.v1alpha1` to `v1alpha3`.
//!
//! Written by hand from the public interface: all versions have the same messages, and later ones have more
//! methods.

/// Path of the method `Info.Info`.
pub(super) const INFO: &str = "/kubevirt.hooks.info.Info/Info";
/// Versions of the callbacks, the newest first.
pub(super) const VERSIONS: [&str; 3] = ["v1alpha3", "v1alpha2", "v1alpha1"];

/// Hook point: the time at which a sidecar is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// Before the domain is defined.
    OnDefineDomain,
    /// Before the texts of cloud-init are written.
    PreCloudInitIso,
    /// Before the launcher ends.
    Shutdown,
}

impl Point {
    pub(super) const ALL: [Point; 3] = [Point::OnDefineDomain, Point::PreCloudInitIso, Point::Shutdown];

    /// Name of the hook point, and of its method.
    pub(super) fn name(self) -> &'static str {
        match self {
            Point::OnDefineDomain => "OnDefineDomain",
            Point::PreCloudInitIso => "PreCloudInitIso",
            Point::Shutdown => "Shutdown",
        }
    }

    /// True if this version of the callbacks has the method.
    pub(super) fn is_in(self, version: &str) -> bool {
        match self {
            Point::OnDefineDomain => true,
            Point::PreCloudInitIso => version != "v1alpha1",
            Point::Shutdown => version == "v1alpha3",
        }
    }
}

/// The path of a callback.
pub(super) fn method(version: &str, point: Point) -> String {
    format!("/kubevirt.hooks.{version}.Callbacks/{}", point.name())
}

/// A message without fields.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct Empty {}

/// Name and hook points of a sidecar.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Info {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) hook_points: Vec<HookPoint>,
    #[prost(string, repeated, tag = "4")]
    pub(super) versions: Vec<String>,
}

/// A hook point of a sidecar, with its priority.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct HookPoint {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) priority: i32,
}

/// The domain and the VMI; in the answer, only the domain.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Domain {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) xml: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) vmi: Vec<u8>,
}

/// The texts of cloud-init, in an old form and a new one, and the VMI; in the answer, only the texts.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Texts {
    /// `CloudInitNoCloudSource` of the API, as JSON.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) no_cloud: Vec<u8>,
    /// The VMI, as JSON.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) vmi: Vec<u8>,
    /// Data in the launcher's own form, as JSON.
    #[prost(bytes = "vec", tag = "3")]
    pub(super) data: Vec<u8>,
}
