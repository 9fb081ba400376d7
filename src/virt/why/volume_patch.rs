//! The command that gives the volumes of a VM the PVCs that its disks are on.
//!
//! ```text
//!  VM, spec.template.spec.volumes ─┐
//!  the VMI that runs: its volumes ─┼─► volumes on another PVC than their disk ─► kubectl patch
//!  status.volumeUpdateState        │
//!  annotation moved-to of the PVC ─┘
//! ```

use super::finding::RuleContext;
use crate::virt::json::{annotation_text, list, name, text};
use cluster_model::claim_moves::MOVED_TO;
use serde_json::{Value, json};

/// A volume of a VM's template that names another PVC than its disk is on.
#[derive(Debug)]
struct MisplacedVolume<'a> {
    /// Position in the template.
    at: usize,
    name: &'a str,
    /// PVC that the VM names.
    named: &'a str,
    /// The volume as it should be.
    wanted: Value,
}

/// The advice with the command that writes the PVCs of the disks into the VM. `None` if no volume is known to name another PVC.
pub(super) fn of_disks(context: &RuleContext<'_>, what: &str) -> Option<String> {
    let vm = context.vm()?;
    let misplaced = misplaced(context, vm);
    let mut patch = Vec::new();
    for volume in &misplaced {
        let path = format!("/spec/template/spec/volumes/{}", volume.at);
        patch.push(json!({"op": "test", "path": format!("{path}/name"), "value": volume.name}));
        patch.push(json!({"op": "replace", "path": path, "value": volume.wanted}));
    }
    // A DataVolume that no volume names is refused. The last one first, since each removal moves those behind it.
    let templates: Vec<&Value> = list(vm, "/spec/dataVolumeTemplates").collect();
    for (at, template) in templates.iter().enumerate().rev() {
        let is_left = |volume: &MisplacedVolume<'_>| {
            volume.named == name(template) && text(&volume.wanted, "/dataVolume/name").is_none()
        };
        if misplaced.iter().any(is_left) {
            patch.push(json!({"op": "remove", "path": format!("/spec/dataVolumeTemplates/{at}")}));
        }
    }
    command(context, &patch).map(|command| format!("{what}:\n{command}"))
}

/// The advice with the command that removes `updateVolumesStrategy`.
pub(super) fn without_strategy(context: &RuleContext<'_>, what: &str) -> Option<String> {
    text(context.vm()?, "/spec/updateVolumesStrategy")?;
    let patch = [json!({"op": "remove", "path": "/spec/updateVolumesStrategy"})];
    command(context, &patch).map(|command| format!("{what}:\n{command}"))
}

/// True for a VM whose restart is refused: a disk that the guest writes to is on another PVC than its volume names.
pub(super) fn is_refused(context: &RuleContext<'_>) -> bool {
    let migrates =
        |vm: &&Value| text(vm, "/spec/updateVolumesStrategy").is_some_and(|strategy| strategy == "Migration");
    context.vm().filter(migrates).is_some_and(|vm| !misplaced(context, vm).is_empty())
}

/// `kubectl patch`. Users of the namespace choose some of the names: `None` where they could end the quoted text.
fn command(context: &RuleContext<'_>, patch: &[Value]) -> Option<String> {
    let text = serde_json::to_string(patch).ok().filter(|text| !patch.is_empty() && !text.contains('\''))?;
    let (name, namespace) = (context.name, &context.facts.namespace);
    Some(format!("kubectl patch vm {name} -n {namespace} --type=json -p '{text}'"))
}

fn misplaced<'a>(context: &RuleContext<'a>, vm: &'a Value) -> Vec<MisplacedVolume<'a>> {
    let runs = !matches!(context.phase(), "" | "Succeeded" | "Failed");
    let vmi = context.vmi().filter(|_| runs && !context.facts.has_carrier());
    let found = list(vm, "/spec/template/spec/volumes").enumerate().filter_map(|(at, volume)| {
        let name = text(volume, "/name")?;
        let named = claim(volume)?;
        let wanted = match vmi {
            Some(vmi) if is_read_only(vmi, name) => return None,
            Some(vmi) => list(vmi, "/spec/volumes")
                .find(|running| text(running, "/name") == Some(name))
                .filter(|running| claim(running).is_some_and(|claim| claim != named))
                .and_then(source),
            None => recorded_source(vm, name, named)
                .or_else(|| moved_to(context, named))
                .map(|claim| json!({"persistentVolumeClaim": {"claimName": claim}})),
        };
        let mut wanted = wanted?;
        wanted["name"] = json!(name);
        Some(MisplacedVolume { at, name, named, wanted })
    });
    found.collect()
}

/// PVC of a volume that is not an overlay.
fn claim(volume: &Value) -> Option<&str> {
    text(volume, "/dataVolume/name").or(text(volume, "/persistentVolumeClaim/claimName"))
}

fn source(volume: &Value) -> Option<Value> {
    let of = |field: &str| volume.get(field).map(|source| json!({field: source}));
    of("persistentVolumeClaim").or_else(|| of("dataVolume"))
}

fn is_read_only(vmi: &Value, volume: &str) -> bool {
    let disk = list(vmi, "/spec/domain/devices/disks").find(|disk| text(disk, "/name") == Some(volume));
    disk.is_some_and(|disk| {
        disk.get("cdrom").is_some_and(Value::is_object)
            || disk.pointer("/disk/readonly").and_then(Value::as_bool) == Some(true)
    })
}

/// PVC that a volume had before the update that was recorded in the VM.
fn recorded_source<'a>(vm: &'a Value, volume: &str, named: &str) -> Option<&'a str> {
    let recorded = list(vm, "/status/volumeUpdateState/volumeMigrationState/migratedVolumes");
    let own = recorded
        .filter(|one| text(one, "/volumeName") == Some(volume))
        .find(|one| text(one, "/destinationPVCInfo/claimName") == Some(named))?;
    text(own, "/sourcePVCInfo/claimName")
}

/// PVC that a live migration has copied this one into.
fn moved_to<'a>(context: &RuleContext<'a>, named: &str) -> Option<&'a str> {
    let volume = context.facts.volumes.iter().find(|volume| volume.claim == named)?;
    annotation_text(volume.pvc.as_ref()?, MOVED_TO)
}
