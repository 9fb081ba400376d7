//! The names by which clones are known: to virt-controller, which makes a source pod beside the PVC that is cloned; to virt-api,
//! which signs for whoever may clone it; and to the admission policies of the installation.
//!
//! ```text
//!  namespace of the source                                   namespace of the target
//!  PVC ◄─read-only─ pod, Service, Secret clone-source-UID ◄──TLS── importer pod ─► PVC UID
//!                                                            Secret clone-client-UID, mounted in CLIENT_FOLDER
//! ```
//!
//! UID is that of the target's PVC. No owner reference goes across namespaces: the source pod says by a label and an annotation
//! whose it is ([`TARGET_LABEL`], [`TARGET`]), and virt-controller deletes it.

/// The value of the label `cdi.kubevirt.io` of a source pod, of its Service, and of the Secrets of both ends.
pub const WORK: &str = "cdi-clone-source";
/// The container of a source pod.
pub const CONTAINER: &str = "cdi-clone-source";
/// How the names of source pods, their Services and their Secrets begin.
pub const SOURCE: &str = "clone-source-";
/// How the names of the Secrets begin by which importer pods show themselves to source pods.
pub const CLIENT: &str = "clone-client-";
/// The label that says which PVC is filled: its value is the uid of that PVC.
pub const TARGET_LABEL: &str = "cdi.kubevirt.io/cloneTarget";
/// The annotation of a source pod with the namespace and the name of the PVC that is filled, `NAMESPACE/NAME`.
pub const TARGET: &str = "cdi.kubevirt.io/clone-target";
/// Where an importer pod finds its certificate, its key, and the authorities of the source pod.
pub const CLIENT_FOLDER: &str = "/etc/tls";
/// The path of the disk at a source pod.
pub const PATH: &str = "/disk";
/// The resource that whoever clones a PVC into another namespace must be permitted to create, in the namespace of the source:
/// its group, its plural, and the subresource.
pub const RIGHT: (&str, &str, &str) = ("cdi.kubevirt.io", "datavolumes", "source");

pub use api::cdi::annotations::{
    CLONE_FALLBACK, CLONE_REQUEST, CLONE_SOURCE_POD, CLONE_SOURCE_UID, CLONE_TOKEN, CLONE_TYPE,
};
