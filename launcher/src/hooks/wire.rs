//! KubeVirt's words for hook sidecars: `kubevirt.hooks.info` and `kubevirt.hooks.v1alpha1` to `v1alpha3`.
//!
//! Written out by hand from the public interface: all versions have the same messages, and later ones have more methods.

/// `Info.Info`
pub(super) const INFO: &str = "/kubevirt.hooks.info.Info/Info";
/// The versions of the callbacks, the newest first.
pub(super) const VERSIONS: [&str; 3] = ["v1alpha3", "v1alpha2", "v1alpha1"];

/// When a sidecar is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// The domain is to be defined.
    OnDefineDomain,
    /// The texts of cloud-init are to be written.
    PreCloudInitIso,
    /// The launcher ends.
    Shutdown,
}

impl Point {
    /// All of them.
    pub(super) const ALL: [Point; 3] = [Point::OnDefineDomain, Point::PreCloudInitIso, Point::Shutdown];

    /// Its name, which is that of the method, too.
    pub(super) fn name(self) -> &'static str {
        match self {
            Point::OnDefineDomain => "OnDefineDomain",
            Point::PreCloudInitIso => "PreCloudInitIso",
            Point::Shutdown => "Shutdown",
        }
    }

    /// A version of the callbacks has the method.
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

/// Nothing.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub(super) struct Empty {}

/// What a sidecar says of itself.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Info {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) hook_points: Vec<HookPoint>,
    #[prost(string, repeated, tag = "4")]
    pub(super) versions: Vec<String>,
}

/// When it wants to be asked.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct HookPoint {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(int32, tag = "2")]
    pub(super) priority: i32,
}

/// The domain and the VMI; in the answer, the domain alone.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Domain {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) xml: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) vmi: Vec<u8>,
}

/// The texts of cloud-init, in an old form and a new one, and the VMI; in the answer, the texts alone.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(super) struct Texts {
    /// `CloudInitNoCloudSource` of the API, as JSON.
    #[prost(bytes = "vec", tag = "1")]
    pub(super) no_cloud: Vec<u8>,
    /// The VMI, as JSON.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) vmi: Vec<u8>,
    /// The launcher's own form, as JSON.
    #[prost(bytes = "vec", tag = "3")]
    pub(super) data: Vec<u8>,
}
