//! Stories of a clone: what is made beside the source and beside the target, what is said, and who is never let near a disk.

mod gone;
mod inferred;
mod refused;
mod shared;
mod waits;
mod ways;

use super::super::tests::class;
use crate::sim::others::{worker_ends, worker_is_late};
use crate::sim::{Sim, blank};
use api::job::{Import, Serve, Source, Stage};
use cluster_model::clones::{CLONE_REQUEST, CLONE_TOKEN, CLONE_TYPE, TARGET, TARGET_LABEL};
use cluster_model::objects::{Attempt, Certificate, Key, Kind, names};
use cluster_model::uploads::{CLIENT_SIGNER, PRIVATE_KEY, PUBLIC_KEY, SERVER_SIGNER, SIGNING_KEY};
use serde_json::{Value, json};
use serve::token::{Claims, Cloned, Pair, sign};

const PRIVATE: &[u8] = include_bytes!("../../../../../serve/src/token/one.pem");
const PUBLIC: &str = include_str!("../../../../../serve/src/token/one.pub.pem");
const OTHER: &[u8] = include_bytes!("../../../../../serve/src/token/other.pem");

/// The namespace of the source, and that of the target.
const S: &str = "s";
const T: &str = "t";

fn key(kind: Kind, namespace: &str, name: &str) -> Key {
    Key::new(kind, namespace, name)
}

fn disk() -> Key {
    key(Kind::DataVolume, T, "disk")
}

fn claim() -> Key {
    key(Kind::PersistentVolumeClaim, T, "disk")
}

fn golden() -> Key {
    key(Kind::PersistentVolumeClaim, S, "golden")
}

/// A cluster that can clone, with a PVC that is bound and nobody's else.
fn cluster() -> Sim {
    let mut sim = Sim::new();
    super::super::upload_tests::authorities(&mut sim);
    use base64::Engine as _;
    let text = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    sim.settle();
    let key = Key::new(Kind::Secret, "kubevirt", SIGNING_KEY);
    sim.change(&key, json!({"data": {PRIVATE_KEY: text(PRIVATE), PUBLIC_KEY: text(PUBLIC.as_bytes())}}));
    sim.settle();
    sim.advance(60);
    class(&mut sim, "Immediate");
    source(&mut sim, S);
    sim.told.clear();
    sim.warnings.clear();
    sim
}

fn source(sim: &mut Sim, namespace: &str) -> Key {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "storageClassName": "fast",
        "resources": {"requests": {"storage": "1138166334"}},
    });
    let meta = json!({"namespace": namespace, "name": "golden"});
    sim.put(
        Kind::PersistentVolumeClaim,
        json!({"metadata": meta, "spec": spec, "status": {"phase": "Bound"}}),
    )
}

fn pvc(namespace: &str) -> Value {
    json!({"source": {"pvc": {"namespace": namespace, "name": "golden"}}, "storage": {}})
}

/// A DataVolume of this spec, whose maker was permitted to clone S/golden.
fn volume(sim: &Sim, spec: Value) -> Value {
    let token = token(sim, PRIVATE, Cloned { source: (S, "golden"), target: (T, "disk"), generated: "" });
    let mut object =
        json!({"metadata": {"namespace": T, "name": "disk", "annotations": {CLONE_TOKEN: token}}});
    object["spec"] = spec;
    object
}

fn token(sim: &Sim, pem: &[u8], clone: Cloned<'_>) -> String {
    sign(&Pair::read(pem).unwrap(), &Claims::cloning(clone, sim.now)).unwrap()
}

fn phase(sim: &Sim) -> &str {
    sim.phase(&disk())
}

fn said(sim: &Sim, kind: &str) -> (String, String, String) {
    sim.condition(&disk(), kind).unwrap_or_else(|| panic!("no {kind}: {:#}", sim.get(&disk())))
}

fn uid(sim: &Sim) -> String {
    sim.uid(&claim())
}

fn source_pod(sim: &Sim) -> Key {
    key(Kind::Pod, S, &names::cloner(&uid(sim)))
}

fn importer() -> Key {
    key(Kind::Pod, T, "importer-disk")
}

fn bound(sim: &mut Sim) {
    sim.bind(&claim());
    sim.settle();
}

fn runs(sim: &mut Sim, pod: &Key, container: &str) {
    let status = json!([{"name": container, "ready": true, "state": {"running": {}}}]);
    sim.change(
        pod,
        json!({"spec": {"nodeName": "node1"}, "status": {"phase": "Running", "containerStatuses": status}}),
    );
    sim.settle();
}

/// A clone whose PVC has its volume, and whose source pod is made.
fn begun() -> Sim {
    let mut sim = cluster();
    let object = volume(&sim, pvc(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    bound(&mut sim);
    sim
}

/// A clone whose source pod serves, and whose importer pod is there.
fn copying() -> Sim {
    let mut sim = begun();
    let pod = source_pod(&sim);
    runs(&mut sim, &pod, "cdi-clone-source");
    runs(&mut sim, &importer(), "importer");
    sim
}

/// What the namespace of the source has of a clone.
fn left(sim: &Sim) -> Vec<Key> {
    sim.objects.keys().filter(|key| key.name.starts_with("clone-")).cloned().collect()
}

fn file(sim: &Sim, key: &Key, name: &str) -> String {
    use base64::Engine as _;
    let text = sim.get(key)["data"][name].as_str().unwrap();
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(text).unwrap()).unwrap()
}

#[test]
fn a_clone_is_a_source_pod_and_an_importer_pod_and_ends() {
    let mut sim = cluster();
    let object = volume(&sim, pvc(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    let made = sim.get(&claim()).clone();
    assert_eq!(made["spec"]["resources"]["requests"]["storage"], "1138166334", "as large as its source");
    let notes = &made["metadata"]["annotations"];
    assert_eq!((&notes[CLONE_REQUEST], &notes[CLONE_TYPE]), (&json!("s/golden"), &json!("copy")));
    assert_eq!(said(&sim, "Cloning").1, "copy");
    assert_eq!(left(&sim), [], "nobody reads before the target has a volume");
    bound(&mut sim);

    assert_eq!(phase(&sim), "CloneScheduled");
    let (pod, client) = (source_pod(&sim), key(Kind::Secret, T, &names::clone_client(&uid(&sim))));
    let object = sim.get(&pod).clone();
    let owner = &object["metadata"]["ownerReferences"][0];
    assert_eq!(owner["uid"], sim.get(&golden())["metadata"]["uid"], "it goes with its source");
    assert_eq!(object["metadata"]["annotations"][TARGET], "t/disk");
    assert_eq!(object["metadata"]["labels"][TARGET_LABEL], json!(uid(&sim)));
    let of_claim = json!({"claimName": "golden", "readOnly": true});
    assert_eq!(object["spec"]["volumes"][0]["persistentVolumeClaim"], of_claim);
    let container = &object["spec"]["containers"][0];
    assert_eq!(
        (&container["args"], &container["volumeMounts"][1]["readOnly"]),
        (&json!(["serve"]), &json!(true))
    );
    let job: Serve = serde_json::from_str(container["env"][0]["value"].as_str().unwrap()).unwrap();
    assert_eq!(job.client, client.name, "one client, by the uid of its PVC");
    let service = key(Kind::Service, S, &pod.name);
    let selector = sim.get(&service)["spec"]["selector"].as_object().unwrap().clone();
    for (label, value) in selector {
        assert_eq!(object["metadata"]["labels"][&label], value, "the Service finds the pod");
    }
    assert!(!sim.objects.contains_key(&importer()), "it waits until the source answers");

    // Each end has a certificate, and knows the authorities of the other one.
    let signer = |name: &str| {
        Certificate::from_pem(&file(&sim, &Key::new(Kind::Secret, "kubevirt", name), "tls.crt")).unwrap()
    };
    let (servers, clients) = (signer(SERVER_SIGNER.0), signer(CLIENT_SIGNER.0));
    let shown = Certificate::from_pem(&file(&sim, &client, "tls.crt")).unwrap();
    assert_eq!(shown.name.as_deref(), Some(client.name.as_str()));
    assert!(shown.is_clients(&clients, sim.now) && !shown.is_clients(&servers, sim.now));
    assert!(
        file(&sim, &client, "ca.crt").contains(cluster_model::objects::certificate::pem(&servers).trim())
    );
    let server = key(Kind::Secret, S, &pod.name);
    let shown = Certificate::from_pem(&file(&sim, &server, "tls.crt")).unwrap();
    assert!(
        shown.is_from(&servers, &[format!("{}.s.svc", pod.name)], sim.now)
            && !shown.is_clients(&servers, sim.now)
    );
    assert!(
        file(&sim, &server, "ca.crt").contains(cluster_model::objects::certificate::pem(&clients).trim())
    );

    runs(&mut sim, &pod, "cdi-clone-source");
    let made = sim.get(&importer()).clone();
    let container = &made["spec"]["containers"][0];
    let job: Import = serde_json::from_str(container["env"][0]["value"].as_str().unwrap()).unwrap();
    let Source::Clone(clone) = job.source else { panic!("{job:?}") };
    assert_eq!(clone.url, format!("https://{}.s.svc:8443/disk", pod.name));
    assert_eq!((clone.tls.to_str(), job.size), (Some("/etc/tls"), None));
    let tls =
        made["spec"]["volumes"].as_array().unwrap().iter().find(|one| one["secret"].is_object()).unwrap();
    assert_eq!(tls["secret"]["secretName"], json!(client.name));
    runs(&mut sim, &importer(), "importer");
    assert_eq!(phase(&sim), "CloneInProgress");

    worker_ends(&mut sim, &importer(), Some(Stage::Done));
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Ready").0.as_str()), ("Succeeded", "True"));
    sim.vanish(&pod);
    sim.settle();
    assert_eq!(left(&sim), [], "nothing of the way is left");
    let told = ["Pending", "CloneScheduled", "CloneInProgress", "CloneSucceeded"].map(String::from);
    assert_eq!(sim.reasons(), told);
    assert_eq!(sim.warnings, [""; 0]);
    sim.advance(3600);
    assert_eq!(sim.round(), 0, "and then there is silence");
}

#[test]
fn in_its_own_namespace_a_pvc_is_cloned_without_a_token() {
    let mut sim = cluster();
    source(&mut sim, T);
    sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": "disk"}, "spec": pvc(T)}));
    sim.settle();
    bound(&mut sim);
    assert_eq!(phase(&sim), "CloneScheduled");
    assert!(sim.objects.contains_key(&key(Kind::Pod, T, &names::cloner(&uid(&sim)))));
}

#[test]
fn a_source_that_is_not_ready_is_waited_for() {
    let mut sim = cluster();
    sim.vanish(&golden());
    let object = volume(&sim, pvc(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Pending", "CloneSourceNotFound"));
    source(&mut sim, S);
    sim.change(&golden(), json!({"status": {"phase": "Pending"}}));
    sim.settle();
    assert_eq!(said(&sim, "Running").1, "CloneSourceNotReady");
    // Its own DataVolume has not filled it.
    let mut filling = json!({"metadata": {"namespace": S, "name": "golden"}, "spec": blank()});
    filling["status"] = json!({"phase": "ImportInProgress"});
    sim.put(Kind::DataVolume, filling);
    sim.bind(&golden());
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    sim.apply(plan);
    assert!(said(&sim, "Running").2.contains("not filled yet"), "{:?}", said(&sim, "Running"));
    sim.change(&key(Kind::DataVolume, S, "golden"), json!({"status": {"phase": "Succeeded"}}));
    sim.settle();
    assert!(sim.objects.contains_key(&claim()));
}

/// A disk is not read while somebody writes to it, and not written while it is read.
#[test]
fn who_writes_and_who_reads_wait_for_each_other() {
    let mut sim = cluster();
    let mut vmi = crate::sim::vmi("web");
    vmi["metadata"]["namespace"] = json!(S);
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "golden"}}]);
    let running = sim.put(Kind::VirtualMachineInstance, vmi.clone());
    sim.boot(&running);
    sim.told.clear();
    let object = volume(&sim, pvc(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    bound(&mut sim);
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Pending", "CloneSourceInUse"));
    assert!(said(&sim, "Running").2.contains("VMI web uses PVC s/golden"), "{:?}", said(&sim, "Running"));
    assert_eq!(left(&sim), []);
    sim.advance(30);
    sim.settle();
    let told = sim.reasons().iter().filter(|reason| *reason == "CloneSourceInUse").count();
    assert_eq!(told, 1, "{:?}", sim.told);
    // The VMI ends, and the disk is read.
    sim.agent_says(&running, "Succeeded");
    let pod = sim.pod_of(&running).unwrap();
    sim.pod_ends(&pod, "Succeeded", 0);
    sim.settle();
    sim.advance(10);
    sim.settle();
    let source = source_pod(&sim);
    runs(&mut sim, &source, "cdi-clone-source");
    assert!(sim.objects.contains_key(&importer()));
    // Another VMI waits for the end of the clone.
    vmi["metadata"]["name"] = json!("next");
    let next = sim.put(Kind::VirtualMachineInstance, vmi);
    sim.settle();
    assert_eq!(sim.pod_of(&next), None);
    let why = sim.condition(&next, "DataVolumesReady").unwrap().2;
    assert!(why.contains("s/golden is being cloned"), "{why}");
    runs(&mut sim, &importer(), "importer");
    worker_ends(&mut sim, &importer(), Some(Stage::Done));
    sim.settle();
    sim.vanish(&source);
    sim.settle();
    assert!(sim.pod_of(&next).is_some(), "and begins then");
}

/// Both were decided on at once: who reads lets go before a byte is copied.
#[test]
fn a_vmi_that_began_beside_the_source_pod_goes_first() {
    let mut sim = begun();
    let pod = source_pod(&sim);
    let mut vmi = crate::sim::vmi("web");
    vmi["metadata"]["namespace"] = json!(S);
    vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "golden"}}]);
    vmi["status"] = json!({"phase": "Scheduled"});
    sim.put(Kind::VirtualMachineInstance, vmi);
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    sim.apply(plan);
    assert!(!sim.objects.contains_key(&pod) && !sim.objects.contains_key(&importer()));
    assert_eq!(said(&sim, "Running").1, "CloneSourceInUse");
}

/// The importer pod of the first source pod has no certificate for the next one, and so has read nothing from it.
#[test]
fn a_vmi_that_began_beside_the_next_source_pod_goes_first_and_one_beside_a_pod_that_is_read_does_not() {
    for is_next in [true, false] {
        let mut sim = copying();
        let pod = source_pod(&sim);
        if is_next {
            sim.vanish(&pod);
            let plan = crate::decide(&sim.world, &disk(), sim.now);
            sim.apply(plan);
            assert!(sim.objects.contains_key(&pod) && sim.objects.contains_key(&importer()));
        }
        let mut vmi = crate::sim::vmi("web");
        vmi["metadata"]["namespace"] = json!(S);
        vmi["spec"]["volumes"] = json!([{"name": "root", "persistentVolumeClaim": {"claimName": "golden"}}]);
        vmi["status"] = json!({"phase": "Scheduled"});
        sim.put(Kind::VirtualMachineInstance, vmi);
        let plan = crate::decide(&sim.world, &disk(), sim.now);
        sim.apply(plan);
        assert_eq!(sim.objects.contains_key(&pod), !is_next);
    }
}

/// Of the pods of others there is no picture: they are looked for when the source pod is made.
#[test]
fn a_pod_of_somebody_that_mounts_the_source_is_waited_for() {
    let mut sim = cluster();
    let spec = json!({
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "golden"}}],
        "containers": [{"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
    });
    let pod =
        json!({"metadata": {"namespace": S, "name": "shell"}, "spec": spec, "status": {"phase": "Running"}});
    // Its labels are not ours, and so it is in no picture.
    let shell = Key::new(Kind::Pod, S, "shell");
    let object = volume(&sim, pvc(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    sim.bind(&claim());
    sim.objects.insert(shell.clone(), pod);
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    let done = crate::sim::door::carry_out(&mut sim, plan);
    let (about, error) = done.failed.expect("somebody writes");
    assert_eq!(about, Some(Attempt::Make(Kind::PersistentVolumeClaim)));
    assert!(error.to_string().contains("pod shell mounts PVC golden for writing"), "{error}");
    assert_eq!(left(&sim), []);
    sim.objects.remove(&shell);
    sim.settle();
    assert!(sim.objects.contains_key(&source_pod(&sim)));
}

#[test]
fn a_source_that_is_deleted_and_not_read_any_more_ends_the_clone_and_leaves_nothing() {
    let mut sim = copying();
    let pod = source_pod(&sim);
    sim.change(&golden(), json!({"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}}));
    sim.delete(&golden());
    sim.delete(&pod);
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Failed", "CloneSourceGone"));
    assert!(sim.reasons().contains(&"CloneFailed".to_owned()));
    assert!(crate::sim::is_going(sim.get(&pod)), "so that the PVC can go");
    sim.vanish(&pod);
    sim.settle();
    assert!(left(&sim).iter().all(|key| key.namespace == T), "{:?}", left(&sim));
}

/// No owner reference goes across namespaces: the source pod is found by what it says of itself.
#[test]
fn a_target_that_is_deleted_takes_the_source_pod_along_also_while_nobody_looked() {
    for is_seen in [true, false] {
        let mut sim = copying();
        let pod = source_pod(&sim);
        sim.delete(&disk());
        if is_seen {
            sim.settle();
        } else {
            sim.vanish(&importer());
        }
        sim.objects.keys().filter(|key| key.namespace == T).cloned().collect::<Vec<_>>().iter().for_each(
            |key| {
                sim.vanish(key);
            },
        );
        // The key that the pod and its target lead to, when their lists come.
        let owner = key(Kind::DataVolume, S, "golden");
        assert!(sim.world.dependents(&pod).contains(&owner));
        assert!(is_seen || sim.world.dependents(&claim()).contains(&owner));
        let plan = crate::decide(&sim.world, &owner, sim.now);
        sim.apply(plan);
        assert!(crate::sim::is_going(sim.get(&pod)), "{is_seen}");
        sim.vanish(&pod);
        assert_eq!(left(&sim), [], "{is_seen}");
    }
}

#[test]
fn a_source_pod_whose_certificate_ends_makes_room_for_another() {
    let mut sim = copying();
    let (pod, secret) = (source_pod(&sim), key(Kind::Secret, S, &source_pod(&sim).name));
    let before = sim.get(&secret)["data"]["tls.crt"].clone();
    sim.advance(3600);
    worker_is_late(&mut sim, &pod);
    sim.settle();
    assert!(crate::sim::is_going(sim.get(&importer())), "its certificate ends, too");
    sim.vanish(&importer());
    sim.settle();
    assert_ne!(sim.get(&secret)["data"]["tls.crt"], before);
    let pod = source_pod(&sim);
    runs(&mut sim, &pod, "cdi-clone-source");
    assert!(sim.objects.contains_key(&importer()), "and the next importer pod goes on");
}

/// A clone onto a device whose source pod serves, and whose importer pod runs.
fn onto_a_device() -> Sim {
    let mut sim = cluster();
    let mut spec = pvc(S);
    spec["storage"] = json!({"volumeMode": "Block"});
    let object = volume(&sim, spec);
    sim.put(Kind::DataVolume, object);
    sim.settle();
    bound(&mut sim);
    let pod = source_pod(&sim);
    runs(&mut sim, &pod, "cdi-clone-source");
    runs(&mut sim, &importer(), "importer");
    sim
}

/// Hours that the source pod serves from now on.
fn hours(sim: &Sim) -> i64 {
    let env = sim.get(&source_pod(sim))["spec"]["containers"][0]["env"].clone();
    let deadline =
        env.as_array().unwrap().iter().find(|one| one["name"] == "DEADLINE").unwrap()["value"].clone();
    let deadline: jiff::Timestamp = deadline.as_str().unwrap().parse().unwrap();
    deadline.duration_since(sim.now).as_hours()
}

/// A device has no journal: what is not done when the certificates end begins anew, and would do so for ever.
#[test]
fn a_device_is_served_for_a_day_and_a_clone_that_takes_longer_has_failed() {
    assert!(hours(&copying()) <= 12, "a file goes on with the next pod");
    let mut sim = onto_a_device();
    assert!(hours(&sim) >= 23, "{}", hours(&sim));
    sim.advance(24 * 3600);
    let pod = source_pod(&sim);
    worker_is_late(&mut sim, &pod);
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Failed", "CloneTooLong"));
    assert!(said(&sim, "Running").2.contains("volumeMode Filesystem"), "{:?}", said(&sim, "Running"));
    assert!(crate::sim::is_going(sim.get(&importer())));
    // One whose importer pod came late has not had its time.
    let mut sim = onto_a_device();
    sim.advance(3600);
    let pod = source_pod(&sim);
    worker_is_late(&mut sim, &pod);
    sim.settle();
    assert_ne!(phase(&sim), "Failed");
    sim.vanish(&importer());
    sim.settle();
    assert!(sim.objects.contains_key(&source_pod(&sim)), "another one serves");
}

#[test]
fn a_target_smaller_than_its_source_is_refused_with_both_numbers() {
    let mut sim = cluster();
    let mut spec = pvc(S);
    spec["storage"] = json!({"resources": {"requests": {"storage": "512Mi"}}});
    let object = volume(&sim, spec);
    sim.put(Kind::DataVolume, object);
    sim.settle();
    let (_, _, message) = said(&sim, "Running");
    assert!(message.contains("569083167 bytes, and the source has 1138166334"), "{message}");
    assert!(!sim.objects.contains_key(&claim()));
}

#[test]
fn a_larger_target_has_a_larger_disk() {
    let mut sim = cluster();
    let mut spec = pvc(S);
    spec["storage"] = json!({"resources": {"requests": {"storage": "2Gi"}}});
    let object = volume(&sim, spec);
    sim.put(Kind::DataVolume, object);
    sim.settle();
    bound(&mut sim);
    let pod = source_pod(&sim);
    runs(&mut sim, &pod, "cdi-clone-source");
    let env = sim.get(&importer())["spec"]["containers"][0]["env"][0]["value"].clone();
    let job: Import = serde_json::from_str(env.as_str().unwrap()).unwrap();
    assert_eq!(job.size, Some(2 << 30));
}

fn data_source(sim: &mut Sim, namespace: &str, name: &str, source: Value) {
    let mut object = json!({"metadata": {"namespace": namespace, "name": name}});
    object["spec"]["source"] = source;
    sim.put(Kind::DataSource, object);
}

fn referred(namespace: &str) -> Value {
    json!({"sourceRef": {"kind": "DataSource", "namespace": namespace, "name": "os"}, "storage": {}})
}

#[test]
fn a_data_source_is_followed_once() {
    let mut sim = cluster();
    let object = volume(&sim, referred(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    assert_eq!((phase(&sim), said(&sim, "Running").1.as_str()), ("Pending", "DataSourceNotReady"));
    data_source(&mut sim, S, "os", json!({"dataSource": {"namespace": S, "name": "os-1"}}));
    data_source(&mut sim, S, "os-1", json!({"pvc": {"namespace": S, "name": "golden"}}));
    sim.settle();
    assert_eq!(sim.get(&claim())["metadata"]["annotations"][CLONE_REQUEST], "s/golden");
    // It leads elsewhere now, and the clone that was begun does not.
    data_source(&mut sim, S, "os-1", json!({"pvc": {"namespace": S, "name": "next"}}));
    sim.settle();
    bound(&mut sim);
    let pod = sim.get(&source_pod(&sim)).clone();
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "golden");
}

/// A plan that breaks off, wherever: it is begun again, and nothing is left or made twice.
#[test]
fn a_plan_that_breaks_off_is_begun_again() {
    for (is_done, requests) in (0..10).flat_map(|requests| [(false, requests), (true, requests)]) {
        let mut sim = cluster();
        let object = volume(&sim, pvc(S));
        sim.put(Kind::DataVolume, object);
        sim.settle();
        sim.bind(&claim());
        for _ in 0..3 {
            breaks(&mut sim, requests, is_done);
        }
        sim.advance(10);
        sim.settle();
        let pod = source_pod(&sim);
        runs(&mut sim, &pod, "cdi-clone-source");
        breaks(&mut sim, requests, is_done);
        sim.advance(10);
        sim.settle();
        runs(&mut sim, &importer(), "importer");
        worker_ends(&mut sim, &importer(), Some(Stage::Done));
        breaks(&mut sim, requests, is_done);
        sim.advance(10);
        sim.settle();
        assert_eq!(phase(&sim), "Succeeded", "{requests} {is_done}");
        if sim.objects.contains_key(&pod) {
            sim.vanish(&pod);
        }
        sim.settle();
        assert_eq!(left(&sim), [], "{requests} {is_done}");
    }
}

/// Decides once on the disk, and one request of the plan is not answered.
fn breaks(sim: &mut Sim, requests: u8, is_done: bool) {
    sim.wire.breaks = Some((requests, is_done));
    let plan = crate::decide(&sim.world, &disk(), sim.now);
    // Whatever comes of it.
    drop(crate::sim::door::carry_out(sim, plan));
    sim.wire.breaks = None;
}
