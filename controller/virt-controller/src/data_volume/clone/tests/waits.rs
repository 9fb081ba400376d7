//! How long a clone waits, how often it is looked at meanwhile, and who waits for it.

use super::super::reader::{STALLED, UNREAD};
use super::super::serve::PLACES;
use super::*;
use cluster_model::worker::ATTEMPT;
use jiff::SignedDuration;

/// The source pod answers from now on.
fn is_ready(sim: &mut Sim, pod: &Key) {
    runs(sim, pod, "cdi-clone-source");
    let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": sim.now.to_string()}]);
    sim.change(pod, json!({"status": {"conditions": ready}}));
    sim.settle();
}

fn passes(sim: &mut Sim, seconds: i64) {
    sim.advance(seconds);
    sim.settle();
}

/// The importer pod is never let onto a node: by a quota, by its image, by whatever its namespace has set.
#[test]
fn a_source_pod_that_nobody_reads_from_goes_and_comes_back_later_each_time() {
    let mut sim = begun();
    for (times, pause) in [(1, 60), (2, 120), (3, 240)] {
        let pod = source_pod(&sim);
        is_ready(&mut sim, &pod);
        assert!(sim.objects.contains_key(&importer()));
        passes(&mut sim, 299);
        assert!(!crate::sim::is_going(sim.get(&pod)), "it is waited for");
        let soon = sim.now.checked_add(SignedDuration::from_secs(1)).unwrap();
        let again = crate::decide(&sim.world, &disk(), sim.now).again;
        assert!(again.is_some_and(|again| again <= soon), "{again:?}");
        passes(&mut sim, 1);
        assert!(crate::sim::is_going(sim.get(&pod)), "VMs of the source may start");
        assert!(!sim.objects.contains_key(&importer()), "it would find nobody");
        let word = said(&sim, "Running");
        assert_eq!((phase(&sim), word.1.as_str()), ("Pending", UNREAD));
        sim.vanish(&pod);
        passes(&mut sim, pause - 1);
        assert!(!sim.objects.contains_key(&pod), "{times}");
        assert_eq!(said(&sim, "Running"), word, "{times}");
        passes(&mut sim, 1);
        let attempt = sim.get(&pod)["metadata"]["annotations"][ATTEMPT].clone();
        assert_eq!(attempt, times.to_string(), "another one is there");
    }
}

#[test]
fn a_source_pod_stays_while_it_is_read_from_and_between_two_readers() {
    let mut sim = copying();
    let pod = source_pod(&sim);
    is_ready(&mut sim, &pod);
    passes(&mut sim, 3600);
    assert!(!crate::sim::is_going(sim.get(&pod)), "somebody reads");
    worker_ends(&mut sim, &importer(), None);
    sim.settle();
    // The next reader is made, and never starts.
    passes(&mut sim, 590);
    assert!(!crate::sim::is_going(sim.get(&pod)), "the pause before a reader counts for nothing");
    passes(&mut sim, 20);
    assert!(crate::sim::is_going(sim.get(&pod)));
    assert_eq!(said(&sim, "Running").1, UNREAD);
}

/// Its image is not there, or no node has room for it: VMs of the source wait no longer than others do.
#[test]
fn a_source_pod_that_does_not_become_ready_goes_and_comes_back_later() {
    let mut sim = begun();
    let pod = source_pod(&sim);
    passes(&mut sim, 599);
    assert!(sim.objects.contains_key(&pod), "it is waited for");
    passes(&mut sim, 1);
    assert!(!sim.objects.contains_key(&pod));
    let (_, reason, message) = said(&sim, "Running");
    assert_eq!(reason, UNREAD);
    assert!(
        message.contains("the source pod s/clone-source-") && message.contains("within 10 minutes"),
        "{message}"
    );
    passes(&mut sim, 59);
    assert!(!sim.objects.contains_key(&pod));
    passes(&mut sim, 1);
    assert!(sim.objects.contains_key(&pod), "another one is there");
}

/// What a worker pod counts now.
fn counts(sim: &mut Sim, pod: &Key, done: u64) {
    let uid = sim.uid(pod);
    let report = api::job::Report { stage: Stage::Moving, done, ..Default::default() };
    let now = sim.now;
    sim.world.store_report((pod.namespace.clone(), pod.name.clone()), uid, report, now);
    sim.settle();
}

#[test]
fn an_importer_that_reads_nothing_does_not_keep_the_source() {
    let mut sim = copying();
    let pod = source_pod(&sim);
    is_ready(&mut sim, &pod);
    counts(&mut sim, &pod, 1);
    counts(&mut sim, &importer(), 1);
    passes(&mut sim, 1700);
    counts(&mut sim, &pod, 2);
    passes(&mut sim, 1799);
    assert!(!crate::sim::is_going(sim.get(&pod)), "something was sent in the last half hour");
    passes(&mut sim, 1);
    assert!(crate::sim::is_going(sim.get(&pod)));
    let (_, reason, message) = said(&sim, "Running");
    assert_eq!(reason, STALLED);
    assert!(message.contains("the importer pod importer-disk has read nothing"), "{message}");
    let at = |sim: &Sim| sim.get(&disk())["status"]["restartCount"].clone();
    let before = at(&sim);
    passes(&mut sim, 30);
    assert_eq!(
        (said(&sim, "Running").1.as_str(), at(&sim)),
        (STALLED, before),
        "it is said as long as it waits"
    );
}

/// Zeros of a device are written, and not sent: the importer counts them. It is somebody's who may count what he likes.
#[test]
fn an_importer_that_says_it_works_is_believed_for_a_while() {
    let mut sim = copying();
    let pod = source_pod(&sim);
    is_ready(&mut sim, &pod);
    counts(&mut sim, &pod, 1);
    for done in 1..6 {
        counts(&mut sim, &importer(), done);
        passes(&mut sim, 1200);
        assert!(!crate::sim::is_going(sim.get(&pod)), "{done}");
    }
    counts(&mut sim, &importer(), 7);
    passes(&mut sim, 1200);
    assert!(crate::sim::is_going(sim.get(&pod)), "two hours have passed");
}

/// Who may write the status of their DataVolume says there when the last reader ended.
fn forge(sim: &mut Sim, time: &str) {
    let mut conditions = sim.get(&disk())["status"]["conditions"].clone();
    let running = |said: &&mut Value| said["type"] == "Running";
    let said = conditions.as_array_mut().unwrap().iter_mut().find(running).unwrap();
    assert_eq!(said["status"], "False", "{said}");
    (said["lastTransitionTime"], said["lastHeartbeatTime"]) = (json!(time), json!(time));
    sim.change(&disk(), json!({"status": {"conditions": conditions}}));
}

#[test]
fn a_time_that_is_still_to_come_keeps_no_source_pod() {
    let mut sim = begun();
    let pod = source_pod(&sim);
    is_ready(&mut sim, &pod);
    forge(&mut sim, "9998-01-01T00:00:00Z");
    passes(&mut sim, 299);
    assert!(!crate::sim::is_going(sim.get(&pod)), "it is waited for as any other");
    passes(&mut sim, 1);
    assert!(crate::sim::is_going(sim.get(&pod)), "VMs of the source may start");
}

/// Each time it is looked at, a reader is said to have ended just before.
#[test]
fn a_source_pod_that_sends_nothing_goes_whenever_a_reader_is_said_to_have_ended() {
    let mut sim = begun();
    let pod = source_pod(&sim);
    is_ready(&mut sim, &pod);
    counts(&mut sim, &pod, 0);
    passes(&mut sim, 10);
    for times in 0..12 {
        assert!(!crate::sim::is_going(sim.get(&pod)), "after {times} times 10 minutes");
        let now = sim.now.to_string();
        forge(&mut sim, &now);
        passes(&mut sim, 599);
        let now = sim.now.to_string();
        forge(&mut sim, &now);
        passes(&mut sim, 1);
    }
    assert!(crate::sim::is_going(sim.get(&pod)), "two hours have passed");
}

/// So many clones of S/golden into a namespace are wanted, and have their PVCs.
fn wanted(sim: &mut Sim, namespace: &str, count: usize) {
    let names: Vec<String> = (0..count).map(|number| format!("disk{number}")).collect();
    for name in &names {
        let token =
            token(sim, PRIVATE, Cloned { source: (S, "golden"), target: (namespace, name), generated: "" });
        let meta = json!({"namespace": namespace, "name": name, "annotations": {CLONE_TOKEN: token}});
        sim.put(Kind::DataVolume, json!({"metadata": meta, "spec": pvc(S)}));
    }
    sim.settle();
    for name in &names {
        sim.bind(&key(Kind::PersistentVolumeClaim, namespace, name));
    }
    sim.settle();
}

/// However many clones one namespace wants, one of another namespace begins.
#[test]
fn namespaces_share_the_places_of_a_source() {
    let mut sim = cluster();
    let mut got = Vec::new();
    for namespace in ["t", "u", "v", "w", "x"] {
        let before = sim.keys(Kind::Pod).len();
        wanted(&mut sim, namespace, PLACES);
        got.push(sim.keys(Kind::Pod).len() - before);
    }
    assert_eq!(got, [4, 2, 1, 1, 0], "of {PLACES}");
}

#[test]
fn one_source_has_few_source_pods_at_a_time() {
    const MOST: usize = PLACES / 2;
    let mut sim = cluster();
    source(&mut sim, T);
    let names: Vec<String> = (0..=MOST).map(|number| format!("disk{number}")).collect();
    for name in &names {
        sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": name}, "spec": pvc(T)}));
    }
    sim.settle();
    for name in &names {
        sim.bind(&key(Kind::PersistentVolumeClaim, T, name));
    }
    sim.settle();
    let busy = |sim: &Sim| {
        let of = |name: &&String| {
            let said = sim.condition(&key(Kind::DataVolume, T, name), "Running").unwrap();
            said.1 == "CloneSourceBusy" && said.2.contains("read PVC t/golden now")
        };
        names.iter().filter(of).count()
    };
    let pods = sim.keys(Kind::Pod);
    assert_eq!((pods.len(), busy(&sim)), (MOST, 1), "{pods:?}");
    // One of them ends, and the next begins.
    worker_ends(&mut sim, &pods[0], Some(Stage::Failed));
    sim.settle();
    assert_eq!((sim.keys(Kind::Pod).len(), busy(&sim)), (MOST, 0), "{:?}", sim.keys(Kind::Pod));
}

#[test]
fn a_clone_that_waits_for_long_is_looked_at_less_often() {
    let mut sim = cluster();
    sim.vanish(&golden());
    let object = volume(&sim, pvc(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    let began = sim.now;
    let after =
        |time: jiff::Timestamp, seconds| time.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    for (waited, pause) in [(0, 5), (5, 5), (10, 10), (40, 40), (80, 60), (86_400, 60)] {
        let now = after(began, waited);
        let plan = crate::decide(&sim.world, &disk(), now);
        assert_eq!(plan.again, Some(after(now, pause)), "after {waited} s");
    }
}
