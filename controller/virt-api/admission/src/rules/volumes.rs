//! DataVolume templates of a VM: each is used by a volume, and has a target and one source.

use super::cdi;
use api::data_volume::{self, Source};
use api::fault::{Fault, Reason};
use api::vm::DataVolumeTemplate;
use api::vmi::Volume;
use serde_json::Value;

/// All faults of the templates.
pub(super) fn templates(
    templates: &[DataVolumeTemplate],
    volumes: &[Volume],
    namespace: Option<&str>,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (i, template) in templates.iter().enumerate() {
        // Tools look for the singular.
        let at = format!("spec.dataVolumeTemplate[{i}]");
        let metadata = template.metadata.clone().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        if name.is_empty() {
            let at = format!("{at}.name");
            let message = format!("'name' field must not be empty for DataVolumeTemplate entry {at}.");
            faults.push(Fault::new(at, Reason::Required, message));
            continue;
        }
        if let Some(other) =
            metadata.namespace.as_deref().filter(|other| namespace.is_some_and(|ours| ours != *other))
        {
            let message = format!(
                "Embedded DataVolume namespace {other} differs from VM namespace {}",
                namespace.unwrap_or_default()
            );
            faults.push(Fault::new(format!("spec.dataVolumeTemplates[{i}]"), Reason::Invalid, message));
        }
        faults.extend(target(&template.spec, &at));
        faults.extend(source(&template.spec, &at));
        faults.extend(cdi::unserved(&template.spec, &at));
        // virt-controller creates the DataVolume, and for these references no access review of the VM's
        // author is made.
        if let Some((field, other)) = template.spec.unchecked_reference(namespace) {
            let message = format!(
                "{at}.{field} is not supported: it names the namespace {other}, and no access review is made for that \
                 (name a PVC by source.pvc)"
            );
            faults.push(Fault::new(format!("{at}.{field}"), Reason::NotSupported, message));
        }
        let uses = |volume: &Volume| {
            volume.data_volume.as_ref().is_some_and(|source| source.name == name)
                || volume.persistent_volume_claim.as_ref().is_some_and(|source| source.claim_name == name)
        };
        if !volumes.iter().any(uses) {
            let message = format!(
                "DataVolumeTemplate entry {at} must be referenced in the VMI template's 'volumes' list"
            );
            faults.push(Fault::new(&at, Reason::Required, message));
        }
    }
    faults
}

fn target(spec: &data_volume::Spec, at: &str) -> Option<Fault> {
    let message = match (&spec.pvc, &spec.storage) {
        (None, None) => "Missing Data volume PVC or Storage",
        (Some(_), Some(_)) => "Duplicate storage definition, both target storage and target pvc defined",
        _ => return None,
    };
    Some(Fault::new(format!("{at}.PVC.Storage"), Reason::Invalid, message))
}

fn source(spec: &data_volume::Spec, at: &str) -> Option<Fault> {
    let field = format!("{at}.source");
    let filled_otherwise =
        spec.pvc.as_ref().is_some_and(|pvc| pvc.data_source.is_some() || pvc.data_source_ref.is_some())
            || spec
                .storage
                .as_ref()
                .is_some_and(|pvc| pvc.data_source.is_some() || pvc.data_source_ref.is_some());
    let given = spec.source.is_some() || spec.source_ref.is_some();
    if filled_otherwise {
        let message = "External population is incompatible with Source and SourceRef";
        return given.then(|| Fault::new(field, Reason::Invalid, message));
    }
    if spec.source.is_some() == spec.source_ref.is_some() {
        let message = "Data volume should have either Source, SourceRef, or be externally populated";
        return Some(Fault::new(format!("{field}.sourceRef"), Reason::Invalid, message));
    }
    let count = spec.source.as_ref().map_or(1, sources);
    let message = match count {
        0 => "Missing dataVolume valid source",
        1 => return None,
        _ => "Multiple dataVolume sources",
    };
    Some(Fault::new(field, Reason::Invalid, message))
}

/// Number of sources. An unknown one counts too.
fn sources(source: &Source) -> usize {
    match api::wire::Wire::write(source) {
        Value::Object(fields) => fields.len(),
        _ => 0,
    }
}
