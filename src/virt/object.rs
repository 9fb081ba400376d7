//! Kinds of objects that the verbs use, and their paths at the API server.

use cluster_model::objects::METADATA_ALONE;
use serde_json::Value;
use std::fmt;

/// Kind of a Kubernetes object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    VirtualMachine,
    VirtualMachineInstance,
    ReplicaSet,
    Pool,
    Migration,
    KubeVirt,
    DataVolume,
    PersistentVolumeClaim,
    Pod,
    Service,
    Secret,
    Event,
    Node,
    DataSource,
    DataImportCron,
    CdiConfig,
    StorageClass,
    UploadTokenRequest,
}

const KUBEVIRT: &str = "/apis/kubevirt.io/v1";
const POOLS: &str = "/apis/pool.kubevirt.io/v1beta1";
const SUBRESOURCES: &str = "/apis/subresources.kubevirt.io/v1";
const CDI: &str = "/apis/cdi.kubevirt.io/v1beta1";
const UPLOADS: &str = "/apis/upload.cdi.kubevirt.io/v1beta1";
const STORAGE: &str = "/apis/storage.k8s.io/v1";
const CORE: &str = "/api/v1";

/// Path of the document with the version of the control plane.
pub(crate) const VERSION: &str = "/apis/subresources.kubevirt.io/v1/version";

impl Kind {
    /// Group and version, plural, name of the kind, and short name for messages.
    fn row(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Kind::VirtualMachine => (KUBEVIRT, "virtualmachines", "VirtualMachine", "VM"),
            Kind::VirtualMachineInstance => {
                (KUBEVIRT, "virtualmachineinstances", "VirtualMachineInstance", "VMI")
            }
            Kind::ReplicaSet => (
                KUBEVIRT,
                "virtualmachineinstancereplicasets",
                "VirtualMachineInstanceReplicaSet",
                "VirtualMachineInstanceReplicaSet",
            ),
            Kind::Pool => (POOLS, "virtualmachinepools", "VirtualMachinePool", "VirtualMachinePool"),
            Kind::Migration => (
                KUBEVIRT,
                "virtualmachineinstancemigrations",
                "VirtualMachineInstanceMigration",
                "VirtualMachineInstanceMigration",
            ),
            Kind::KubeVirt => (KUBEVIRT, "kubevirts", "KubeVirt", "KubeVirt"),
            Kind::DataVolume => (CDI, "datavolumes", "DataVolume", "DataVolume"),
            Kind::PersistentVolumeClaim => (CORE, "persistentvolumeclaims", "PersistentVolumeClaim", "PVC"),
            Kind::Pod => (CORE, "pods", "Pod", "Pod"),
            Kind::Service => (CORE, "services", "Service", "Service"),
            Kind::Secret => (CORE, "secrets", "Secret", "Secret"),
            Kind::Event => (CORE, "events", "Event", "Event"),
            Kind::Node => (CORE, "nodes", "Node", "Node"),
            Kind::DataSource => (CDI, "datasources", "DataSource", "DataSource"),
            Kind::DataImportCron => (CDI, "dataimportcrons", "DataImportCron", "DataImportCron"),
            Kind::CdiConfig => (CDI, "cdiconfigs", "CDIConfig", "CDIConfig"),
            Kind::StorageClass => (STORAGE, "storageclasses", "StorageClass", "StorageClass"),
            Kind::UploadTokenRequest => {
                (UPLOADS, "uploadtokenrequests", "UploadTokenRequest", "UploadTokenRequest")
            }
        }
    }

    /// Name of the kind, as in the field `kind`.
    pub(crate) fn name(self) -> &'static str {
        self.row().2
    }

    /// Group and version, as in the field `apiVersion`.
    pub(crate) fn api_version(self) -> &'static str {
        let group = self.row().0;
        group.strip_prefix("/apis/").or(group.strip_prefix("/api/")).unwrap_or(group)
    }

    /// The kind of this name, if the verbs use it.
    pub(crate) fn from_name(name: &str) -> Option<Kind> {
        let all = [
            Kind::VirtualMachine,
            Kind::VirtualMachineInstance,
            Kind::ReplicaSet,
            Kind::Pool,
            Kind::Migration,
            Kind::DataVolume,
            Kind::PersistentVolumeClaim,
            Kind::DataImportCron,
            Kind::Pod,
        ];
        all.into_iter().find(|kind| kind.name() == name)
    }

    /// Path of all objects in a namespace.
    pub(crate) fn list(self, namespace: &str) -> String {
        let (group, plural, ..) = self.row();
        format!("{group}/namespaces/{}/{plural}", encoded(namespace))
    }

    /// Path of the objects in all namespaces.
    pub(crate) fn everywhere(self) -> String {
        let (group, plural, ..) = self.row();
        format!("{group}/{plural}")
    }

    /// Path of one object.
    pub(crate) fn one(self, namespace: &str, name: &str) -> String {
        let within = match self {
            Kind::Node | Kind::CdiConfig | Kind::StorageClass => self.everywhere(),
            _ => self.list(namespace),
        };
        format!("{within}/{}", encoded(name))
    }

    /// Path of a subresource of the namespace itself.
    pub(crate) fn of_namespace(namespace: &str, part: &str) -> String {
        format!("{SUBRESOURCES}/namespaces/{}/{part}", encoded(namespace))
    }

    /// Path of a subresource of a VM or a VMI.
    pub(crate) fn part(self, namespace: &str, name: &str, part: &str) -> String {
        let (_, plural, ..) = self.row();
        format!("{SUBRESOURCES}/namespaces/{}/{plural}/{}/{part}", encoded(namespace), encoded(name))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().3)
    }
}

/// Percent-encodes a text as one segment of a path or a query.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// False for an object of a list of which the metadata alone are read.
pub(crate) fn is_whole(object: &Value) -> bool {
    object.get(METADATA_ALONE).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api_server() {
        let (vm, vmi) = (Kind::VirtualMachine, Kind::VirtualMachineInstance);
        for (path, wanted) in [
            (vm.one("ns", "web"), "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines/web"),
            (
                vmi.part("ns", "web", "evacuate/cancel"),
                "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachineinstances/web/evacuate/cancel",
            ),
            (Kind::Pod.list("ns"), "/api/v1/namespaces/ns/pods"),
            (Kind::Node.one("", "n1"), "/api/v1/nodes/n1"),
            (Kind::CdiConfig.one("", "config"), "/apis/cdi.kubevirt.io/v1beta1/cdiconfigs/config"),
            (Kind::StorageClass.one("", "fast"), "/apis/storage.k8s.io/v1/storageclasses/fast"),
            (
                Kind::UploadTokenRequest.list("ns"),
                "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/ns/uploadtokenrequests",
            ),
            (
                Kind::Pool.one("ns", "web"),
                "/apis/pool.kubevirt.io/v1beta1/namespaces/ns/virtualmachinepools/web",
            ),
            (Kind::KubeVirt.everywhere(), "/apis/kubevirt.io/v1/kubevirts"),
            (vm.one("ns", "a/../b?c"), "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines/a%2F..%2Fb%3Fc"),
        ] {
            assert_eq!(path, wanted);
        }
        assert_eq!(
            (vm.api_version(), Kind::Service.api_version(), Kind::DataVolume.api_version()),
            ("kubevirt.io/v1", "v1", "cdi.kubevirt.io/v1beta1")
        );
        assert_eq!(Kind::from_name("Pod"), Some(Kind::Pod));
        assert_eq!(Kind::from_name("VirtualMachinePool"), Some(Kind::Pool));
        assert_eq!((Kind::from_name("Deployment"), Kind::from_name("ReplicaSet")), (None, None));
    }
}
