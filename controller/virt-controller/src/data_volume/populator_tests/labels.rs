//! Labels of an image that a VolumeImportSource names.

use super::*;
use crate::sim::others::worker_reports;
use api::job::Report;

const INSTANCE_TYPE: &str = "instancetype.kubevirt.io/default-instancetype";
const PREFERENCE: &str = "instancetype.kubevirt.io/default-preference";

/// The prime goes with the hand-over, and VMs infer their instance type from the PVC.
#[test]
fn the_labels_of_an_image_are_on_the_pvc_that_names_its_source() {
    let mut sim = wanted("Immediate", Kind::VolumeImportSource);
    sim.change(&target(), json!({"metadata": {"labels": {PREFERENCE: "mine"}}}));
    is_bound(&mut sim);
    runs(&mut sim);
    let labels = [(INSTANCE_TYPE, "u1.small"), (PREFERENCE, "fedora"), ("app", "theirs")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let worker = pod(&sim);
    worker_reports(&mut sim, &worker, 0, &Report { stage: Stage::Done, labels, ..Report::default() });
    sim.settle();
    is_handed_over(&mut sim);
    let labels = &sim.get(&target())["metadata"]["labels"];
    assert_eq!((&labels[INSTANCE_TYPE], &labels[PREFERENCE]), (&json!("u1.small"), &json!("mine")));
    assert!(labels["app"].is_null(), "the author of the image chose it");
}
