//! The state of a launcher pod, as its VMI sees it.

use crate::pod::LOG;
use api::launcher::Ending;
use cluster_model::objects::{Container, Pod, PodPhase};

/// Reasons of a container that waits as expected.
const PATIENT: [&str; 3] = ["ContainerCreating", "PodInitializing", ""];

/// True if the launcher runs. It need not be ready, since its readiness is that of the guest, which is not
/// started yet.
pub(crate) fn is_up(pod: &Pod) -> bool {
    pod.phase == PodPhase::Running
        && pod.container("compute").is_some_and(|compute| compute.running)
        && pod.containers.iter().all(|container| {
            container.init || ["compute", LOG].contains(&container.name.as_str()) || container.ready
        })
}

/// True if the launcher has ended, and is not restarted. Another container may still wait to start.
pub(crate) fn is_over(pod: &Pod) -> bool {
    pod.is_over()
}

/// A container beside the launcher that has ended, although it has to run as long as the guest. It is not
/// restarted, so the guest is never started. Init containers, which have to end, and the container of the
/// log, which is optional, do not count.
pub(crate) fn ended_container(pod: &Pod) -> Option<&Container> {
    pod.containers.iter().find(|container| {
        !container.init && container.name != LOG && container.name != "compute" && container.ended.is_some()
    })
}

/// Reason and message of the kubelet why a container of the pod does not start.
pub(crate) fn start_failure(pod: &Pod) -> Option<(String, String)> {
    let waiting =
        pod.containers.iter().filter_map(|container| Some((container, container.waiting.as_ref()?)));
    let (container, (reason, message)) =
        waiting.into_iter().find(|(_, (reason, _))| !PATIENT.contains(&reason.as_str()))?;
    let message = if message.is_empty() {
        format!("container {} waits: {reason}", container.name)
    } else {
        message.clone()
    };
    Some((reason.clone(), message))
}

/// Reason and message of the end of a pod, or of its deletion.
pub(crate) fn end_reason(pod: &Pod) -> (String, String) {
    if let Some(reason) = &pod.reason {
        return (reason.clone(), pod.message.clone().unwrap_or_default());
    }
    let disrupted = pod.condition("DisruptionTarget").filter(|condition| condition.status == "True");
    if let Some(condition) = disrupted {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        return (text(&condition.reason), text(&condition.message));
    }
    // The launcher's message comes first, since the others may have ended only because of it.
    let mut all = pod.container("compute").into_iter().chain(&pod.containers);
    let ended = all.find_map(|container| {
        let (code, reason, message, _) = container.ended.as_ref().filter(|(code, ..)| *code != 0)?;
        let word = if reason.is_empty() { "Error" } else { reason };
        let mut text = format!("container {} ended with exit code {code}", container.name);
        let message = Ending::readable(message);
        if !message.is_empty() {
            text = format!("{text}: {message}");
        }
        Some((word.to_owned(), text))
    });
    ended.or_else(|| ended_too_early(pod)).unwrap_or_else(|| match pod.is_going() {
        true => ("PodTerminating".to_owned(), "virt-launcher pod is terminating".to_owned()),
        false => ("PodEnded".to_owned(), "virt-launcher pod has ended".to_owned()),
    })
}

/// A container that ended in order while the launcher runs, and is not to end.
fn ended_too_early(pod: &Pod) -> Option<(String, String)> {
    let container = ended_container(pod).filter(|_| !is_over(pod) && !pod.is_going())?;
    let message = match &container.ended {
        Some((_, _, message, _)) if !message.is_empty() => format!(": {message}"),
        _ => String::new(),
    };
    let name = &container.name;
    Some(("PodEnded".to_owned(), format!("container {name} ended before the guest was started{message}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::{Key, Kind, StoredObject as _};
    use serde_json::{Value, json};

    fn pod(status: &Value, is_going: bool) -> Pod {
        let going = is_going.then_some("2027-01-01T00:00:00Z");
        let meta = json!({"namespace": "n", "name": "p", "uid": "u", "deletionTimestamp": going});
        Pod::parse(json!({"metadata": meta, "status": status})).unwrap()
    }

    fn runs(name: &str, is_ready: bool) -> Value {
        json!({"name": name, "ready": is_ready, "state": {"running": {}}})
    }

    fn waits(name: &str, reason: &str, message: &str) -> Value {
        json!({"name": name, "state": {"waiting": {"reason": reason, "message": message}}})
    }

    /// A guest that is handed over while a container beside it does not work yet has no files, or no network.
    #[test]
    fn a_launcher_is_up_when_its_containers_are_ready() {
        let compute = runs("compute", false);
        let alone = json!([compute]);
        for (phase, init, containers, expected) in [
            ("Running", json!([]), alone.clone(), true),
            ("Pending", json!([]), alone.clone(), false),
            ("Running", json!([]), json!([]), false),
            ("Running", json!([]), json!([waits("compute", "ContainerCreating", "")]), false),
            ("Running", json!([]), json!([compute, runs("virtiofs-files", true)]), true),
            ("Running", json!([]), json!([compute, runs("virtiofs-files", false)]), false),
            ("Running", json!([]), json!([compute, runs(LOG, false)]), true),
            ("Running", json!([ended("container-disk-binary", 0, "")]), alone, true),
        ] {
            let status =
                json!({"phase": phase, "initContainerStatuses": init, "containerStatuses": containers});
            assert_eq!(is_up(&pod(&status, false)), expected, "{status}");
            assert!(ended_container(&pod(&status, false)).is_none(), "{status}");
        }
    }

    #[test]
    fn a_container_that_does_not_start_is_told_unless_it_is_about_to() {
        for (containers, expected) in [
            (json!([waits("compute", "ContainerCreating", ""), waits("a", "PodInitializing", "")]), None),
            (json!([waits("compute", "", "m"), runs("a", true)]), None),
            (json!([waits("compute", "ErrImagePull", "404")]), Some(("ErrImagePull", "404"))),
            (
                json!([waits("compute", "PodInitializing", ""), waits("a", "CrashLoopBackOff", "")]),
                Some(("CrashLoopBackOff", "container a waits: CrashLoopBackOff")),
            ),
        ] {
            let told =
                start_failure(&pod(&json!({"phase": "Pending", "containerStatuses": containers}), false));
            let told = told.as_ref().map(|(reason, message)| (reason.as_str(), message.as_str()));
            assert_eq!(told, expected, "{containers}");
        }
    }

    /// Users read this of a VMI that has failed, and nothing else.
    #[test]
    fn a_pod_that_ended_says_why() {
        let of = |containers: Value| json!({"phase": "Failed", "containerStatuses": containers});
        let disrupted = |is: &str| {
            let said = json!({"type": "DisruptionTarget", "status": is, "reason": "EvictionByEvictionAPI", "message": "m"});
            json!({"phase": "Failed", "conditions": [said]})
        };
        let running =
            |beside: Value| json!({"phase": "Running", "containerStatuses": [runs("compute", true), beside]});
        let mut killed = ended("compute", 137, "");
        killed["state"]["terminated"]["reason"] = json!("OOMKilled");
        let early = "container virtiofs-files ended before the guest was started";
        let (over, going) = ("virt-launcher pod has ended", "virt-launcher pod is terminating");
        for (status, is_going, reason, message) in [
            (json!({"phase": "Failed", "reason": "Evicted", "message": "m"}), false, "Evicted", "m"),
            (json!({"phase": "Failed", "reason": "NodeLost"}), true, "NodeLost", ""),
            (disrupted("True"), true, "EvictionByEvictionAPI", "m"),
            (disrupted("False"), false, "PodEnded", over),
            (of(json!([killed])), true, "OOMKilled", "container compute ended with exit code 137"),
            (
                of(json!([ended("a", 2, "x"), ended("compute", 1, "no disk")])),
                false,
                "Error",
                "container compute ended with exit code 1: no disk",
            ),
            (
                of(json!([ended("a", 2, "x"), ended("compute", 0, "")])),
                false,
                "Error",
                "container a ended with exit code 2: x",
            ),
            (of(json!([ended("compute", 0, "")])), false, "PodEnded", over),
            (of(json!([ended("compute", 0, "")])), true, "PodTerminating", going),
            (of(json!([ended("compute", 0, ""), ended("virtiofs-files", 0, "")])), false, "PodEnded", over),
            (running(ended("virtiofs-files", 0, "")), false, "PodEnded", early),
            (running(ended("virtiofs-files", 0, "")), true, "PodTerminating", going),
        ] {
            assert_eq!(
                end_reason(&pod(&status, is_going)),
                (reason.to_owned(), message.to_owned()),
                "{status}"
            );
        }
    }

    /// A VMI whose launcher runs, and other containers of its pod as they are said to be.
    fn beside(ready: &Value, beside: &Value) -> (Sim, Key, Key) {
        let mut sim = Sim::new();
        let key = sim.put(Kind::VirtualMachineInstance, vmi("web"));
        sim.settle();
        let pod = sim.pod_of(&key).unwrap();
        let compute = json!({"name": "compute", "ready": true, "state": {"running": {}}});
        sim.change(
            &pod,
            json!({"spec": {"nodeName": "node1"}, "status": {
                "phase": "Running", "initContainerStatuses": [ready], "containerStatuses": [compute, beside],
            }}),
        );
        sim.settle();
        (sim, key, pod)
    }

    fn ended(name: &str, code: i64, message: &str) -> Value {
        let end = json!({"exitCode": code, "message": message, "finishedAt": "2026-01-01T00:00:00Z"});
        json!({"name": name, "ready": false, "state": {"terminated": end}})
    }

    #[test]
    fn a_container_that_ends_before_the_guest_is_started_ends_the_vmi_with_its_words() {
        for (code, said) in [
            (1, "container virtiofs-files ended with exit code 1: no such folder"),
            (0, "container virtiofs-files ended before the guest was started: no such folder"),
        ] {
            let end = ended("virtiofs-files", code, "no such folder");
            let (sim, key, pod) = beside(&ended("container-disk-binary", 0, ""), &end);
            assert_eq!(sim.get(&key)["status"]["phase"], "Failed", "{code}");
            let (_, _, message) = sim.condition(&key, "Synchronized").unwrap();
            assert_eq!(message, said);
            assert!(
                sim.get(&pod)["metadata"]["deletionTimestamp"].is_string(),
                "the launcher waits for nobody"
            );
        }
    }

    #[test]
    fn what_makes_ready_and_the_log_may_end() {
        let (sim, key, _) =
            beside(&ended("container-disk-binary", 0, ""), &ended("guest-console-log", 1, "no such file"));
        assert_eq!(sim.get(&key)["status"]["phase"], "Scheduled");
    }

    #[test]
    fn a_pod_without_a_word_of_its_containers_is_over_by_its_phase() {
        for (status, expected) in [
            (json!({"phase": "Failed", "reason": "Evicted"}), true),
            (json!({"phase": "Succeeded"}), true),
            (json!({"phase": "Running", "containerStatuses": [ended("compute", 0, "")]}), true),
            (json!({"phase": "Running", "containerStatuses": [runs("compute", true)]}), false),
            (json!({"phase": "Pending"}), false),
        ] {
            assert_eq!(is_over(&pod(&status, false)), expected, "{status}");
        }
    }
}
