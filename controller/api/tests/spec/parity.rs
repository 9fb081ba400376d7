//! Every field of the specs that people write, and what becomes of it: `docs/reference/parity.tsv`, made of what the checks
//! do and of the lists that programs read; `UPDATE_GOLDEN=1` writes it anew. A field may be without effect only where
//! whoever sets it is told, with the reason.

use crate::inventory::Inventory;
use crate::judged::{self, Verdict};
use crate::settings;
use api::kubevirt::served::{Served, entry_of};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What becomes of the fields of the objects that hold a VMI's spec: no check of this package is about them. One
/// with a point at its end is about all below it.
const AROUND: &[(&str, &str, &str)] = &[
    ("VirtualMachineSpec", "running", "served"),
    ("VirtualMachineSpec", "runStrategy", "served: all but WaitAsReceiver, which needs live migration"),
    ("VirtualMachineSpec", "instancetype.", "served"),
    ("VirtualMachineSpec", "preference.", "served"),
    ("VirtualMachineSpec", "template.", "served: as VirtualMachineInstanceSpec says"),
    ("VirtualMachineSpec", "dataVolumeTemplates[]", "served"),
    (
        "VirtualMachineSpec",
        "updateVolumesStrategy",
        "served: Replacement; Migration is refused, since volumes do not move while a VMI runs",
    ),
    ("VirtualMachineInstanceReplicaSetSpec", "replicas", "served"),
    ("VirtualMachineInstanceReplicaSetSpec", "selector", "served"),
    ("VirtualMachineInstanceReplicaSetSpec", "template.", "served: as VirtualMachineInstanceSpec says"),
    ("VirtualMachineInstanceReplicaSetSpec", "paused", "served"),
    ("VirtualMachinePoolSpec", "replicas", "served"),
    ("VirtualMachinePoolSpec", "selector", "served"),
    (
        "VirtualMachinePoolSpec",
        "virtualMachineTemplate.",
        "served: as VirtualMachineSpec says; of metadata the labels and annotations",
    ),
    ("VirtualMachinePoolSpec", "paused", "served"),
    ("VirtualMachinePoolSpec", "nameGeneration.", "served"),
    ("VirtualMachinePoolSpec", "maxUnavailable", "served"),
    (
        "VirtualMachinePoolSpec",
        "scaleInStrategy.opportunistic.statePreservation",
        "served: Disabled; others are refused: the DataVolumes of a VM are deleted with it",
    ),
    (
        "VirtualMachinePoolSpec",
        "scaleInStrategy.proactive.statePreservation",
        "served: Disabled; others are refused: the DataVolumes of a VM are deleted with it",
    ),
    ("VirtualMachinePoolSpec", "scaleInStrategy.", "served"),
    ("VirtualMachinePoolSpec", "updateStrategy.", "served"),
    ("VirtualMachinePoolSpec", "autohealing.", "served"),
];

#[test]
fn no_field_is_without_effect_and_without_a_word() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/parity.tsv");
    let expected = table();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == expected,
        "docs/reference/parity.tsv is not what the checks do: UPDATE_GOLDEN=1 writes it anew"
    );
    for line in found.lines().skip(1) {
        let what = line.split('\t').nth(2).unwrap_or_default();
        let (verdict, reason) = what.split_once(": ").unwrap_or((what, ""));
        let is_told = verdict.starts_with("served")
            || verdict.starts_with("not served, as a warning")
            || verdict == "refused";
        assert!(is_told && (verdict.starts_with("served") || !reason.is_empty()), "{line}");
    }
}

fn table() -> String {
    let mut rows = vec!["object\tfield\twhat becomes of it\n".to_owned()];
    let mut row = |object: &str, field: &str, what: &str| rows.push(format!("{object}\t{field}\t{what}\n"));
    for (field, laptop, cluster) in judged::verdicts() {
        row("VirtualMachineInstanceSpec", &field, &of_a_vmi(&laptop, &cluster));
    }
    let mut used = BTreeSet::new();
    for object in ["VirtualMachineSpec", "VirtualMachineInstanceReplicaSetSpec", "VirtualMachinePoolSpec"] {
        for field in around(object) {
            let about = |part: &str| field == part || judged::begins(&field, part);
            let said = AROUND.iter().find(|(of, part, _)| *of == object && about(part));
            let (_, part, what) = said.unwrap_or_else(|| panic!("nothing is said of {object}.{field}"));
            used.insert((object, *part));
            row(object, &field, what);
        }
    }
    let stale = AROUND.iter().find(|(object, part, _)| !used.contains(&(*object, *part)));
    assert_eq!(stale, None, "is in the list for nothing");
    row("VirtualMachineInstancePresetSpec", "selector", "served");
    for (field, sample) in judged::leaves().into_iter().filter(|(field, _)| field.starts_with("domain.")) {
        row("VirtualMachineInstancePresetSpec", &field, of_a_preset(&field, sample));
    }
    for (object, list, leaves, _) in settings::lists() {
        for (field, _) in leaves {
            let (_, served) =
                entry_of(list, &field).unwrap_or_else(|| panic!("nothing is said of {object}.{field}"));
            row(object, &field, &of_a_setting(served));
        }
    }
    rows.concat()
}

fn of_a_vmi(laptop: &Verdict, cluster: &Verdict) -> String {
    let one = |verdict: &Verdict| match verdict {
        Verdict::Supported => "served".to_owned(),
        Verdict::Fixed(value) => format!("served: {value}"),
        Verdict::Left(whose) => format!("served by {whose}"),
        Verdict::Refused(_, reason) => format!("refused: {reason}"),
    };
    if laptop == cluster { one(cluster) } else { format!("{}; on a laptop {}", one(cluster), one(laptop)) }
}

/// What becomes of a field of a preset's domain.
fn of_a_preset(field: &str, sample: Value) -> &'static str {
    let spec = field.rsplit('.').fold(sample, |inner, name| match name.strip_suffix("[]") {
        Some(list) => json!({list: [inner]}),
        None => json!({name: inner}),
    });
    let object = json!({"metadata": {"name": "a"}, "spec": spec});
    let preset = api::wire::read(object).unwrap_or_else(|faults| panic!("{field}: {faults:?}"));
    if api::preset::warnings(&preset).is_empty() {
        "served"
    } else {
        "not served, as a warning tells: a VMI has it of its own spec"
    }
}

fn of_a_setting(served: &Served) -> String {
    match served {
        Served::Yes => "served".to_owned(),
        Served::Values(values) => {
            format!("served: {}; of others a warning and a condition tell", values.join(", "))
        }
        Served::Entries(name, known) => {
            format!(
                "served: entries whose {name} is {}; of others a warning and a condition tell",
                known.join(", ")
            )
        }
        Served::No(why) => format!("not served, as a warning and a condition tell: {why}"),
    }
}

/// The fields of an object that holds a VMI's spec, down to that spec.
fn around(object: &str) -> Vec<String> {
    let mut leaves = Vec::new();
    judged::walk(&Inventory::read(), object, "", &mut leaves);
    let parts = ["template.", "dataVolumeTemplates[].", "virtualMachineTemplate."];
    let is_below = |field: &str| parts.iter().any(|part| field.starts_with(part));
    let mut fields: Vec<String> = leaves.into_iter().map(|(field, _)| field).collect();
    let inner = parts.iter().find(|part| fields.iter().any(|field| field.starts_with(**part)));
    let inner = inner.map(|part| part.trim_end_matches('.').to_owned());
    fields.retain(|field| !is_below(field));
    fields.extend(inner.into_iter().flat_map(|inner| [format!("{inner}.metadata"), format!("{inner}.spec")]));
    if object == "VirtualMachineSpec" {
        fields.push("dataVolumeTemplates[]".to_owned());
    }
    fields
}
