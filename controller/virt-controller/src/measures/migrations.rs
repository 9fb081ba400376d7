//! Live migrations: how many there are in each phase, which have ended and how, and the times of the last one of each VMI.

use super::{OTHER, names, seconds, vmis};
use crate::migration::phase as phase_of;
use api::migration::Phase;
use api::vmi::MigrationState;
use cluster_client::metrics::Page;
use cluster_model::metrics::cut;
use cluster_model::objects::World;

/// Gauges of migrations that have not ended, as upstream groups their phases.
const PHASES: [&str; 4] = [
    "kubevirt_vmi_migrations_in_pending_phase",
    "kubevirt_vmi_migrations_in_scheduling_phase",
    "kubevirt_vmi_migrations_in_running_phase",
    "kubevirt_vmi_migrations_in_unset_phase",
];

pub(super) fn write(page: &mut Page, world: &World) {
    let mut counts = [0_u64; PHASES.len()];
    for migration in world.migrations.all() {
        let count = gauge(&phase_of(migration)).and_then(|place| counts.get_mut(place));
        count.into_iter().for_each(|count| *count += 1);
    }
    for (name, count) in PHASES.into_iter().zip(counts) {
        page.family(name).sample(&[], count as f64);
    }
    for (name, phase) in [
        ("kubevirt_vmi_migration_succeeded", Phase::Succeeded),
        ("kubevirt_vmi_migration_failed", Phase::Failed),
    ] {
        let mut family = page.family(name);
        for migration in world.migrations.all().filter(|migration| phase_of(migration) == phase) {
            let [namespace, (_, vmim)] = names(&migration.metadata);
            let vmi = cut(&migration.spec.vmi_name);
            family.sample(&[namespace, ("vmi", &vmi), ("vmim", vmim)], 1.0);
        }
    }
    times(page, world);
}

/// Start and end of the last migration of each VMI.
fn times(page: &mut Page, world: &World) {
    type Time = fn(&MigrationState) -> Option<&String>;
    let all: [(&str, Time); 2] = [
        ("kubevirt_vmi_migration_start_time_seconds", |state| state.start_timestamp.as_ref()),
        ("kubevirt_vmi_migration_end_time_seconds", |state| state.end_timestamp.as_ref()),
    ];
    for (index, (name, time)) in all.into_iter().enumerate() {
        let mut family = page.family(name);
        for vmi in world.vmis.all() {
            let state = vmi.status.as_ref().and_then(|status| status.migration_state.as_ref());
            let Some(state) = state else { continue };
            let Some(time) = seconds(time(state).map(String::as_str)) else { continue };
            let (meta, node) = (&vmi.metadata, vmis::node(vmi));
            let vmi = meta.name.as_deref().unwrap_or_default();
            let namespace = meta.namespace.as_deref().unwrap_or_default();
            let mut of_vmi = cluster_model::objects::migrations_of(world, namespace, vmi);
            let object = of_vmi.find(|object| object.metadata.uid == state.migration_uid);
            let migration = object.and_then(|object| object.metadata.name.as_deref()).unwrap_or_default();
            let mut labels = names(meta).to_vec();
            labels.extend([("node", node.as_str()), ("migration_name", migration)]);
            if index == 1 {
                labels.push(("status", result(state)));
            }
            family.sample(&labels, time);
        }
    }
}

/// Result of a migration, as a label.
fn result(state: &MigrationState) -> &'static str {
    match (state.completed == Some(true), state.failed == Some(true)) {
        (false, _) => "",
        (true, true) => "failed",
        (true, false) => "succeeded",
    }
}

/// Place in [`PHASES`]; `None` for a migration that has ended.
fn gauge(phase: &Phase) -> Option<usize> {
    match phase {
        Phase::Pending => Some(0),
        Phase::Scheduling => Some(1),
        Phase::Scheduled
        | Phase::PreparingTarget
        | Phase::TargetReady
        | Phase::Running
        | Phase::WaitingForSync
        | Phase::Synchronizing => Some(2),
        Phase::Succeeded | Phase::Failed => None,
        Phase::Other(_) => Some(3),
    }
}

/// Phase of a migration as a label.
pub(super) fn phase(phase: &Phase) -> &str {
    match phase {
        Phase::Other(word) if !word.is_empty() => OTHER,
        known => known.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::Times;
    use crate::sim::{Sim, vmi};
    use api::migration::VirtualMachineInstanceMigration;
    use cluster_model::objects::Kind;
    use serde_json::{Value, json};

    fn migration(name: &str, uid: &str, status: &Value) -> Value {
        json!({
            "metadata": {
                "namespace": "n", "name": name, "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"kubevirt.io/vmi-name": "web"},
            },
            "spec": {"vmiName": "web"},
            "status": status,
        })
    }

    fn text(sim: &Sim) -> String {
        let mut page = Page::default();
        write(&mut page, &sim.world);
        page.text()
    }

    fn has(text: &str, lines: &[String]) {
        for line in lines {
            assert!(text.lines().any(|other| other == line), "{line}\n{text}");
        }
    }

    #[test]
    fn each_phase_is_counted_in_one_gauge_and_ends_are_told_by_the_names_of_their_objects() {
        let mut sim = Sim::new();
        let phases = [
            "",
            "Pending",
            "Pending",
            "Scheduling",
            "Scheduled",
            "PreparingTarget",
            "TargetReady",
            "Running",
            "WaitingForSync",
            "Synchronizing",
            "Succeeded",
            "Failed",
        ];
        for (number, phase) in phases.into_iter().enumerate() {
            let object =
                migration(&format!("move-{number}"), &format!("m{number}"), &json!({"phase": phase}));
            sim.put(Kind::VirtualMachineInstanceMigration, object);
        }
        let text = text(&sim);
        let counts = [("pending", 2), ("scheduling", 1), ("running", 6), ("unset", 1)];
        let gauges = counts.map(|(name, count)| format!("kubevirt_vmi_migrations_in_{name}_phase {count}"));
        has(&text, &gauges);
        let end = |end: &str, name: &str| {
            format!("kubevirt_vmi_migration_{end}{{namespace=\"n\",vmi=\"web\",vmim=\"{name}\"}} 1")
        };
        has(&text, &[end("succeeded", "move-10"), end("failed", "move-11")]);
        assert_eq!(text.matches("vmim=").count(), 2, "{text}");
    }

    #[test]
    fn the_times_of_the_last_migration_are_told_with_its_name_and_its_result() {
        for (end, status) in [
            (json!({}), None),
            (json!({"endTimestamp": "2026-01-01T00:00:20Z"}), Some("")),
            (json!({"endTimestamp": "2026-01-01T00:00:20Z", "completed": true}), Some("succeeded")),
            (
                json!({"endTimestamp": "2026-01-01T00:00:20Z", "completed": true, "failed": true}),
                Some("failed"),
            ),
        ] {
            let mut sim = Sim::new();
            let mut object = vmi("web");
            let first = sim.put(Kind::VirtualMachineInstanceMigration, migration("move-1", "m1", &json!({})));
            sim.put(Kind::VirtualMachineInstanceMigration, migration("move-2", "m2", &json!({})));
            let uid = sim.uid(&first);
            let mut state = json!({"migrationUid": uid, "startTimestamp": "2026-01-01T00:00:10Z"});
            cluster_model::plan::merge(&mut state, &end);
            object["status"] = json!({"phase": "Running", "nodeName": "node2", "migrationState": state});
            sim.put(Kind::VirtualMachineInstance, object);
            let text = text(&sim);
            let of = "namespace=\"n\",name=\"web\",node=\"node2\",migration_name=\"move-1\"";
            has(&text, &[format!("kubevirt_vmi_migration_start_time_seconds{{{of}}} 1767225610")]);
            let end = |status| {
                format!("kubevirt_vmi_migration_end_time_seconds{{{of},status=\"{status}\"}} 1767225620")
            };
            has(&text, &status.map(end).into_iter().collect::<Vec<_>>());
            assert_eq!(text.contains("end_time_seconds{"), status.is_some(), "{text}");
        }
    }

    #[test]
    fn the_time_from_creation_until_each_phase_is_counted_once() {
        let object = |phases: &[(&str, u32)]| -> VirtualMachineInstanceMigration {
            let step = |(phase, second): &(&str, u32)| json!({"phase": phase, "phaseTransitionTimestamp": format!("2026-01-01T00:00:{second:02}Z")});
            let steps: Vec<Value> = phases.iter().map(step).collect();
            let status =
                json!({"phase": phases.last().map(|(phase, _)| *phase), "phaseTransitionTimestamps": steps});
            api::wire::read(migration("move-1", "m1", &status)).unwrap()
        };
        let mut times = Times::default();
        let (begin, all) = ([("Pending", 1)], [("Pending", 1), ("Scheduling", 3), ("Scheduled", 4)]);
        times.record_migration(&object(&[]), &object(&begin));
        times.record_migration(&object(&begin), &object(&all));
        times.record_migration(&object(&all), &object(&all));
        let mut page = Page::default();
        let name = "kubevirt_vmi_migration_phase_transition_time_from_creation_seconds";
        page.histogram(name, &times.migrations);
        let text = page.text();
        for (phase, sum) in [("Pending", 1), ("Scheduling", 3), ("Scheduled", 4)] {
            has(
                &text,
                &[
                    format!("{name}_sum{{phase=\"{phase}\"}} {sum}"),
                    format!("{name}_count{{phase=\"{phase}\"}} 1"),
                ],
            );
        }
    }
}
