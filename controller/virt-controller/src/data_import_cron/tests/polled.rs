//! Polls: when there is one, and whose answer is believed.

use super::*;
use jiff::SignedDuration;

/// Midnight, which is the time of the schedule.
fn at_midnight(sim: &mut Sim) {
    sim.now = "2027-01-17T00:00:00Z".parse().unwrap();
}

fn asks(sim: &Sim) -> bool {
    question(&sim.world, "n", "images", sim.now).is_some()
}

#[test]
fn a_poll_is_due_at_its_time_and_looked_at_then() {
    let mut sim = imported(json!({}), &[1]);
    let midnight: Timestamp = "2027-01-17T00:00:00Z".parse().unwrap();
    assert_eq!(crate::decide(&sim.world, &cron(), sim.now).again, Some(midnight));
    at_midnight(&mut sim);
    assert!(asks(&sim));
    // Its loss does not touch the DataImportCron.
    let lost = sim.now.checked_add(SignedDuration::from_mins(5)).ok();
    assert_eq!(crate::decide(&sim.world, &cron(), sim.now).again, lost);
    sim.now = midnight.checked_sub(SignedDuration::from_secs(1)).unwrap();
    assert!(!asks(&sim));
}

#[test]
fn nobody_is_asked_for_one_that_goes_nor_beside_another_cdi() {
    let mut sim = Sim::new();
    put(&mut sim, json!({}));
    sim.change(&cron(), json!({"metadata": {"finalizers": ["held"]}}));
    let spec = json!({"service": {"name": "cdi-api", "namespace": "cdi"}});
    let other = sim
        .put(Kind::APIService, json!({"metadata": {"name": cluster_model::objects::UPLOADS}, "spec": spec}));
    assert!(!asks(&sim));
    sim.vanish(&other);
    assert!(asks(&sim));
    sim.delete(&cron());
    assert!(!asks(&sim));
    image_is(&mut sim, &cron(), Ok(&digest(1)));
    assert!(crate::decide(&sim.world, &cron(), sim.now).is_empty());
}

/// One of that name was deleted, and made again with another image.
#[test]
fn the_answer_to_an_earlier_one_of_that_name_is_not_believed() {
    let mut sim = Sim::new();
    put(&mut sim, json!({}));
    image_is(&mut sim, &cron(), Ok(&digest(1)));
    let late = sim.world.polls.clone();
    sim.vanish(&cron());
    put(&mut sim, json!({}));
    sim.world.polls = late;
    sim.settle();
    assert!(imports(&sim).is_empty() && asks(&sim));
    // Nor what is no digest.
    image_is(&mut sim, &cron(), Ok("latest"));
    sim.settle();
    assert!(sim.get(&cron())["metadata"]["annotations"][DESIRED_DIGEST].is_null());
}

#[test]
fn a_pvc_that_is_another_is_imported_at_the_time_of_the_schedule() {
    let mut sim = Sim::new();
    at_midnight(&mut sim);
    let gold = |sim: &mut Sim, uid: &str| {
        let meta = json!({"namespace": "n", "name": "gold", "uid": uid, "resourceVersion": "9999"});
        sim.world.put(Kind::PersistentVolumeClaim, json!({"metadata": meta, "spec": {}}), sim.now);
    };
    gold(&mut sim, "0a1b2c3d-4e5f-6071");
    let registry = json!({"registry": null, "pvc": {"namespace": "n", "name": "gold"}});
    put(&mut sim, json!({"template": {"spec": {"source": registry}}}));
    let desired = |sim: &Sim| sim.get(&cron())["metadata"]["annotations"][DESIRED_DIGEST].clone();
    assert_eq!(desired(&sim), "uid:0a1b2c3d-4e5f-6071");
    gold(&mut sim, "ffffffff-4e5f-6071");
    sim.advance(24 * 3600 - 1);
    sim.settle();
    assert_eq!(desired(&sim), "uid:0a1b2c3d-4e5f-6071", "before its time");
    sim.advance(1);
    sim.settle();
    assert_eq!(desired(&sim), "uid:ffffffff-4e5f-6071");
}

/// Of two pods the last one counts, and the earlier ones go, whatever order they are known in.
#[test]
fn of_poll_pods_the_last_one_counts_and_the_others_go() {
    for is_over in [false, true] {
        let mut sim = Sim::new();
        put(&mut sim, json!({"template": {"spec": {"source": {"registry": {"secretRef": "login"}}}}}));
        let first = sim.get(&poller(0)).clone();
        for (number, name) in [(1, "a"), (2, "z")] {
            let mut pod = first.clone();
            pod["metadata"]["name"] = json!(name);
            pod["metadata"]["annotations"][cluster_model::worker::ATTEMPT] = json!(number.to_string());
            sim.put(Kind::Pod, pod);
        }
        let last = Key::new(Kind::Pod, "n", "z");
        if is_over {
            let report = Report { stage: Stage::Failed, message: "denied".to_owned(), ..Report::default() };
            worker_reports(&mut sim, &last, 1, &report);
        }
        sim.settle();
        assert_eq!(sim.keys(Kind::Pod), [last], "{is_over}");
    }
}

/// A pod of another kind is no poll pod, though the DataImportCron owns it, and so is one of another namespace.
#[test]
fn only_poll_pods_of_its_namespace_are_its_own() {
    let mut sim = Sim::new();
    put(&mut sim, json!({"template": {"spec": {"source": {"registry": {"secretRef": "login"}}}}}));
    let own = sim.get(&poller(0)).clone();
    let mut strangers = [own.clone(), own];
    strangers[0]["metadata"]["name"] = json!("worker");
    strangers[0]["metadata"]["labels"]["cdi.kubevirt.io"] = json!("importer");
    strangers[1]["metadata"]["namespace"] = json!("m");
    for mut stranger in strangers {
        stranger["metadata"]["annotations"][cluster_model::worker::ATTEMPT] = json!("9");
        let key = sim.put(Kind::Pod, stranger);
        worker_reports(
            &mut sim,
            &key,
            0,
            &Report { stage: Stage::Done, digest: digest(7), ..Report::default() },
        );
        sim.settle();
        assert_eq!(imports(&sim), [], "{key}");
        assert!(sim.objects.contains_key(&key) && sim.objects.contains_key(&poller(0)), "{key}");
    }
}

#[test]
fn a_poll_pod_has_the_settings_of_its_registry_and_room_for_its_work() {
    let mut sim = Sim::new();
    let config = json!({"insecureRegistries": ["registry.example"], "importProxy": {"HTTPProxy": ""}});
    sim.put(Kind::CDIConfig, json!({"metadata": {"name": "config"}, "spec": config}));
    put(
        &mut sim,
        json!({"template": {"spec": {"source": {"registry": {"secretRef": "login"}}, "priorityClassName": ""}}}),
    );
    let pod = sim.get(&poller(0)).clone();
    let container = &pod["spec"]["containers"][0];
    let job = container["env"][0]["value"].as_str().unwrap();
    assert!(job.contains(r#""insecure":true"#), "{job}");
    assert!(pod["metadata"]["annotations"][cluster_model::worker::TOLD].is_string(), "{pod}");
    assert!(pod["spec"]["priorityClassName"].is_null());
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let (mounts, volumes) = (names(&container["volumeMounts"]), names(&pod["spec"]["volumes"]));
    assert!(mounts.contains(&"tmp".to_owned()) && mounts.len() == volumes.len(), "{mounts:?} {volumes:?}");
}

/// A pod that polls goes through the proxy, and goes itself where nobody has to be polled any more.
#[test]
fn a_poll_pod_has_the_proxy_and_goes_with_the_reason_for_it() {
    for (proxy, is_made) in [("HTTPProxy", true), ("HTTPSProxy", true), ("noProxy", false)] {
        let mut sim = Sim::new();
        let spec = json!({"importProxy": {"HTTPProxy": "", proxy: "proxy:3128"}});
        sim.put(Kind::CDIConfig, json!({"metadata": {"name": "config"}, "spec": spec}));
        put(&mut sim, json!({}));
        assert_eq!(sim.objects.contains_key(&poller(0)), is_made, "{proxy}");
        if is_made {
            let env = sim.get(&poller(0))["spec"]["containers"][0]["env"].to_string();
            assert!(env.contains(r#""value":"proxy:3128""#), "{env}");
        }
        let gold = json!({"registry": null, "pvc": {"namespace": "n", "name": "gold"}});
        sim.change(&cron(), json!({"spec": {"template": {"spec": {"source": gold}}}}));
        sim.settle();
        assert_eq!(sim.keys(Kind::Pod), [], "{proxy}");
    }
}

#[test]
fn a_poll_pod_that_failed_has_no_answer_and_says_what_is_known() {
    let report = |message: &str| Report {
        stage: Stage::Failed,
        message: message.to_owned(),
        digest: digest(7),
        ..Report::default()
    };
    for (reason, message, expected) in [
        ("Error", "denied", "denied"),
        ("Error", "", "the poll pod ended without an answer (Error, exit code 1)"),
        ("", "", "the poll pod ended without an answer (exit code 1)"),
    ] {
        let mut sim = Sim::new();
        put(&mut sim, json!({"template": {"spec": {"source": {"registry": {"secretRef": "login"}}}}}));
        worker_reports(&mut sim, &poller(0), 1, &report(message));
        let mut ended = sim.get(&poller(0))["status"]["containerStatuses"].clone();
        ended[0]["state"]["terminated"]["reason"] = json!(reason);
        sim.change(&poller(0), json!({"status": {"containerStatuses": ended}}));
        sim.settle();
        assert_eq!(imports(&sim), []);
        let said = sim.condition(&cron(), UP_TO_DATE).unwrap().2;
        assert!(said.ends_with(&format!("; the last poll failed: {expected}")), "{said}");
    }
}

/// The kubelet warns of a pod, and it runs or goes all the same.
#[test]
fn a_poll_pod_that_runs_or_goes_is_not_said_to_wait() {
    for change in [
        json!({"status": {"containerStatuses": [{"name": "poller", "state": {"running": {}}}]}}),
        json!({"metadata": {"deletionTimestamp": "2027-01-15T00:00:00Z", "finalizers": ["kubelet"]}}),
        json!({}),
    ] {
        let mut sim = Sim::new();
        put(&mut sim, json!({"template": {"spec": {"source": {"registry": {"secretRef": "login"}}}}}));
        let pod = sim.uid(&poller(0));
        let warning = json!({"metadata": {"namespace": "n", "name": "w"}, "type": "Warning", "reason": "FailedMount",
            "message": "no room", "involvedObject": {"kind": "Pod", "namespace": "n", "name": poller(0).name, "uid": pod}});
        sim.world.put(Kind::Event, warning, sim.now);
        sim.change(&poller(0), change.clone());
        sim.settle();
        let said = sim.condition(&cron(), UP_TO_DATE).unwrap().2;
        assert_eq!(said.contains("does not run: FailedMount: no room"), change == json!({}), "{said}");
    }
}
