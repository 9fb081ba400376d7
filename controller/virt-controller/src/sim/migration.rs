//! A live migration, as its controller and its launchers do it: a second pod, the hand-over, and the arrival of the guest.

use super::others::{NODE, OTHER_NODE, OtherPrograms, guest_pod, uid};
use super::{Sim, is_going, is_over};
use api::launcher::Life;
use cluster_model::objects::{Key, Kind, LauncherAttempt, MIGRATION_JOB, names};
use serde_json::{Value, json};

/// Creates the target pod and hands it over, if a guest runs and does not migrate yet.
pub(crate) fn begin(sim: &mut Sim, others: &mut OtherPrograms, vmi: &Key) {
    let object = sim.get(vmi);
    let Some(source) = guest_pod(sim, vmi) else { return };
    let pod = sim.get(&source).clone();
    let runs = others.lives.get(&uid(&pod)) == Some(&Life::Running);
    let handed_over = object["status"]["activePods"].as_object().map_or(0, serde_json::Map::len);
    let is_ready = object["status"]["phase"] == "Running" && handed_over == 1 && pod_count(sim, vmi) == 1;
    if !runs || is_going(object) || is_going(&pod) || !is_ready {
        return;
    }
    let migration = format!("m{}", sim.version);
    let name = names::pod(&vmi.name, &uid(object), LauncherAttempt::Migration(&migration));
    let from = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    let to = if from == NODE { OTHER_NODE } else { NODE };
    let mut target = pod;
    for own in ["uid", "resourceVersion", "creationTimestamp", "finalizers"] {
        target["metadata"].as_object_mut().unwrap().remove(own);
    }
    target["metadata"]["name"] = json!(name);
    target["metadata"]["labels"][MIGRATION_JOB] = json!(migration);
    target["spec"]["nodeName"] = json!(to);
    let target = sim.put(Kind::Pod, target);
    let target_uid = uid(sim.get(&target));
    others.lives.insert(target_uid.clone(), Life::Empty);
    let state = json!({
        "migrationUid": migration, "sourcePod": source.name, "sourceNode": from, "targetPod": target.name, "targetNode": to,
        "completed": null, "failed": null,
    });
    sim.change(vmi, json!({"status": {"migrationState": state, "activePods": {target_uid: to}}}));
}

/// The guest arrives at the target, and the source's launcher ends; or the target's does, and the guest stays.
pub(crate) fn end(sim: &mut Sim, others: &mut OtherPrograms, vmi: &Key, arrives: bool) {
    let state = sim.get(vmi)["status"]["migrationState"].clone();
    let pod = |end: &str| Key::new(Kind::Pod, &vmi.namespace, state[end].as_str().unwrap_or_default());
    let (source, target) = (pod("sourcePod"), pod("targetPod"));
    if state["completed"] == true || guest_pod(sim, vmi).as_ref() != Some(&source) {
        return;
    }
    let life = |key: &Key| sim.objects.get(key).and_then(|pod| others.lives.get(&uid(pod))).copied();
    let can_arrive = (life(&source), life(&target)) == (Some(Life::Running), Some(Life::Empty))
        && sim.objects.get(&target).is_some_and(|pod| !is_over(pod) && !is_going(pod));
    if !(arrives && can_arrive) {
        sim.delete(&target);
        return sim.change(vmi, json!({"status": {"migrationState": {"completed": true, "failed": true}}}));
    }
    let uid_of = |key: &Key| uid(sim.get(key));
    let (source, target) = (uid_of(&source), uid_of(&target));
    others.lives.insert(source, Life::Succeeded);
    others.lives.insert(target, Life::Running);
    let to = &state["targetNode"];
    sim.change(
        vmi,
        json!({
            "metadata": {"labels": {"kubevirt.io/nodeName": to}},
            "status": {"nodeName": to, "migrationState": {"completed": true}},
        }),
    );
}

/// Number of pods of a VMI that have not ended.
fn pod_count(sim: &Sim, vmi: &Key) -> usize {
    let of = uid(sim.get(vmi));
    let is_its = |pod: &Value| pod["metadata"]["labels"]["kubevirt.io/created-by"] == of && !is_over(pod);
    sim.objects.iter().filter(|(key, pod)| key.kind == Kind::Pod && is_its(pod)).count()
}
