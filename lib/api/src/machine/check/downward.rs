//! Files of a `downwardAPI` volume. They become a volume of the pod unchanged, so Kubernetes' rules are
//! checked here. A fault in the pod would be reported much later.

use super::{Check, text};
use crate::pod::{FactFile, FieldRef, ResourceFieldRef};
use crate::wire::{Path, Wire, read};
use serde_json::Value;
use std::collections::BTreeSet;

/// The container whose resources are exposed. Those of other containers belong to the control plane.
const COMPUTE: &str = "compute";
/// Fields of the metadata that a volume may expose, whole …
const WHOLE: [&str; 5] =
    ["metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations"];
/// … and those of which it may expose one entry.
const ENTRIES: [&str; 2] = ["metadata.labels['", "metadata.annotations['"];
/// Resources that a volume may expose.
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

pub(super) fn fields(fields: &[Value], at: &Path, check: &mut Check<'_>) -> Vec<Value> {
    let mut paths = BTreeSet::new();
    let mut result = Vec::new();
    for (i, value) in fields.iter().enumerate() {
        let here = at.index(i);
        let Ok(file) = read::<FactFile>(value.clone()) else {
            check.invalid(&here, format!("{here} must be a file as a pod's downwardAPI volume has it"));
            continue;
        };
        let path_at = here.child("path");
        if !text::is_clean(&format!("/{}", file.path)) || file.path.starts_with("..") {
            let message = format!("{path_at} must be a relative path without '..'");
            check.invalid(&path_at, message);
        } else if !paths.insert(file.path.clone()) {
            check.duplicate(&path_at, format!("{path_at} '{}' is given twice", file.path));
        }
        if file.mode.is_some_and(|mode| !(0..=0o777).contains(&mode)) {
            let at = here.child("mode");
            check.invalid(&at, format!("{at} must be from 0 to 0777 in octal"));
        }
        match (&file.field_ref, &file.resource_field_ref) {
            (Some(field), None) => field_of(field, &here.child("fieldRef"), check),
            (None, Some(resource)) => resource_of(resource, &here.child("resourceFieldRef"), check),
            _ => {
                check.invalid(&here, format!("{here} must have exactly one of fieldRef and resourceFieldRef"))
            }
        }
        result.push(file.write());
    }
    result
}

fn field_of(FieldRef { api_version: _, field_path, other: _ }: &FieldRef, at: &Path, check: &mut Check<'_>) {
    let entry = ENTRIES.iter().find_map(|start| field_path.strip_prefix(start)?.strip_suffix("']"));
    let is_entry = entry.is_some_and(|key| !key.is_empty() && !key.contains('\'') && key.len() <= 317);
    if !WHOLE.contains(&field_path.as_str()) && !is_entry {
        let at = at.child("fieldPath");
        let allowed = WHOLE.join(", ");
        check.not_supported(
            &at,
            format!(
                "{at} '{field_path}' is not supported. Supported: {allowed}, and one label or annotation"
            ),
        );
    }
}

fn resource_of(resource: &ResourceFieldRef, at: &Path, check: &mut Check<'_>) {
    let ResourceFieldRef { container_name, resource, divisor: _, other: _ } = resource;
    if container_name.as_deref() != Some(COMPUTE) {
        let at = at.child("containerName");
        check.invalid(&at, format!("{at} must be {COMPUTE}, the container with the guest"));
    }
    let name = resource.strip_prefix("limits.").or_else(|| resource.strip_prefix("requests."));
    if !name.is_some_and(|name| RESOURCES.contains(&name)) {
        let at = at.child("resource");
        let allowed = RESOURCES.join(", ");
        check.not_supported(
            &at,
            format!(
                "{at} '{resource}' is not supported. Supported: limits. or requests. and one of {allowed}"
            ),
        );
    }
}
