//! virt-controller: its rights to write Secrets and Services in all namespaces, restricted to its own and to
//! those of upload pods and of both ends of a clone.
//!
//! | right | bound |
//! |---|---|
//! | create, patch `secrets` in its namespace | the names that it declares ([`names`]): certificates, and the key that signs upload tokens |
//! | create, patch, delete `secrets` anywhere | those of these pods: by name, label and type, before and after; made for a PVC |
//! | create, delete `services` | those of upload pods and source pods: by name and label; headless, and they select the pods of their name only |
//!
//! RBAC has no name prefixes. A deletion is checked on the old object, a change on the old and the new one:
//! no Secret of a tenant becomes one of ours, and none of ours gets another type, which could request the
//! token of an account.
//! **Caveats.** The response to a patch is the whole Secret. So virt-controller, which may not read Secrets
//! of tenants, could read those that have the form of an upload pod's.

use super::controller::{base, is_owned};
use super::{Policy, literal, rule};
use crate::InstallOptions;
use cluster_model::clones::{self, CLIENT, SOURCE};
use cluster_model::issue::OPAQUE;
use cluster_model::objects::rights::names;
use cluster_model::objects::{Kind, Program};
use cluster_model::uploads::{self, SERVICE_LABEL, SIGNING_KEY, UPLOADER};
use cluster_model::worker::WORK;

pub(super) fn policies(options: &InstallOptions) -> [Policy; 2] {
    let mut secrets = base(
        options,
        "kubevirt-controller-secrets",
        vec![rule("", &["secrets"], &["CREATE", "UPDATE", "DELETE"])],
        vec![
            (
                format!(
                    "variables.upload || request.operation != 'DELETE' && request.namespace == {} && \
                     object.metadata.name in {}",
                    literal(&options.namespace),
                    literal(names(Program::Controller, Kind::Secret).unwrap_or_default())
                ),
                "makes and changes only objects with the names of its own, and secrets of upload pods and of clones",
            ),
            // A Secret can also request the token of an account.
            (
                format!(
                    "variables.upload || request.operation == 'DELETE' || object.?type.orValue('') == \
                     (object.metadata.name == {} ? {} : 'kubernetes.io/tls')",
                    literal(SIGNING_KEY),
                    literal(OPAQUE)
                ),
                "keeps certificates in secrets, and the key that signs upload tokens, and nothing else",
            ),
            (
                format!(
                    "!variables.upload || request.operation == 'DELETE' || {}",
                    is_owned_by_either("object")
                ),
                "makes secrets of upload pods and of clients for PVCs only, and those of source pods for these",
            ),
        ],
    );
    let is_upload =
        |object: &str| format!("{} && {object}.?type.orValue('') == {}", form(object), literal(OPAQUE));
    secrets.variables = vec![(
        "upload",
        format!(
            "(request.operation == 'DELETE' || {}) && (request.operation == 'CREATE' || {})",
            is_upload("object"),
            is_upload("oldObject")
        ),
    )];
    let spec = "object.spec";
    let services = base(
        options,
        "kubevirt-controller-services",
        vec![rule("", &["services"], &["CREATE", "DELETE"])],
        vec![
            (
                format!(
                    "request.operation == 'CREATE' ? {} && {} : {}",
                    form("object"),
                    is_owned_by_either("object"),
                    form("oldObject")
                ),
                "makes and deletes the services of upload pods and of source pods only",
            ),
            (
                format!(
                    "request.operation == 'DELETE' || {spec}.?clusterIP.orValue('') == 'None' && \
                     {spec}.?type.orValue('ClusterIP') == 'ClusterIP' && \
                     {spec}.?externalIPs.orValue([]).size() == 0 && \
                     {spec}.?selector.orValue({{}}).all(key, key == {label}) && \
                     {spec}.?selector[?{label}].orValue('') == object.metadata.name",
                    label = literal(SERVICE_LABEL)
                ),
                "makes headless services only, which select the pods of their name",
            ),
        ],
    );
    [secrets, services]
}

/// True for an object that a PVC owns, or a source pod for objects of its own.
fn is_owned_by_either(object: &str) -> String {
    format!(
        "({} || {object}.metadata.name.startsWith({}) && {})",
        is_owned(object, Kind::PersistentVolumeClaim),
        literal(SOURCE),
        is_owned(object, Kind::Pod)
    )
}

/// True for an object with the name and label of an upload pod's or a clone end's objects.
fn form(object: &str) -> String {
    let of = |starts: &[&str], work: &str| {
        let starts =
            starts.iter().map(|start| format!("{object}.metadata.name.startsWith({})", literal(start)));
        let starts = starts.collect::<Vec<_>>().join(" || ");
        format!(
            "({starts}) && {object}.metadata.?labels[?{}].orValue('') == {}",
            literal(WORK.0),
            literal(work)
        )
    };
    let (upload, clone) = (of(&[UPLOADER], uploads::WORK), of(&[SOURCE, CLIENT], clones::WORK));
    format!("({upload} || {clone})")
}
