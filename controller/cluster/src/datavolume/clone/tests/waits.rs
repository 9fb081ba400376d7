//! How long a clone waits, how often it is looked at meanwhile, and who waits for it.

use super::super::reader::UNREAD;
use super::super::serve::MOST;
use super::*;
use jiff::SignedDuration;
use kubernetes::worker::ATTEMPT;

/// The source pod answers from now on.
fn is_ready(sim: &mut Sim, pod: &Key) {
    runs(sim, pod, "cdi-clone-source");
    let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": sim.now.to_string()}]);
    sim.change(pod, json!({"status": {"conditions": ready}}));
    sim.settle();
}

fn passes(sim: &mut Sim, seconds: i64) {
    sim.later(seconds);
    sim.settle();
}

/// The importer pod is never let onto a node: by a quota, by its image, by whatever its namespace has set.
#[test]
fn a_source_pod_that_nobody_reads_from_goes_and_comes_back_later_each_time() {
    let mut sim = cluster();
    let object = volume(&sim, pvc(S));
    sim.put(Kind::DataVolume, object);
    sim.settle();
    bound(&mut sim);
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

#[test]
fn one_source_has_few_source_pods_at_a_time() {
    let mut sim = cluster();
    source(&mut sim, T);
    let names: Vec<String> = (0..=MOST).map(|number| format!("disk{number}")).collect();
    for name in &names {
        sim.put(Kind::DataVolume, json!({"metadata": {"namespace": T, "name": name}, "spec": pvc(T)}));
    }
    sim.settle();
    for name in &names {
        sim.change(&key(Kind::PersistentVolumeClaim, T, name), json!({"status": {"phase": "Bound"}}));
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
