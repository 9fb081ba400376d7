//! The state of the worker pod of a disk.

use api::job::{Report, Stage};
use cluster_model::objects::{Pod, Work, World};
use cluster_model::worker::ATTEMPT;
use jiff::{SignedDuration, Timestamp};

/// Pauses after a pod that did not complete its work, in seconds: the first and the longest.
pub(crate) const PAUSE: (i64, i64) = (5, 300);

/// The state of a worker pod.
#[derive(Debug, PartialEq)]
pub(crate) enum Worker<'a> {
    None,
    /// The pod does not run yet: reason and message.
    Waits(String, String),
    /// The pod runs. Its last report, where there is one.
    Runs(Option<&'a Report>),
    /// The disk is complete.
    Done(Report),
    /// The work failed, and another pod cannot do better.
    Failed(Report),
    /// The pod ended before its work: reason, message, and the time of the next pod.
    Broke(String, String, Timestamp),
    /// The certificate of the pod is about to end, and no client sends anything: a message. The next pod begins at once.
    Late(String),
}

/// The state of the pod that does this work.
///
/// An upload that failed for good does not end the work: the next pod takes another one. `seen`: the time
/// since the status says that the pod does not run. `image`: the image that the node pulls for it, beside the
/// worker's own image.
pub(crate) fn observe<'a>(
    world: &'a World,
    pod: Option<&Pod>,
    work: Work,
    image: Option<&str>,
    seen: Option<Timestamp>,
    now: Timestamp,
) -> Worker<'a> {
    let Some(pod) = pod else { return Worker::None };
    if pod.is_going() && !pod.has_ended() {
        return Worker::Waits("Terminating".to_owned(), "the pod is being deleted".to_owned());
    }
    let container = pod.container(work.container());
    if let Some((code, word, message, finished)) = container.and_then(|container| container.ended.as_ref()) {
        let report = Report::of_termination(message);
        return match report {
            // It says so before it tells its client, and may be killed then.
            Some(report) if report.stage == Stage::Done => Worker::Done(report),
            Some(report) if report.stage == Stage::Failed && work != Work::Upload => Worker::Failed(report),
            // A deleted pod is not a failure: the next one continues, and is not counted.
            Some(report) if pod.is_going() && report.stage == Stage::Waiting => {
                Worker::Waits("Terminating".to_owned(), "the pod is being deleted".to_owned())
            }
            Some(report) if report.deadline_passed && matches!(work, Work::Upload | Work::Serve) => {
                Worker::Late(report.message)
            }
            report => {
                let own = report.as_ref().filter(|report| report.stage == Stage::Failed);
                let own = own.map(|report| report.reason.clone()).filter(|reason| !reason.is_empty());
                let said = report.map(|report| report.message).filter(|message| !message.is_empty());
                let said = said.or_else(|| Some(message.clone()).filter(|message| !message.is_empty()));
                let message = said.unwrap_or_else(|| format!("the worker ended with exit code {code}"));
                // A node after a restart does not know the time, and a clock may be ahead.
                let ended = finished.parse().ok().filter(|ended| *ended <= now).or(seen).unwrap_or(now);
                let word = own.unwrap_or_else(|| word.clone());
                let word = if word.is_empty() { "Error".to_owned() } else { word };
                Worker::Broke(word, message, next_attempt(ended, attempt(pod)))
            }
        };
    }
    if pod.has_ended() {
        // Evicted, or its node is gone: no container says how it ended.
        let word = pod.reason.clone().unwrap_or_else(|| "Error".to_owned());
        let message = pod.message.clone().unwrap_or_else(|| "the pod has ended".to_owned());
        return Worker::Broke(word, message, next_attempt(seen.unwrap_or(now), attempt(pod)));
    }
    if container.is_some_and(|container| container.running) {
        let meta = &pod.meta;
        let at = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
        let told = world.reports.get(&at).filter(|(of, _)| Some(of) == meta.uid.as_ref());
        return match told {
            // Only the holder of this pod's certificate can report this (`reports`).
            Some((_, report)) if work == Work::Upload && report.stage == Stage::Done => {
                Worker::Done(report.clone())
            }
            told => Worker::Runs(told.map(|(_, report)| report)),
        };
    }
    let noun = match work {
        Work::Import => "Importer",
        Work::Upload => "Upload",
        Work::Export => "Export",
        Work::Serve => "Source",
    };
    let (word, message) = why_not_running(world, pod, work.container(), noun, image);
    Worker::Waits(word, message)
}

/// Report of an importer pod whose container has completed the disk. Other containers of the pod may still run.
pub(crate) fn done_report(pod: &Pod) -> Option<Report> {
    let (_, _, message, _) = pod.container(Work::Import.container())?.ended.as_ref()?;
    Report::of_termination(message).filter(|report| report.stage == Stage::Done)
}

/// The number of earlier pods that ended before their work.
pub(crate) fn attempt(pod: &Pod) -> i64 {
    pod.meta.annotations.get(ATTEMPT).and_then(|text| text.parse().ok()).unwrap_or(0).max(0)
}

/// Number of pods that ended before their work, with this one. The number in the pod's own annotation counts only up to `counted`, the
/// number that was counted here.
pub(crate) fn count(broken: &Pod, counted: i64) -> i64 {
    attempt(broken).min(counted).saturating_add(1).max(counted)
}

/// Message if the worker's name is taken by a pod of a deleted PVC on a silent node: two pods of one name
/// cannot exist.
pub(crate) fn name_taken_message(pod: &str) -> String {
    format!("pod {pod} exists already, and is not of this PVC: wait until it is gone, or delete it")
}

fn next_attempt(ended: Timestamp, attempt: i64) -> Timestamp {
    let pause = PAUSE.0.saturating_mul(1 << attempt.min(10)).min(PAUSE.1);
    ended.checked_add(SignedDuration::from_secs(pause)).unwrap_or(ended)
}

/// Reason and message of the scheduler or the kubelet why a pod with this container does not run.
pub(crate) fn why_not_running(
    world: &World,
    pod: &Pod,
    container: &str,
    noun: &str,
    image: Option<&str>,
) -> (String, String) {
    if let Some(condition) = pod.unscheduled() {
        let said = condition.message.clone().unwrap_or_default();
        let reason = condition.reason.clone().unwrap_or_else(|| "Unschedulable".to_owned());
        return (reason, format!("{noun} pod cannot be scheduled: {said}"));
    }
    let waiting = pod.container(container).and_then(|container| container.waiting.clone());
    let meta = &pod.meta;
    let at = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
    let warning = world.warnings.get(&at).filter(|warning| Some(&warning.pod) == meta.uid.as_ref());
    match waiting {
        Some((word, message))
            if matches!(word.as_str(), "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName") =>
        {
            let own = &world.facts.worker_image;
            let is_named =
                [Some(own.as_str()), image].into_iter().flatten().any(|image| message.contains(image));
            let names = match image {
                Some(image) => format!("{image} or {own}"),
                None => own.clone(),
            };
            let message = if is_named { message } else { format!("{message}: {names}") };
            ("ImagePullFailed".to_owned(), message)
        }
        Some((word, message)) => match warning {
            Some(warning) if message.is_empty() => (warning.reason.clone(), warning.message.clone()),
            _ => (word, message),
        },
        None => match warning {
            Some(warning) => (warning.reason.clone(), warning.message.clone()),
            None => ("Pending".to_owned(), "the pod waits for its node".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::Sim;
    use cluster_model::objects::{StoredObject as _, Warning};
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        now() + SignedDuration::from_secs(seconds)
    }

    fn pod(status: &Value, is_going: bool, attempt: &str) -> Pod {
        let going = is_going.then_some("2027-01-01T00:00:00Z");
        let meta = json!({
            "namespace": "n", "name": "p", "uid": "u", "deletionTimestamp": going, "annotations": {ATTEMPT: attempt},
        });
        Pod::parse(json!({"metadata": meta, "status": status})).unwrap()
    }

    fn state(work: Work, state: &Value) -> Value {
        json!({"phase": "Running", "containerStatuses": [{"name": work.container(), "state": state}]})
    }

    fn ended_outcome(work: Work, code: i64, reason: &str, message: &str, seconds: i64) -> Value {
        let end = json!({"exitCode": code, "reason": reason, "message": message, "finishedAt": at(seconds).to_string()});
        let mut status = state(work, &json!({"terminated": end}));
        status["phase"] = json!("Failed");
        status
    }

    /// The state in words; the next pod in seconds from now.
    fn words(worker: Worker<'_>) -> String {
        match worker {
            Worker::None => "none".to_owned(),
            Worker::Waits(reason, message) => format!("waits: {reason}: {message}"),
            Worker::Runs(report) => format!("runs: {}", report.map_or("-", |report| report.message.as_str())),
            Worker::Done(_) => "done".to_owned(),
            Worker::Failed(report) => format!("failed: {}", report.reason),
            Worker::Broke(reason, message, next) => {
                format!("broke: {reason}: {message}: {}", next.duration_since(now()).as_secs())
            }
            Worker::Late(message) => format!("late: {message}"),
        }
    }

    /// A pod that is taken for a failure ends the import for good, and one that is taken for whole is a wrong disk.
    #[test]
    fn a_worker_that_ended_says_what_comes_next() {
        use Work::{Import, Serve, Upload};
        let says = |stage, deadline_passed| {
            let (reason, message) = ("Forbidden".to_owned(), "m".to_owned());
            Report { stage, reason, message, deadline_passed, ..Report::default() }.termination()
        };
        let (done, failed, waits) =
            (says(Stage::Done, false), says(Stage::Failed, false), says(Stage::Waiting, false));
        let (late, none) = (says(Stage::Waiting, true), String::new());
        let going = "waits: Terminating: the pod is being deleted";
        for (work, message, is_going, expected) in [
            (Import, &done, false, "done"),
            (Upload, &done, false, "done"),
            (Import, &done, true, "done"),
            (Import, &failed, false, "failed: Forbidden"),
            (Upload, &failed, false, "broke: Forbidden: m: 3"),
            (Import, &waits, true, going),
            (Import, &waits, false, "broke: Killed: m: 3"),
            (Upload, &late, false, "late: m"),
            (Serve, &late, false, "late: m"),
            (Import, &late, false, "broke: Killed: m: 3"),
            (Import, &"panicked".to_owned(), false, "broke: Killed: panicked: 3"),
            (Import, &none, false, "broke: Killed: the worker ended with exit code 137: 3"),
        ] {
            let sim = Sim::new();
            let pod = pod(&ended_outcome(work, 137, "Killed", message, -2), is_going, "0");
            let worker = observe(&sim.world, Some(&pod), work, None, None, now());
            assert_eq!(words(worker), expected, "{work:?} {message} {is_going}");
        }
    }

    #[test]
    fn the_next_pod_begins_after_a_pause_that_grows_and_has_a_bound() {
        for (attempt, ended_at, seen, next) in [
            ("0", -2, None, 3),
            ("3", -2, None, 38),
            ("6", -2, None, 298),
            ("1000", -2, None, 298),
            ("-5", -2, None, 3),
            ("x", -2, None, 3),
            // The clock of the node is ahead.
            ("0", 60, Some(at(-1)), 4),
            ("0", 60, None, 5),
            ("0", 0, Some(at(-1)), 5),
        ] {
            let sim = Sim::new();
            let pod = pod(&ended_outcome(Work::Import, 1, "", "m", ended_at), false, attempt);
            let worker = observe(&sim.world, Some(&pod), Work::Import, None, seen, now());
            assert_eq!(words(worker), format!("broke: Error: m: {next}"), "{attempt} {ended_at}");
        }
        for (status, expected) in [
            (json!({"phase": "Failed", "reason": "Evicted", "message": "m"}), "broke: Evicted: m: 4"),
            (json!({"phase": "Failed"}), "broke: Error: the pod has ended: 4"),
        ] {
            let (sim, pod) = (Sim::new(), pod(&status, false, "0"));
            let worker = observe(&sim.world, Some(&pod), Work::Import, None, Some(at(-1)), now());
            assert_eq!(words(worker), expected);
        }
    }

    #[test]
    fn a_report_counts_for_the_pod_that_it_is_of() {
        use Work::{Import, Upload};
        for (work, stage, of, expected) in [
            (Import, Stage::Moving, "u", "runs: m"),
            (Import, Stage::Moving, "former", "runs: -"),
            (Import, Stage::Done, "u", "runs: m"),
            (Upload, Stage::Done, "u", "done"),
            (Upload, Stage::Done, "former", "runs: -"),
            (Upload, Stage::Moving, "u", "runs: m"),
        ] {
            let mut sim = Sim::new();
            let report = Report { stage, message: "m".to_owned(), ..Report::default() };
            sim.world.reports.insert(("n".to_owned(), "p".to_owned()), (of.to_owned(), report));
            let running = state(work, &json!({"running": {}}));
            let worker = observe(&sim.world, Some(&pod(&running, false, "0")), work, None, None, now());
            assert_eq!(words(worker), expected, "{work:?} {stage:?} {of}");
            let worker = observe(&sim.world, Some(&pod(&running, true, "0")), work, None, None, now());
            assert_eq!(words(worker), "waits: Terminating: the pod is being deleted");
        }
        assert_eq!(words(observe(&Sim::new().world, None, Import, None, None, now())), "none");
    }

    /// Users see nothing else of a worker that does not begin.
    #[test]
    fn a_worker_that_does_not_run_says_why_in_the_words_of_the_cluster() {
        let waiting = |reason: &str, message: &str| {
            state(Work::Import, &json!({"waiting": {"reason": reason, "message": message}}))
        };
        let unscheduled = |reason: Option<&str>| {
            let said =
                json!({"type": "PodScheduled", "status": "False", "reason": reason, "message": "no node"});
            json!({"phase": "Pending", "conditions": [said]})
        };
        let (own, image) = ("registry.example/cdi-worker:1", "registry.example/os:1");
        for (status, warned, expected) in [
            (unscheduled(Some("Full")), "u", "Full: Importer pod cannot be scheduled: no node".to_owned()),
            (unscheduled(None), "u", "Unschedulable: Importer pod cannot be scheduled: no node".to_owned()),
            (unscheduled(Some("SchedulerError")), "", "Pending: the pod waits for its node".to_owned()),
            (json!({"phase": "Pending"}), "u", "FailedMount: no secret".to_owned()),
            (json!({"phase": "Pending"}), "former", "Pending: the pod waits for its node".to_owned()),
            (waiting("ContainerCreating", ""), "u", "FailedMount: no secret".to_owned()),
            (waiting("ContainerCreating", ""), "former", "ContainerCreating: ".to_owned()),
            (waiting("CreateContainerError", "m"), "u", "CreateContainerError: m".to_owned()),
            (waiting("ErrImagePull", "m"), "u", format!("ImagePullFailed: m: {image} or {own}")),
            (waiting("ImagePullBackOff", own), "u", format!("ImagePullFailed: {own}")),
            (waiting("InvalidImageName", image), "u", format!("ImagePullFailed: {image}")),
        ] {
            let mut sim = Sim::new();
            let (reason, message) = ("FailedMount".to_owned(), "no secret".to_owned());
            let warning = Warning { pod: warned.to_owned(), reason, message };
            sim.world.warnings.insert(("n".to_owned(), "p".to_owned()), warning);
            let pod = pod(&status, false, "0");
            let worker = observe(&sim.world, Some(&pod), Work::Import, Some(image), None, now());
            assert_eq!(words(worker), format!("waits: {expected}"), "{status}");
        }
    }

    /// A pod of a tenant may say of itself that it is the thousandth.
    #[test]
    fn a_pod_counts_once_and_no_further_than_the_pods_before_it() {
        for (says, counted, count_then) in
            [("0", 0, 1), ("0", 1, 1), ("1", 1, 2), ("1000", 1, 2), ("0", 7, 7)]
        {
            let is = count(&pod(&Value::Null, false, says), counted);
            assert_eq!(is, count_then, "{says} {counted}");
        }
    }
}
