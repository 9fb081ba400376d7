//! Exports of PVCs, from the annotations of their answers.
//!
//! A user who may annotate a PVC may write such an answer, too. So only a known phase and a number up to 100
//! are counted.

use api::cdi::annotations::{EXPORT_PHASE, EXPORT_PROGRESS};
use cluster_client::metrics::Page;
use cluster_model::objects::{PersistentVolumeClaim, World};

const PHASES: [&str; 4] = ["Pending", "Running", "Succeeded", "Failed"];

pub(super) fn write(page: &mut Page, world: &World) {
    let mut family = page.family("coracle_cdi_exports");
    for phase in PHASES {
        let count = world.pvcs.all().filter(|claim| is_in(claim, phase)).count();
        family.sample(&[("phase", phase)], count as f64);
    }
    let mut family = page.family("coracle_cdi_export_progress_total");
    for claim in world.pvcs.all().filter(|claim| is_in(claim, "Running")) {
        if let (Some(percent), Some(owner)) = (percent(claim), claim.meta.uid.as_deref()) {
            family.sample(&[("ownerUID", owner)], f64::from(percent));
        }
    }
}

fn is_in(claim: &PersistentVolumeClaim, phase: &str) -> bool {
    claim.meta.annotations.get(EXPORT_PHASE).is_some_and(|said| said == phase)
}

fn percent(claim: &PersistentVolumeClaim) -> Option<u8> {
    let said = claim.meta.annotations.get(EXPORT_PROGRESS)?;
    said.strip_suffix('%')?.parse().ok().filter(|percent| *percent <= 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Sim;
    use cluster_model::objects::{Key, Kind};
    use serde_json::json;

    #[test]
    fn exports_are_counted_by_phase_and_those_that_run_say_how_far_they_are() {
        let mut sim = Sim::new();
        for (name, phase, progress) in [
            ("a", "Running", "33%"),
            ("b", "Running", "1000%"),
            ("c", "Failed", "50%"),
            ("d", "Succeeded", "100%"),
            ("e", "some other", "1%"),
        ] {
            let notes = json!({EXPORT_PHASE: phase, EXPORT_PROGRESS: progress});
            let meta = json!({"namespace": "n", "name": name, "annotations": notes});
            sim.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": {}}));
        }
        let mut page = Page::default();
        write(&mut page, &sim.world);
        let text = page.text();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let uid = &sim.get(&Key::new(Kind::PersistentVolumeClaim, "n", "a"))["metadata"]["uid"];
        let runs = format!("coracle_cdi_export_progress_total{{ownerUID={uid}}} 33");
        assert_eq!(
            lines,
            [
                "coracle_cdi_exports{phase=\"Pending\"} 0",
                "coracle_cdi_exports{phase=\"Running\"} 2",
                "coracle_cdi_exports{phase=\"Succeeded\"} 1",
                "coracle_cdi_exports{phase=\"Failed\"} 1",
                &runs,
            ]
        );
    }
}
