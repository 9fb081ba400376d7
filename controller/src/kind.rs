//! The kinds of objects we look at or write, and where the API server keeps them.

use std::fmt;

/// A kind of object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Kind {
    Machine,
    Instance,
    ReplicaSet,
    KubeVirt,
    DataVolume,
    Revision,
    Pod,
    Claim,
    Node,
    Event,
    Lease,
    Deployment,
    DaemonSet,
    Secret,
    ConfigMap,
    /// Webhooks that may change what is written.
    Mutating,
    /// Webhooks that may refuse it.
    Validating,
    /// Whose token is this? It is asked by being made, and is not kept.
    TokenReview,
    /// May he? The same.
    AccessReview,
}

/// The group and version of webhook configurations.
const WEBHOOKS: &str = "admissionregistration.k8s.io/v1";

/// What an object is found by. The namespace of what has none is empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub struct Key {
    pub kind: Kind,
    pub namespace: String,
    pub name: String,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 19] = [
        Kind::Machine,
        Kind::Instance,
        Kind::ReplicaSet,
        Kind::KubeVirt,
        Kind::DataVolume,
        Kind::Revision,
        Kind::Pod,
        Kind::Claim,
        Kind::Node,
        Kind::Event,
        Kind::Lease,
        Kind::Deployment,
        Kind::DaemonSet,
        Kind::Secret,
        Kind::ConfigMap,
        Kind::Mutating,
        Kind::Validating,
        Kind::TokenReview,
        Kind::AccessReview,
    ];

    /// Group and version, kind, and the name in a path.
    const fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::Machine => ("kubevirt.io/v1", "VirtualMachine", "virtualmachines"),
            Kind::Instance => ("kubevirt.io/v1", "VirtualMachineInstance", "virtualmachineinstances"),
            Kind::ReplicaSet => {
                ("kubevirt.io/v1", "VirtualMachineInstanceReplicaSet", "virtualmachineinstancereplicasets")
            }
            Kind::KubeVirt => ("kubevirt.io/v1", "KubeVirt", "kubevirts"),
            Kind::DataVolume => ("cdi.kubevirt.io/v1beta1", "DataVolume", "datavolumes"),
            Kind::Revision => ("apps/v1", "ControllerRevision", "controllerrevisions"),
            Kind::Pod => ("v1", "Pod", "pods"),
            Kind::Claim => ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
            Kind::Node => ("v1", "Node", "nodes"),
            Kind::Event => ("v1", "Event", "events"),
            Kind::Lease => ("coordination.k8s.io/v1", "Lease", "leases"),
            Kind::Deployment => ("apps/v1", "Deployment", "deployments"),
            Kind::DaemonSet => ("apps/v1", "DaemonSet", "daemonsets"),
            Kind::Secret => ("v1", "Secret", "secrets"),
            Kind::ConfigMap => ("v1", "ConfigMap", "configmaps"),
            Kind::Mutating => (WEBHOOKS, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
            Kind::Validating => {
                (WEBHOOKS, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
            }
            Kind::TokenReview => ("authentication.k8s.io/v1", "TokenReview", "tokenreviews"),
            Kind::AccessReview => ("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews"),
        }
    }

    /// Its group and version.
    pub const fn api_version(self) -> &'static str {
        self.names().0
    }

    /// Its group; empty for the core's.
    pub fn group(self) -> &'static str {
        self.names().0.split_once('/').map_or("", |(group, _)| group)
    }

    /// The name of many, as it stands in paths and rights.
    pub const fn plural(self) -> &'static str {
        self.names().2
    }

    /// Only those in the namespace of the installation are any concern of ours.
    pub const fn is_of_installation(self) -> bool {
        matches!(self, Kind::Lease | Kind::Secret | Kind::ConfigMap | Kind::Deployment | Kind::DaemonSet)
    }

    /// As it is written in an object.
    pub const fn name(self) -> &'static str {
        self.names().1
    }

    /// Its objects have no namespace.
    pub const fn is_of_cluster(self) -> bool {
        matches!(
            self,
            Kind::Node | Kind::Mutating | Kind::Validating | Kind::TokenReview | Kind::AccessReview
        )
    }

    /// Where its objects are: of one namespace, or of all where it is empty.
    pub fn collection(self, namespace: &str) -> String {
        let (version, _, plural) = self.names();
        let root = if version.contains('/') { "apis" } else { "api" };
        if namespace.is_empty() {
            format!("/{root}/{version}/{plural}")
        } else {
            format!("/{root}/{version}/namespaces/{namespace}/{plural}")
        }
    }
}

impl Key {
    /// The key of an object.
    pub fn new(kind: Kind, namespace: impl Into<String>, name: impl Into<String>) -> Key {
        Key { kind, namespace: namespace.into(), name: name.into() }
    }

    /// Where it is.
    pub fn path(&self) -> String {
        format!("{}/{}", self.kind.collection(&self.namespace), self.name)
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

    #[test]
    fn objects_are_where_the_server_has_them() {
        let path = |kind, namespace: &str| Key::new(kind, namespace, "a").path();
        assert_eq!(path(Kind::Pod, "n"), "/api/v1/namespaces/n/pods/a");
        assert_eq!(path(Kind::Node, ""), "/api/v1/nodes/a");
        assert_eq!(path(Kind::Instance, "n"), "/apis/kubevirt.io/v1/namespaces/n/virtualmachineinstances/a");
    }
}
