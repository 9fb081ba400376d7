//! A source that is a block device of several nodes: the writes of another node are in no counter of the node that serves it.

use super::*;

/// A clone into a file system whose source is a block device with these access modes, and whose volume has those.
fn of_device(modes: &Value, of_volume: &Value) -> Sim {
    let mut sim = cluster();
    let spec =
        json!({"accessModes": modes, "volumeMode": "Block", "resources": {"requests": {"storage": "1Gi"}}});
    sim.change(&golden(), json!({"spec": spec, "status": {"accessModes": of_volume}}));
    let mut spec = pvc(S);
    spec["storage"] = json!({"volumeMode": "Filesystem", "accessModes": ["ReadWriteOnce"]});
    let object = volume(&sim, spec);
    sim.put(Kind::DataVolume, object);
    sim.settle();
    bound(&mut sim);
    let pod = source_pod(&sim);
    runs(&mut sim, &pod, "cdi-clone-source");
    runs(&mut sim, &importer(), "importer");
    sim
}

/// The next source pod cannot know what another node wrote meanwhile, so one pod serves all of the disk.
#[test]
fn a_device_of_several_nodes_is_served_by_one_pod_and_in_no_other_version() {
    let (one, many) = (json!(["ReadWriteOnce"]), json!(["ReadWriteMany"]));
    for (modes, of_volume, is_shared) in [(&one, &one, false), (&many, &many, true), (&one, &many, true)] {
        let sim = of_device(modes, of_volume);
        let env = &sim.get(&source_pod(&sim))["spec"]["containers"][0]["env"];
        let job: Serve = serde_json::from_str(env[0]["value"].as_str().unwrap()).unwrap();
        assert_eq!(job.is_shared, is_shared, "{modes} {of_volume}");
        assert_eq!(hours(&sim) >= 23, is_shared, "{modes} {of_volume}: {}", hours(&sim));
    }
}

#[test]
fn a_clone_of_a_device_of_several_nodes_that_takes_longer_than_a_day_has_failed() {
    let many = json!(["ReadWriteMany"]);
    let mut sim = of_device(&many, &many);
    sim.advance(24 * 3600);
    let pod = source_pod(&sim);
    worker_is_late(&mut sim, &pod);
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Failed", "CloneTooLong"));
    assert!(said(&sim, "Running").2.contains("ReadWriteMany"), "{:?}", said(&sim, "Running"));
}
