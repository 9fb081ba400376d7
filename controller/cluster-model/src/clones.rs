//! Names used for clones, shared by virt-controller, which creates a source pod in the namespace of the
//! source PVC; virt-api, which signs a token for users who may clone it; and the admission policies of the
//! installation.
//!
//! ```text
//!  namespace of the source                                   namespace of the target
//!  PVC ◄─read-only─ pod, Service, Secret clone-source-UID ◄──TLS── importer pod ─► PVC UID
//!                                                            Secret clone-client-UID, mounted in CLIENT_FOLDER
//! ```
//!
//! UID is that of the target's PVC. Owner references do not cross namespaces: the source pod names its target
//! in a label and an annotation ([`TARGET_LABEL`], [`TARGET`]), and virt-controller deletes it.

/// The value of the label `cdi.kubevirt.io` of a source pod, of its Service, and of the Secrets of both ends.
pub const WORK: &str = "cdi-clone-source";
/// The container of a source pod.
pub const CONTAINER: &str = "cdi-clone-source";
/// Name prefix of source pods, their Services and their Secrets.
pub const SOURCE: &str = "clone-source-";
/// Name prefix of the Secrets with the client certificates that importer pods present to source pods.
pub const CLIENT: &str = "clone-client-";
/// The label with the uid of the PVC that is filled.
pub const TARGET_LABEL: &str = "cdi.kubevirt.io/cloneTarget";
/// The annotation of a source pod with the namespace and the name of the PVC that is filled,
/// `NAMESPACE/NAME`.
pub const TARGET: &str = "cdi.kubevirt.io/clone-target";
/// Mount path of an importer pod's certificate, its key, and the CA bundle of the source pod.
pub const CLIENT_FOLDER: &str = "/etc/tls";
/// HTTP path of the disk at a source pod.
pub const PATH: &str = "/disk";
/// The resource that a user must be permitted to create in the namespace of the source, to clone a PVC into
/// another namespace: group, plural, subresource.
pub const RIGHT: (&str, &str, &str) = ("cdi.kubevirt.io", "datavolumes", "source");

pub use api::cdi::annotations::{
    CLONE_FALLBACK, CLONE_INTO, CLONE_REQUEST, CLONE_SOURCE_POD, CLONE_SOURCE_UID, CLONE_TOKEN, CLONE_TYPE,
};
