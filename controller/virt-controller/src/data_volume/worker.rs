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
pub(crate) fn look<'a>(
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
                Worker::Broke(word, message, after(ended, attempt(pod)))
            }
        };
    }
    if pod.has_ended() {
        // Evicted, or its node is gone: no container says how it ended.
        let word = pod.reason.clone().unwrap_or_else(|| "Error".to_owned());
        let message = pod.message.clone().unwrap_or_else(|| "the pod has ended".to_owned());
        return Worker::Broke(word, message, after(seen.unwrap_or(now), attempt(pod)));
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
    let (word, message) = why(world, pod, work.container(), noun, image);
    Worker::Waits(word, message)
}

/// The number of earlier pods that ended before their work.
pub(crate) fn attempt(pod: &Pod) -> i64 {
    pod.meta.annotations.get(ATTEMPT).and_then(|text| text.parse().ok()).unwrap_or(0).max(0)
}

/// Pods that did not end their work, with this one. What the pod says of itself counts no further than what was counted here.
pub(crate) fn count(broken: &Pod, counted: i64) -> i64 {
    attempt(broken).min(counted).saturating_add(1).max(counted)
}

/// Message if the worker's name is taken by a pod of a deleted PVC on a silent node: two pods of one name
/// cannot exist.
pub(crate) fn is_in_the_way(pod: &str) -> String {
    format!("pod {pod} exists already, and is not of this PVC: wait until it is gone, or delete it")
}

fn after(ended: Timestamp, attempt: i64) -> Timestamp {
    let pause = PAUSE.0.saturating_mul(1 << attempt.min(10)).min(PAUSE.1);
    ended.checked_add(SignedDuration::from_secs(pause)).unwrap_or(ended)
}

/// Reason and message of the scheduler or the kubelet why a pod with this container does not run.
pub(crate) fn why(
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
