//! The table of kinds, one line for each file in `kinds/`, and the keys of objects.

use super::kinds;
use super::{About, Home, Program, WatchTarget, escaped};
use api::meta::ObjectMeta;
use std::fmt;

macro_rules! kinds {
    ($($kind:ident: $file:ident,)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($kind,)*
        }

        impl Kind {
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];

            /// The declaration in the kind's file.
            pub const fn about(self) -> &'static About {
                match self {
                    $(Kind::$kind => &kinds::$file::ABOUT,)*
                }
            }
        }
    };
}

kinds! {
    VirtualMachine: virtual_machine,
    VirtualMachineInstance: virtual_machine_instance,
    VirtualMachineInstanceReplicaSet: replica_set,
    VirtualMachineInstancePreset: virtual_machine_instance_preset,
    VirtualMachinePool: virtual_machine_pool,
    VirtualMachineInstancetype: virtual_machine_instancetype,
    VirtualMachineClusterInstancetype: virtual_machine_cluster_instancetype,
    VirtualMachinePreference: virtual_machine_preference,
    VirtualMachineClusterPreference: virtual_machine_cluster_preference,
    KubeVirt: kubevirt,
    DataVolume: data_volume,
    DataSource: data_source,
    DataImportCron: data_import_cron,
    ControllerRevision: controller_revision,
    Pod: pod,
    PersistentVolumeClaim: persistent_volume_claim,
    PersistentVolume: persistent_volume,
    VolumeImportSource: volume_import_source,
    VolumeUploadSource: volume_upload_source,
    VolumeCloneSource: volume_clone_source,
    StorageClass: storage_class,
    StorageProfile: storage_profile,
    CDI: cdi,
    CDIConfig: cdi_config,
    Node: node,
    Namespace: namespace,
    ResourceQuota: resource_quota,
    NetworkAttachmentDefinition: network_attachment_definition,
    ResourceClaim: resource_claim,
    ResourceSlice: resource_slice,
    Event: event,
    Lease: lease,
    Deployment: deployment,
    DaemonSet: daemon_set,
    Secret: secret,
    Service: service,
    ConfigMap: config_map,
    MutatingWebhookConfiguration: mutating_webhooks,
    ValidatingWebhookConfiguration: validating_webhooks,
    APIService: api_service,
    EndpointSlice: endpoint_slice,
    TokenReview: token_review,
    SubjectAccessReview: subject_access_review,
    VirtualMachineInstanceMigration: virtual_machine_instance_migration,
    UploadTokenRequest: upload_token_request,
    MigrationPolicy: migration_policy,
}

/// Kind, namespace and name of an object. The namespace of a cluster-scoped object is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl Kind {
    /// Value of `apiVersion`: group and version.
    pub const fn api_version(self) -> &'static str {
        self.about().api_version
    }

    /// The group; empty for the core group.
    pub fn group(self) -> &'static str {
        self.api_version().split_once('/').map_or("", |(group, _)| group)
    }

    /// The plural, as in paths and roles.
    pub const fn plural(self) -> &'static str {
        self.about().plural
    }

    /// The name, as in an object's `kind`.
    pub const fn name(self) -> &'static str {
        self.about().name
    }

    /// Only objects in the namespace of the installation are read or written, except those that a program
    /// follows elsewhere ([`Use::elsewhere`](super::Use::elsewhere)).
    pub const fn is_of_installation(self) -> bool {
        self.about().is_of_installation
    }

    /// Path of the objects of a namespace; of all namespaces if it is empty.
    pub fn collection(self, namespace: &str) -> String {
        let About { api_version, plural, .. } = self.about();
        let root = if api_version.contains('/') { "apis" } else { "api" };
        if namespace.is_empty() {
            format!("/{root}/{api_version}/{plural}")
        } else {
            format!("/{root}/{api_version}/namespaces/{}/{plural}", escaped(namespace))
        }
    }

    /// Path of an object. The namespace of a cluster-scoped object is empty.
    pub fn object(self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.collection(namespace), escaped(name))
    }

    /// Path of a subresource of a VM or a VMI, which virt-api serves.
    pub fn part(self, namespace: &str, name: &str, part: &str) -> String {
        format!("{}/{}/{part}", subresources(namespace, self.plural()), escaped(name))
    }

    /// The kind of this name, as in an object's `kind`.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }

    /// The watches by which a program follows the kind. Objects that are followed by name have one watch
    /// each.
    pub fn followed_by(self, program: Program, home: &Home) -> Vec<WatchTarget> {
        let used = self.about().use_by(program);
        let within = |is_home: bool| match is_home || self.is_of_installation() {
            true => home.namespace.as_str(),
            false => "",
        };
        let elsewhere =
            used.elsewhere.iter().map(|object| WatchTarget::for_object(self, object.namespace, object.name));
        if !used.names.is_empty() && !used.follows.is_empty() {
            let by_name = used.names.iter().map(|name| WatchTarget::for_object(self, within(false), name));
            return by_name.chain(elsewhere).collect();
        }
        let filled = |selector: Option<&str>| selector.map(|text| text.replace("{node}", &home.node));
        let which = used.follows.iter().map(|selector| WatchTarget {
            kind: self,
            namespace: within(selector.is_home).to_owned(),
            labels: filled(selector.labels),
            fields: filled(selector.fields),
            name: None,
        });
        which.chain(elsewhere).collect()
    }
}

/// Path of a part of a namespace at the aggregated API of virt-api.
pub fn subresources(namespace: &str, part: &str) -> String {
    format!("/apis/subresources.kubevirt.io/v1/namespaces/{}/{part}", escaped(namespace))
}

/// All watches of a program.
pub fn followed_by(program: Program, home: &Home) -> Vec<WatchTarget> {
    Kind::ALL.iter().flat_map(|kind| kind.followed_by(program, home)).collect()
}

impl Key {
    /// The key of an object.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Key {
        Key { kind, namespace: namespace.into(), name: name.into() }
    }

    /// The path of the object.
    pub fn path(&self) -> String {
        self.kind.object(&self.namespace, &self.name)
    }
}

/// The key of an object by its metadata.
pub fn key(kind: Kind, meta: &ObjectMeta) -> Key {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Key { kind, namespace: text(&meta.namespace), name: text(&meta.name) }
}

/// The name of the kind in messages, which is shorter for those that they name most.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::VirtualMachine => "VM",
            Kind::VirtualMachineInstance => "VMI",
            Kind::PersistentVolumeClaim => "PVC",
            kind => kind.name(),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => write!(f, "{} {}", self.kind.name(), self.name),
            namespace => write!(f, "{} {namespace}/{}", self.kind.name(), self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A watch lists all objects of a kind: a second one would delete the objects of the first from the store. virt-handler
    /// follows the selections of a kind as one.
    #[test]
    fn only_virt_handler_follows_a_kind_by_several_selections() {
        for program in [Program::Controller, Program::Api, Program::Proxy] {
            for kind in Kind::ALL {
                let follows = kind.about().use_by(program).follows.len();
                assert!(follows <= 1, "{program:?} follows {kind:?} by {follows} selections");
            }
        }
    }

    #[test]
    fn objects_are_where_the_server_has_them() {
        let path = |kind, namespace: &str| Key::new(kind, namespace, "a").path();
        assert_eq!(path(Kind::Pod, "n"), "/api/v1/namespaces/n/pods/a");
        assert_eq!(path(Kind::Node, ""), "/api/v1/nodes/a");
        assert_eq!(
            path(Kind::VirtualMachineInstance, "n"),
            "/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstances/a"
        );
        let (vm, vmi) = (Kind::VirtualMachine, Kind::VirtualMachineInstance);
        for (path, wanted) in [
            (vm.object("ns", "web"), "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines/web"),
            (
                vmi.part("ns", "web", "evacuate/cancel"),
                "/apis/subresources.kubevirt.io/v1/namespaces/ns/virtualmachineinstances/web/evacuate/cancel",
            ),
            (Kind::Pod.collection("ns"), "/api/v1/namespaces/ns/pods"),
            (Kind::Node.object("", "n1"), "/api/v1/nodes/n1"),
            (Kind::CDIConfig.object("", "config"), "/apis/cdi.kubevirt.io/v1beta1/cdiconfigs/config"),
            (Kind::StorageClass.object("", "fast"), "/apis/storage.k8s.io/v1/storageclasses/fast"),
            (
                Kind::UploadTokenRequest.collection("ns"),
                "/apis/upload.cdi.kubevirt.io/v1beta1/namespaces/ns/uploadtokenrequests",
            ),
            (
                Kind::VirtualMachinePool.object("ns", "web"),
                "/apis/pool.kubevirt.io/v1beta1/namespaces/ns/virtualmachinepools/web",
            ),
            (Kind::KubeVirt.collection(""), "/apis/kubevirt.io/v1/kubevirts"),
            (
                vm.object("ns", "a/../b?c"),
                "/apis/kubevirt.io/v1/namespaces/ns/virtualmachines/a%2F..%2Fb%3Fc",
            ),
        ] {
            assert_eq!(path, wanted);
        }
        assert_eq!(
            (vm.api_version(), Kind::Service.api_version(), Kind::DataVolume.api_version()),
            ("kubevirt.io/v1", "v1", "cdi.kubevirt.io/v1beta1")
        );
    }

    #[test]
    fn a_kind_is_found_by_its_name() {
        assert_eq!(Kind::from_name("Pod"), Some(Kind::Pod));
        assert_eq!(Kind::from_name("VirtualMachinePool"), Some(Kind::VirtualMachinePool));
        assert_eq!((Kind::from_name("Deployments"), Kind::from_name("ReplicaSet")), (None, None));
        let shown = [Kind::VirtualMachineInstance, Kind::PersistentVolumeClaim, Kind::Pod];
        assert_eq!(shown.map(|kind| kind.to_string()), ["VMI", "PVC", "Pod"]);
    }

    #[test]
    fn the_node_of_a_selector_is_the_one_that_the_program_runs_on() {
        let home = Home { node: "node1".into(), namespace: "kubevirt".into() };
        let of = |kind: Kind| kind.followed_by(Program::Handler, &home);
        let labels: Vec<Option<String>> =
            of(Kind::VirtualMachineInstance).into_iter().map(|which| which.labels).collect();
        let both = ["kubevirt.io/nodeName=node1", "kubevirt.io/migrationTargetNodeName=node1"];
        assert_eq!(labels, both.map(|label| Some(label.to_owned())));
        assert_eq!(of(Kind::Pod)[0].fields.as_deref(), Some("spec.nodeName=node1"));
        assert_eq!(of(Kind::KubeVirt)[0].namespace, "kubevirt");
        assert_eq!(of(Kind::Secret)[0].name, Some(super::super::HANDLER_CERTIFICATE));
        assert_eq!(of(Kind::PersistentVolumeClaim), []);
    }

    /// The CA bundles of the API aggregator are in a namespace of the cluster.
    #[test]
    fn an_object_elsewhere_is_followed_by_its_name_in_its_namespace() {
        let home = Home { namespace: "kubevirt".into(), ..Home::default() };
        let of = |kind: Kind| kind.followed_by(Program::Api, &home);
        assert_eq!(
            of(Kind::ConfigMap),
            [
                WatchTarget::for_object(Kind::ConfigMap, "kubevirt", super::super::AUTHORITY),
                WatchTarget::for_object(Kind::ConfigMap, "kube-system", "extension-apiserver-authentication"),
            ]
        );
        let slices = of(Kind::EndpointSlice);
        assert_eq!((slices.len(), slices[0].namespace.as_str()), (1, "kubevirt"));
        assert_eq!(slices[0].labels.as_deref(), Some("kubernetes.io/service-name=virt-handler"));
    }

    #[test]
    fn no_two_kinds_have_one_path() {
        let mut paths: Vec<String> = Kind::ALL.iter().map(|kind| kind.collection("")).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), Kind::ALL.len());
    }
}
