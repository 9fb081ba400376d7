//! `migrate`: the VirtualMachineInstanceMigration that is created for a user. Pure.
//!
//! It has the label and the finalizer that virt-api's webhook gives to the migrations of other users: virt-api's
//! own objects are validated and not changed there.

use crate::refusal::{Refusal, Result, Subject};
use api::vmi::{Phase, VirtualMachineInstance};
use cluster_model::objects::{Kind, MIGRATED_VMI, MIGRATION_FINALIZER, names};
use cluster_model::subresources::MIGRATION_PREFIX;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Options of a request to migrate a VM.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MigrateOptions {
    /// Labels that the target node must have, in addition to those that the VMI asks for.
    added_node_selector: Option<BTreeMap<String, String>>,
    pub(crate) dry_run: Vec<String>,
}

/// The migration of the VMI of the VM of this name.
pub(crate) fn migration(
    vmi: Option<&VirtualMachineInstance>,
    name: &str,
    options: &MigrateOptions,
) -> Result<Value> {
    let phase = vmi.and_then(|vmi| vmi.status.as_ref()?.phase.as_ref());
    if phase != Some(&Phase::Running) {
        return Err(Refusal::conflict(Subject { kind: "virtualmachine", name }, "VM is not running"));
    }
    let kind = Kind::VirtualMachineInstanceMigration;
    let mut spec = json!({"vmiName": name});
    if let Some(labels) = options.added_node_selector.as_ref().filter(|labels| !labels.is_empty()) {
        spec["addedNodeSelector"] = json!(labels);
    }
    Ok(json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "metadata": {
            "generateName": MIGRATION_PREFIX,
            "labels": {MIGRATED_VMI: names::label(name)},
            "finalizers": [MIGRATION_FINALIZER],
        },
        "spec": spec,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_model::subresources::MIGRATION_SPEC_FIELDS;

    fn vmi(object: Value) -> VirtualMachineInstance {
        api::wire::read_in_part(object, &mut Vec::new()).unwrap()
    }

    fn in_phase(phase: &str) -> VirtualMachineInstance {
        vmi(json!({"metadata": {"name": "web"}, "spec": {}, "status": {"phase": phase}}))
    }

    fn options(body: &str) -> MigrateOptions {
        serde_json::from_str(body).unwrap()
    }

    #[test]
    fn a_vm_that_runs_gets_a_migration_as_the_webhook_would_complete_it() {
        let of = |body: &str| migration(Some(&in_phase("Running")), "web", &options(body)).unwrap();
        let selected = of(r#"{"addedNodeSelector": {"zone": "a"}, "dryRun": ["All"]}"#);
        assert_eq!(
            selected,
            json!({
                "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration",
                "metadata": {
                    "generateName": "kubevirt-migrate-vm-", "labels": {"kubevirt.io/vmi-name": "web"},
                    "finalizers": ["kubevirt.io/migrationJobFinalize"],
                },
                "spec": {"vmiName": "web", "addedNodeSelector": {"zone": "a"}},
            })
        );
        // The policy of the installation permits these fields.
        let fields = selected["spec"].as_object().unwrap().keys();
        assert!(fields.into_iter().all(|field| MIGRATION_SPEC_FIELDS.contains(&field.as_str())));
        for body in ["{}", r#"{"addedNodeSelector": null}"#, r#"{"addedNodeSelector": {}}"#] {
            assert_eq!(of(body)["spec"], json!({"vmiName": "web"}), "{body}");
        }
    }

    #[test]
    fn a_vm_that_does_not_run_is_not_migrated() {
        let phases = ["", "Pending", "Scheduling", "Scheduled", "Succeeded", "Failed", "Unknown"];
        let all = phases.map(in_phase).map(Some).into_iter().chain([None, Some(vmi(json!({"spec": {}})))]);
        for vmi in all {
            let refused = migration(vmi.as_ref(), "web", &MigrateOptions::default()).unwrap_err();
            let expected =
                "Operation cannot be fulfilled on virtualmachine.kubevirt.io \"web\": VM is not running";
            assert_eq!((refused.status.as_u16(), &*refused.message), (409, expected), "{vmi:?}");
        }
    }
}
