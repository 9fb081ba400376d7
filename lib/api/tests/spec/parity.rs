//! Every field of the specs that people write, and what becomes of it: `docs/reference/parity.tsv`, made of what the checks
//! do and of the lists that programs read; `UPDATE_GOLDEN=1` writes it anew. A field may be without effect only where
//! whoever sets it is told, with the reason. A field that is drawn into the domain, and of which the rest is not done, is served in
//! part ([`IN_PART`]).

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
        "served: Migration copies the disks with a live migration; a change of the volume mode is refused",
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

/// Fields of a VMI that its domain is drawn with, and of which upstream does more.
const IN_PART: &[(&str, &str)] = &[
    ("domain.cpu.maxSockets", "the domain has room for the sockets; none is added while the VMI runs"),
    ("domain.memory.maxGuest", "the domain has room for the memory; none is added while the VMI runs"),
    (
        "domain.devices.interfaces[].state",
        "as it is when the VMI starts; neither link nor interface changes while the VMI runs",
    ),
];

const OF_VMI: &str = "served: as the field of VirtualMachineInstanceSpec that it becomes";
const REFUSED_OF_VMI: &str =
    "refused: by the VM that names it, as launchSecurity of VirtualMachineInstanceSpec";
const FOREIGN: &str =
    "refused: nothing is imported from oVirt or vSphere directly; import a file of the disk";
const STAGED: &str = "refused: a disk is imported in one stage; leave it out";
const NO_STREAMS: &str =
    "not served, as a warning and a condition tell: image streams are OpenShift's; name the image by its url";
const NO_OTHER_CLUSTER: &str = "refused: migration between clusters is not supported";
const NO_TRANSFER: &str =
    "refused: no object is moved to another name or namespace; clone it, and delete the source";

/// Parts of an object, and what becomes of each.
type Parts = &'static [(&'static str, &'static str)];

/// Kinds of whose specs no check of this package is: a part of an object as in [`AROUND`], by the name of its struct in the
/// inventory.
const KINDS: &[(&str, &str, Parts)] = &[
    (
        "DataVolumeSpec",
        "cdi.DataVolumeSpec",
        &[
            ("source.imageio.", FOREIGN),
            ("source.vddk.", FOREIGN),
            ("source.registry.imageStream", NO_STREAMS),
            ("source.", "served"),
            ("sourceRef.", "served"),
            ("pvc", "served"),
            ("storage.", "served"),
            ("priorityClassName", "served"),
            ("serviceAccountName", "served"),
            ("contentType", "served"),
            ("checkpoints[].", STAGED),
            ("finalCheckpoint", STAGED),
            ("preallocation", "served"),
        ],
    ),
    (
        "VolumeImportSourceSpec",
        "cdi.VolumeImportSourceSpec",
        &[
            ("source.imageio.", FOREIGN),
            ("source.vddk.", FOREIGN),
            ("source.registry.imageStream", NO_STREAMS),
            ("source.", "served"),
            ("preallocation", "served"),
            ("contentType", "served"),
            ("targetClaim", STAGED),
            ("checkpoints[].", STAGED),
            ("finalCheckpoint", STAGED),
        ],
    ),
    (
        "VolumeUploadSourceSpec",
        "cdi.VolumeUploadSourceSpec",
        &[("contentType", "served"), ("preallocation", "served")],
    ),
    (
        "VolumeCloneSourceSpec",
        "cdi.VolumeCloneSourceSpec",
        &[("source", "served"), ("preallocation", "served"), ("priorityClassName", "served")],
    ),
    (
        "StorageProfileSpec",
        "cdi.StorageProfileSpec",
        &[
            (
                "cloneStrategy",
                "served in part: of a PVC no snapshot is taken; snapshot makes a copy, and an event of the DataVolume says why",
            ),
            ("claimPropertySets[].", "served"),
            (
                "dataImportCronSourceFormat",
                "served in part: pvc; a DataImportCron keeps PVCs whatever is said",
            ),
            ("snapshotClass", "served in part: a VolumeSnapshot is restored with it; none is taken"),
        ],
    ),
    (
        "DataSourceSpec",
        "cdi.DataSourceSpec",
        &[
            (
                "source.snapshot.",
                "served in part: a DataVolume is made of it; no condition says whether the snapshot is ready",
            ),
            ("source.", "served"),
        ],
    ),
    (
        "DataImportCronSpec",
        "cdi.DataImportCronSpec",
        &[
            ("template.", "served: sources registry, http, s3 and pvc; of others a condition tells"),
            ("schedule", "served"),
            ("garbageCollect", "served"),
            ("importsToKeep", "served"),
            ("managedDataSource", "served"),
            ("retentionPolicy", "served"),
            (
                "serviceAccountName",
                "not served, as a warning and a condition tell: image streams are OpenShift's, and only they need it",
            ),
        ],
    ),
    (
        "ObjectTransferSpec",
        "cdi.ObjectTransferSpec",
        &[("source.", NO_TRANSFER), ("target.", NO_TRANSFER), ("parentName", NO_TRANSFER)],
    ),
    (
        "VirtualMachineInstanceMigrationSpec",
        "VirtualMachineInstanceMigrationSpec",
        &[
            ("vmiName", "served"),
            ("addedNodeSelector", "served"),
            ("sendTo.", NO_OTHER_CLUSTER),
            ("receive.", NO_OTHER_CLUSTER),
            ("priority", "served: virt-controller alone sets it"),
        ],
    ),
    (
        "VirtualMachineInstancetypeSpec",
        "VirtualMachineInstancetypeSpec",
        &[
            ("cpu.maxSockets", "served in part: as domain.cpu.maxSockets of VirtualMachineInstanceSpec"),
            ("memory.maxGuest", "served in part: as domain.memory.maxGuest of VirtualMachineInstanceSpec"),
            ("launchSecurity.", REFUSED_OF_VMI),
            ("annotations", "served: annotations of the VMI"),
            ("cpu.", OF_VMI),
            ("memory.", OF_VMI),
            ("gpus[].", OF_VMI),
            ("hostDevices[].", OF_VMI),
            ("ioThreadsPolicy", OF_VMI),
            ("ioThreads.", OF_VMI),
            ("nodeSelector", OF_VMI),
            ("schedulerName", OF_VMI),
        ],
    ),
    (
        "VirtualMachinePreferenceSpec",
        "VirtualMachinePreferenceSpec",
        &[
            ("preferredLaunchSecurity.", REFUSED_OF_VMI),
            ("annotations", "served: annotations of the VMI"),
            ("requirements.", "served: a VM with less is refused"),
            ("volumes.preferredStorageClassName", "served: the StorageClass of dataVolumeTemplates"),
            ("preferSpreadSocketToCoreRatio", "served: the ratio of spread, which spreadOptions overrides"),
            ("clock.", OF_VMI),
            ("cpu.", OF_VMI),
            ("devices.", OF_VMI),
            ("features.", OF_VMI),
            ("firmware.", OF_VMI),
            ("machine.", OF_VMI),
            ("preferredSubdomain", OF_VMI),
            ("preferredTerminationGracePeriodSeconds", OF_VMI),
            ("preferredArchitecture", OF_VMI),
        ],
    ),
];

#[test]
fn every_kind_stands_in_the_table() {
    let table = table();
    let has = |object: &str| table.lines().any(|line| line.starts_with(&format!("{object}\t")));
    let missing: Vec<&str> = api::crd::KINDS
        .iter()
        .map(|kind| kind.kind)
        // Those of the cluster have the spec of those of a namespace.
        .filter(|kind| !has(&format!("{}Spec", kind.replace("Cluster", ""))))
        .collect();
    assert_eq!(missing, [""; 0], "kinds without a row");
}

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
        let part = IN_PART.iter().find(|(part, _)| *part == field);
        let what = match (part, of_a_vmi(&laptop, &cluster)) {
            (None, what) => what,
            (Some((_, rest)), what) if what.starts_with("served") => {
                let laptop = what
                    .split_once("; on a laptop")
                    .map_or(String::new(), |(_, laptop)| format!("; on a laptop{laptop}"));
                format!("served in part: {rest}{laptop}")
            }
            (Some(_), what) => panic!("{field} is {what}, and in the list of what is served in part"),
        };
        row("VirtualMachineInstanceSpec", &field, &what);
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
    for (object, name, list) in KINDS {
        let (mut leaves, mut used) = (Vec::new(), BTreeSet::new());
        judged::walk(&Inventory::read(), name, "", &mut leaves);
        assert!(!leaves.is_empty(), "the inventory has no {name}");
        for (field, _) in leaves {
            let about = |part: &str| field == part || judged::begins(&field, part);
            let said = list.iter().find(|(part, _)| about(part));
            let (part, what) = said.unwrap_or_else(|| panic!("nothing is said of {object}.{field}"));
            used.insert(*part);
            row(object, &field, what);
        }
        let stale: Vec<_> = list.iter().filter(|(part, _)| !used.contains(part)).collect();
        assert!(stale.is_empty(), "{object}: {stale:?} is in the list for nothing");
    }
    row("VirtualMachineInstancePresetSpec", "selector", "served");
    for (field, sample) in judged::leaves().into_iter().filter(|(field, _)| field.starts_with("domain.")) {
        row("VirtualMachineInstancePresetSpec", &field, of_a_preset(&field, sample));
    }
    for (object, list, leaves, _) in settings::lists() {
        for (field, _) in leaves {
            let (_, served) =
                entry_of(list, &field).unwrap_or_else(|| panic!("nothing is said of {object}.{field}"));
            // A policy has no condition.
            let told = if object == "MigrationPolicySpec" {
                "a warning tells"
            } else {
                "a warning and a condition tell"
            };
            row(object, &field, &of_a_setting(served, told));
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

fn of_a_setting(served: &Served, told: &str) -> String {
    match served {
        Served::Yes => "served".to_owned(),
        Served::Values(values) => format!("served: {}; of others {told}", values.join(", ")),
        Served::Entries(name, known) => {
            format!("served: entries whose {name} is {}; of others {told}", known.join(", "))
        }
        Served::No(why) => format!("not served, as {told}: {why}"),
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
