//! What people want and what happens, and what goes wrong.

use super::door::admitted;
use super::migration::MigrationEnd;
use super::others::{OtherPrograms, is_worker, worker_ends, worker_is_late};
use super::{
    Sim, blank, data_volume, data_volume_spec, is_going, is_over, migration, others, replica_set, vm,
    vm_with_disk, vmi,
};
use api::cdi::annotations::EXPORT_TARGET;
use api::job::Stage;
use api::launcher::Life;
use cluster_model::clones::SOURCE;
use cluster_model::objects::{Key, Kind};
use cluster_model::uploads::{TARGET, UPLOADER};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The VMs of a history; the second has a disk that is filled first.
pub(super) const VMS: [&str; 2] = ["first", "second"];
/// A VMI without a VM, on a PVC.
const ALONE: &str = "alone";
/// A clone of its PVC.
const COPY: &str = "copied";
/// A replica set.
const SET: &str = "flock";

/// Something that people want, or that happens. `usize` is whom it happens to.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// A VM is to run so; it is made if it is not there.
    Vm(usize, &'static str),
    /// It is asked for: `Start`, `Stop`, or both.
    Ask(usize, &'static [&'static str]),
    /// Its template is another.
    Template(usize, &'static str),
    /// The work of those who fill disks ends so, or does not end.
    Work(Option<Stage>),
    /// The pod that fills a disk is killed, or taken away.
    Worker(bool),
    /// A DataVolume that takes an upload is made, or a PVC without one.
    Takes(bool),
    /// That is deleted.
    Drop(bool),
    /// The export of that is asked for, or no more.
    Export(bool, bool),
    /// The certificates of the upload pods and of the source pods are about to end.
    Late,
    /// A clone of the claim is made, or deleted.
    Clone(bool),
    /// The VMI without a VM is made.
    Alone,
    /// Its claim is there, or not.
    Claim(bool),
    /// The replica set has so many; it is made if it is not there.
    Scale(u8),
    Pause(bool),
    /// A VM, the VMI without one, or the replica set is deleted; what it has made may be left.
    Delete(usize, bool),
    /// A VMI is deleted, whosever it is.
    End(usize),
    /// A guest ends by itself, well or not.
    Guest(usize, bool),
    /// The next starts fail.
    Fails(usize, u8),
    /// A pod is deleted, as by a drain.
    Evict(usize),
    /// A pod is taken away by force.
    Vanish(usize),
    Images(bool),
    /// The kubelet and the virt-handler of the node are silent.
    Silence(bool),
    /// A DataImportCron is made, or deleted.
    Cron(bool),
    /// Its tag leads to digest number so and so; to none while the registry is away.
    Tag(u8),
    /// The settings are others; there are some if there were none.
    Settings(bool),
    /// The installation is taken away.
    Removal,
    /// A migration of a VMI is asked for.
    Migrate(usize),
    /// It is cancelled.
    Cancel(usize),
    /// It ends so, or the next one does.
    MigrationEnds(usize, MigrationEnd),
    /// Its target pod is deleted, or taken away by force.
    Target(usize, bool),
}

/// Something that goes wrong, and that nobody should notice in the end. Lengths are in ticks.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The controller ends, and another begins so much later.
    Restart(usize),
    /// Nothing is heard of a kind; at the end it comes, or is lost and all is listed anew.
    Deaf(Kind, usize, bool),
    /// So many requests later one is not answered, and was done or not.
    Break(u8, bool),
    /// Somebody is quicker than a plan.
    Meddle,
    /// Requests and answers take long.
    Slow(usize),
    /// Another controller acts too; the old one hears nothing more, and goes on for a while.
    Twin(usize),
    /// No pod is let in.
    Full(usize),
    /// The node's virt-handler looks at what was.
    Late(usize),
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    let strategies = prop::sample::select(vec!["Always", "Halted", "Manual", "RerunOnFailure", "Once"]);
    const ASKED: [&[&str]; 3] = [&["Start"], &["Stop"], &["Stop", "Start"]];
    let work = vec![None, Some(Stage::Done), Some(Stage::Done), Some(Stage::Failed)];
    prop_oneof![
        6 => (0..2_usize, strategies).prop_map(|(which, strategy)| Event::Vm(which, strategy)),
        3 => (0..2_usize, prop::sample::select(ASKED.to_vec())).prop_map(|(which, ask)| Event::Ask(which, ask)),
        1 => (0..2_usize, prop::sample::select(vec!["128Mi", "256Mi"]))
            .prop_map(|(which, size)| Event::Template(which, size)),
        3 => prop::sample::select(work).prop_map(Event::Work),
        2 => any::<bool>().prop_map(Event::Worker),
        1 => Just(Event::Alone),
        2 => any::<bool>().prop_map(Event::Claim),
        3 => (0..4_u8).prop_map(Event::Scale),
        1 => any::<bool>().prop_map(Event::Pause),
        2 => (0..4_usize, any::<bool>()).prop_map(|(which, leave)| Event::Delete(which, leave)),
        1 => (0..4_usize).prop_map(Event::End),
        3 => (0..4_usize, any::<bool>()).prop_map(|(which, well)| Event::Guest(which, well)),
        2 => (0..4_usize, 1..3_u8).prop_map(|(which, times)| Event::Fails(which, times)),
        2 => (0..4_usize).prop_map(Event::Evict),
        1 => (0..4_usize).prop_map(Event::Vanish),
        1 => any::<bool>().prop_map(Event::Images),
        1 => any::<bool>().prop_map(Event::Silence),
        1 => any::<bool>().prop_map(Event::Settings),
        1 => Just(Event::Removal),
    ]
}

/// What happens to VMIs that migrate.
pub(crate) fn migration_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..2_usize, prop::sample::select(vec!["Always", "RerunOnFailure", "Halted"]))
            .prop_map(|(which, strategy)| Event::Vm(which, strategy)),
        1 => Just(Event::Work(Some(Stage::Done))),
        8 => (0..2_usize).prop_map(Event::Migrate),
        8 => (0..2_usize, migration_end()).prop_map(|(which, end)| Event::MigrationEnds(which, end)),
        2 => (0..2_usize).prop_map(Event::Cancel),
        2 => (0..2_usize, any::<bool>()).prop_map(|(which, by_force)| Event::Target(which, by_force)),
        1 => (0..2_usize, any::<bool>()).prop_map(|(which, leave)| Event::Delete(which, leave)),
        1 => (0..2_usize).prop_map(Event::End),
        2 => (0..2_usize, any::<bool>()).prop_map(|(which, well)| Event::Guest(which, well)),
        2 => (0..2_usize).prop_map(Event::Evict),
        1 => (0..2_usize).prop_map(Event::Vanish),
        1 => any::<bool>().prop_map(Event::Silence),
    ]
}

fn migration_end() -> impl Strategy<Value = MigrationEnd> {
    prop_oneof![
        6 => (0..6_u8).prop_map(MigrationEnd::Arrives),
        2 => Just(MigrationEnd::ArrivesUnheard),
        2 => Just(MigrationEnd::Fails),
        2 => any::<bool>().prop_map(|is_heard| MigrationEnd::HeldAndStays { is_heard }),
        1 => Just(MigrationEnd::TargetEnds),
        1 => Just(MigrationEnd::TargetHangs),
        1 => Just(MigrationEnd::TargetGivesUp),
    ]
}

/// What people want of uploads, and what happens to those. (No upload fails for good: its pods would follow each other for ever.)
pub(crate) fn upload_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => any::<bool>().prop_map(Event::Takes),
        3 => prop::sample::select(vec![None, Some(Stage::Done)]).prop_map(Event::Work),
        3 => any::<bool>().prop_map(Event::Worker),
        2 => Just(Event::Late),
        2 => any::<bool>().prop_map(Event::Drop),
        3 => any::<(bool, bool)>().prop_map(|(is_alone, is_asked)| Event::Export(is_alone, is_asked)),
        1 => any::<bool>().prop_map(Event::Images),
        1 => any::<bool>().prop_map(Event::Silence),
        1 => any::<bool>().prop_map(Event::Settings),
    ]
}

/// What people want of images that are imported anew, and what happens to those.
pub(crate) fn image_event() -> impl Strategy<Value = Event> {
    let work = vec![None, Some(Stage::Done), Some(Stage::Done), Some(Stage::Failed)];
    prop_oneof![
        4 => any::<bool>().prop_map(Event::Cron),
        6 => (0..4_u8).prop_map(Event::Tag),
        4 => prop::sample::select(work).prop_map(Event::Work),
        2 => any::<bool>().prop_map(Event::Worker),
        1 => any::<bool>().prop_map(Event::Images),
        1 => any::<bool>().prop_map(Event::Settings),
    ]
}

/// What people want of clones of a claim, on which a VMI runs meanwhile or not, and what happens to those.
pub(crate) fn clone_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => prop::bool::weighted(0.75).prop_map(Event::Clone),
        4 => prop::bool::weighted(0.75).prop_map(Event::Claim),
        3 => prop::sample::select(vec![None, Some(Stage::Done)]).prop_map(Event::Work),
        3 => any::<bool>().prop_map(Event::Worker),
        2 => Just(Event::Late),
        1 => Just(Event::Alone),
        1 => Just(Event::Delete(2, false)),
        1 => Just(Event::Guest(2, true)),
        1 => any::<bool>().prop_map(Event::Images),
        1 => any::<bool>().prop_map(Event::Silence),
        1 => any::<bool>().prop_map(Event::Settings),
    ]
}

/// What goes wrong after an event, and how many ticks after it.
pub(crate) fn faults() -> impl Strategy<Value = Vec<(usize, Fault)>> {
    let kinds = vec![
        Kind::VirtualMachine,
        Kind::VirtualMachineInstance,
        Kind::Pod,
        Kind::VirtualMachineInstanceReplicaSet,
        Kind::PersistentVolumeClaim,
        Kind::DataVolume,
        Kind::KubeVirt,
        Kind::ConfigMap,
        Kind::MutatingWebhookConfiguration,
        Kind::Node,
        Kind::VirtualMachineInstanceMigration,
    ];
    let fault = prop_oneof![
        2 => (0..3_usize).prop_map(Fault::Restart),
        3 => (prop::sample::select(kinds), 1..6_usize, any::<bool>())
            .prop_map(|(kind, ticks, is_lost)| Fault::Deaf(kind, ticks, is_lost)),
        3 => (0..8_u8, any::<bool>()).prop_map(|(requests, is_done)| Fault::Break(requests, is_done)),
        2 => Just(Fault::Meddle),
        2 => (1..4_usize).prop_map(Fault::Slow),
        2 => (1..6_usize).prop_map(Fault::Twin),
        1 => (1..5_usize).prop_map(Fault::Full),
    ];
    prop::collection::vec((0..10_usize, fault), 0..3)
}

impl Event {
    /// Happens, if it can.
    pub(super) fn happen(&self, sim: &mut Sim, others: &mut OtherPrograms) {
        let vm_key = |which: usize| Key::new(Kind::VirtualMachine, "n", VMS[which % 2]);
        let set = Key::new(Kind::VirtualMachineInstanceReplicaSet, "n", SET);
        let settings = Key::new(Kind::KubeVirt, "kubevirt", "kubevirt");
        match *self {
            Event::Vm(which, strategy) => {
                let key = vm_key(which);
                match sim.objects.contains_key(&key) {
                    true => sim.change(&key, json!({"spec": {"runStrategy": strategy}})),
                    false => drop(sim.put(Kind::VirtualMachine, complete(which % 2, strategy))),
                }
            }
            Event::Ask(which, actions) => ask(sim, &vm_key(which), actions),
            Event::Template(which, size) => {
                let key = vm_key(which);
                if sim.objects.contains_key(&key) {
                    let domain = json!({"memory": {"guest": size}});
                    sim.change(&key, json!({"spec": {"template": {"spec": {"domain": domain}}}}));
                }
            }
            Event::Work(stage) => others.work = stage,
            Event::Worker(is_killed) => {
                let pods = sim.keys(Kind::Pod);
                let pod = pods.into_iter().find(|key| {
                    let pod = sim.get(key);
                    is_worker(pod) && !is_over(pod) && !is_going(pod)
                });
                match pod {
                    Some(pod) if is_killed => worker_ends(sim, &pod, None),
                    Some(pod) => sim.vanish(&pod),
                    None => {}
                }
            }
            Event::Takes(is_alone) => {
                let object = upload(is_alone);
                if !sim.objects.contains_key(&uploaded(is_alone)) {
                    sim.put(uploaded(is_alone).kind, object);
                }
            }
            Event::Export(is_alone, is_asked) => {
                let target = is_asked.then_some("docker://registry.example/os:1");
                if sim.objects.contains_key(&uploaded(is_alone)) {
                    sim.change(
                        &uploaded(is_alone),
                        json!({"metadata": {"annotations": {EXPORT_TARGET: target}}}),
                    );
                }
            }
            Event::Drop(is_alone) => sim.delete(&uploaded(is_alone)),
            Event::Late => {
                for key in sim.keys(Kind::Pod) {
                    let pod = sim.get(&key);
                    let runs = pod["status"]["containerStatuses"][0]["state"]["running"].is_object();
                    if is_worker(pod)
                        && (key.name.starts_with(UPLOADER) || key.name.starts_with(SOURCE))
                        && runs
                        && !is_going(pod)
                    {
                        worker_is_late(sim, &key);
                    }
                }
            }
            Event::Clone(true) => {
                if !sim.objects.contains_key(&Key::new(Kind::DataVolume, "n", COPY)) {
                    let source = json!({"pvc": {"namespace": "n", "name": "disk"}});
                    sim.put(Kind::DataVolume, data_volume(COPY, source));
                }
            }
            Event::Clone(false) => sim.delete(&Key::new(Kind::DataVolume, "n", COPY)),
            Event::Alone => {
                if !sim.objects.contains_key(&Key::new(Kind::VirtualMachineInstance, "n", ALONE)) {
                    let mut object = vmi(ALONE);
                    object["spec"]["volumes"] =
                        json!([{"name": "root", "persistentVolumeClaim": {"claimName": "disk"}}]);
                    sim.put(Kind::VirtualMachineInstance, admitted(object));
                }
            }
            Event::Claim(true) => drop(sim.put(Kind::PersistentVolumeClaim, claim("disk"))),
            Event::Claim(false) => sim.vanish(&Key::new(Kind::PersistentVolumeClaim, "n", "disk")),
            Event::Scale(count) => match sim.objects.contains_key(&set) {
                true => sim.change(&set, json!({"spec": {"replicas": count}})),
                false => drop(sim.put(Kind::VirtualMachineInstanceReplicaSet, replica_set(SET, count))),
            },
            Event::Pause(is) if sim.objects.contains_key(&set) => {
                sim.change(&set, json!({"spec": {"paused": is}}));
            }
            Event::Pause(_) => {}
            Event::Delete(which, leave) => {
                let key = match which % 4 {
                    2 => Key::new(Kind::VirtualMachineInstance, "n", ALONE),
                    3 => set,
                    which => vm_key(which),
                };
                delete(sim, &key, leave);
            }
            Event::End(which) => chosen(sim, which).into_iter().for_each(|key| sim.delete(&key)),
            Event::Guest(which, well) => {
                let life = if well { Life::Succeeded } else { Life::Failed };
                chosen(sim, which).into_iter().for_each(|key| others.guest_ends(sim, &key, life));
            }
            Event::Fails(which, times) => drop(others.fails.insert(name(which).to_owned(), times)),
            Event::Evict(which) => pod(sim, which).into_iter().for_each(|pod| sim.delete(&pod)),
            Event::Vanish(which) => pod(sim, which).into_iter().for_each(|pod| sim.vanish(&pod)),
            Event::Images(are_there) => others.no_images = !are_there,
            Event::Silence(is) => others.silent = is,
            Event::Cron(true) if !sim.objects.contains_key(&cron()) => {
                let Key { namespace, name, .. } = cron();
                let source = json!({"registry": {"url": "docker://registry.example/os:1"}});
                let spec = json!({
                    "template": {"spec": data_volume_spec(source)}, "schedule": "@every 5m",
                    "managedDataSource": "os", "importsToKeep": 2, "retentionPolicy": "None",
                });
                let meta = json!({"namespace": namespace, "name": name});
                sim.put(Kind::DataImportCron, json!({"metadata": meta, "spec": spec}));
            }
            Event::Cron(true) => {}
            Event::Cron(false) => sim.delete(&cron()),
            Event::Tag(number) => sim.tag = number,
            Event::Settings(emulates) => {
                let spec = json!({"configuration": {"developerConfiguration": {"useEmulation": emulates}}});
                match sim.objects.contains_key(&settings) {
                    true => sim.change(&settings, json!({"spec": spec})),
                    false => {
                        let meta = json!({"namespace": "kubevirt", "name": "kubevirt"});
                        sim.put(Kind::KubeVirt, json!({"metadata": meta, "spec": spec}));
                    }
                }
            }
            Event::Removal => sim.delete(&settings),
            Event::Migrate(which) => {
                if let Some(vmi) = chosen(sim, which) {
                    migration::ask(sim, &vmi);
                }
            }
            Event::Cancel(which) => {
                chosen(sim, which).into_iter().for_each(|vmi| migration::cancel(sim, &vmi));
            }
            Event::MigrationEnds(which, end) => {
                chosen(sim, which).into_iter().for_each(|vmi| others.ends(&vmi, end));
            }
            Event::Target(which, by_force) => {
                let pod = chosen(sim, which).and_then(|vmi| migration::target(sim, &vmi));
                match pod {
                    Some(pod) if by_force => sim.vanish(&pod),
                    Some(pod) => sim.delete(&pod),
                    None => {}
                }
            }
        }
    }
}

/// The pod of a VMI.
fn pod(sim: &Sim, which: usize) -> Option<Key> {
    let vmi = chosen(sim, which)?;
    others::guest_pod(sim, &vmi).or_else(|| sim.pod_of(&vmi))
}

fn name(which: usize) -> &'static str {
    [VMS[0], VMS[1], ALONE, SET][which % 4]
}

/// A VMI by its place in a history; of a replica set the first one that runs, or else the first.
fn chosen(sim: &Sim, which: usize) -> Option<Key> {
    let name = name(which);
    let is_it = |key: &Key| key.name == name || key.name.starts_with(super::shape::FLOCK) && name == SET;
    let all = sim.keys(Kind::VirtualMachineInstance).into_iter().filter(is_it);
    all.min_by_key(|key| sim.get(key)["status"]["phase"] != "Running")
}

/// A VM as the webhook completes it.
fn complete(which: usize, strategy: &str) -> Value {
    let name = VMS[which];
    let mut object = if which == 1 { vm_with_disk(name, strategy, blank()) } else { vm(name, strategy) };
    let uuid = api::uuid::of_vm(name);
    object["spec"]["template"]["spec"]["domain"]["firmware"] = json!({"uuid": uuid});
    object
}

/// The DataImportCron of histories.
pub(crate) fn cron() -> Key {
    Key::new(Kind::DataImportCron, "n", "images")
}

/// What takes an upload.
fn uploaded(is_alone: bool) -> Key {
    match is_alone {
        true => Key::new(Kind::PersistentVolumeClaim, "n", "bare"),
        false => Key::new(Kind::DataVolume, "n", "sent"),
    }
}

fn upload(is_alone: bool) -> Value {
    let Key { namespace, name, .. } = uploaded(is_alone);
    let resources = json!({"requests": {"storage": "1Gi"}});
    let mut object = json!({"metadata": {"namespace": namespace, "name": name}});
    match is_alone {
        true => {
            object["metadata"]["annotations"] = json!({TARGET: ""});
            object["spec"] = json!({"accessModes": ["ReadWriteOnce"], "resources": resources});
            object["status"] = json!({"phase": "Bound"});
        }
        false => object["spec"] = json!({"source": {"upload": {}}, "storage": {"resources": resources}}),
    }
    object
}

fn claim(name: &str) -> Value {
    json!({"metadata": {"namespace": "n", "name": name}, "status": {"phase": "Bound"}})
}

/// Asks as virt-api does: nothing while something is asked already, and a stop means the VMI that is there.
fn ask(sim: &mut Sim, key: &Key, actions: &[&str]) {
    let Some(vm) = sim.objects.get(key) else { return };
    let waits = vm["status"]["stateChangeRequests"].as_array().is_some_and(|list| !list.is_empty());
    let there = sim.objects.get(&Key::new(Kind::VirtualMachineInstance, "n", &key.name));
    if waits || there.is_none() != (actions == ["Start"]) {
        return;
    }
    let uid = there.map(|vmi| vmi["metadata"]["uid"].clone());
    let request = |action: &&str| match *action {
        "Stop" => json!({"action": "Stop", "uid": uid}),
        action => json!({"action": action}),
    };
    let requests: Vec<Value> = actions.iter().map(request).collect();
    sim.change(key, json!({"status": {"stateChangeRequests": requests}}));
}

/// Deletes; what the object has made may be left (`--cascade=orphan`).
fn delete(sim: &mut Sim, key: &Key, leave: bool) {
    let Some(object) = sim.objects.get(key) else { return };
    if leave && !is_going(object) {
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        finalizers.push(json!("orphan"));
        sim.change(key, json!({"metadata": {"finalizers": finalizers}}));
    }
    sim.delete(key);
}
