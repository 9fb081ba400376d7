//! Launcher pod of a live migration: it receives the guest of the VMI on another node.
//!
//! It is the pod that a start of the VMI would get now, with a name, a label and an annotation of the migration, the
//! argument `--receive`, and a place beside the VMI's other pods.

use super::Surroundings;
use cluster_model::launcher::MigrationSocketPaths;
use cluster_model::objects::{FOUND_BY, LauncherAttempt, MIGRATION_JOB, MIGRATION_NAME};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Label of a node with its name, by which the target pod keeps away from the VMI's other pods.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Live migration whose guest a launcher pod receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MigrationTarget<'a> {
    /// UID of the VirtualMachineInstanceMigration.
    pub(crate) uid: &'a str,
    /// Name of the VirtualMachineInstanceMigration.
    pub(crate) name: &'a str,
    /// Labels that the target node must have, in addition to those that the VMI asks for.
    pub(crate) added_node_selector: &'a BTreeMap<String, String>,
}

/// The attempt of a launcher pod with these surroundings.
pub(super) fn attempt<'a>(around: &Surroundings<'a>) -> LauncherAttempt<'a> {
    around.receives.map_or(LauncherAttempt::Start, |target| LauncherAttempt::Migration(target.uid))
}

impl MigrationTarget<'_> {
    /// Adds the label and the annotation by which the target pod is found.
    pub(super) fn mark(
        &self,
        labels: &mut BTreeMap<String, String>,
        annotations: &mut BTreeMap<String, String>,
    ) {
        labels.insert(MIGRATION_JOB.to_owned(), self.uid.to_owned());
        annotations.insert(MIGRATION_NAME.to_owned(), self.name.to_owned());
    }

    /// Adds the requirements for the target node. A selector is added and never replaced; `vmi` is the uid of the VMI, whose
    /// other pods are kept away from.
    pub(super) fn place(&self, spec: &mut Map<String, Value>, vmi: &str) {
        let selectors = spec.entry("nodeSelector").or_insert_with(|| json!({}));
        for (label, value) in self.added_node_selector {
            if let Some(selectors) = selectors.as_object_mut() {
                selectors.entry(label).or_insert_with(|| json!(value));
            }
        }
        let avoided = json!({"labelSelector": {"matchLabels": {FOUND_BY[1]: vmi}}, "topologyKey": HOSTNAME});
        let path = ["podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
        let affinity = spec.entry("affinity").or_insert(Value::Null);
        // A value that is not an affinity stays as it is: the API server refuses it when the pod is created.
        let terms = path.into_iter().try_fold(affinity, super::placement::field_or_insert);
        match terms {
            Some(Value::Array(terms)) => terms.push(avoided),
            Some(terms) if terms.is_null() => *terms = json!([avoided]),
            Some(_) | None => {}
        }
    }

    /// Path of the socket on which the launcher waits for its guest, beside its own socket.
    pub(super) fn socket(&self, launcher_socket: &str) -> String {
        MigrationSocketPaths::beside(launcher_socket, self.uid).libvirt
    }
}
