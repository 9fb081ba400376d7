//! What a pod's state means for its VMI.

use crate::pod::LOG;
use jiff::Timestamp;
use kubernetes::objects::{Pod, PodPhase};

/// Words for a container that waits in order: nothing is wrong yet.
const PATIENT: [&str; 3] = ["ContainerCreating", "PodInitializing", ""];

/// The launcher runs. It need not be ready: its readiness is the guest's, which nobody has started yet.
pub(super) fn is_up(pod: &Pod) -> bool {
    pod.phase == PodPhase::Running
        && pod.container("compute").is_some_and(|compute| compute.running)
        && pod.containers.iter().all(|container| {
            container.init || ["compute", LOG].contains(&container.name.as_str()) || container.ready
        })
}

/// The launcher has ended, and nobody starts it again. Another container may still wait for its first word.
pub(super) fn is_over(pod: &Pod) -> bool {
    pod.is_over() || pod.container("compute").is_some_and(|compute| compute.ended.is_some())
}

/// Why a container of the pod does not start, in the kubelet's words.
pub(super) fn trouble(pod: &Pod) -> Option<(String, String)> {
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

/// How a pod ended, or why it is being deleted: a word and a sentence.
pub(super) fn end(pod: &Pod) -> (String, String) {
    if let Some(reason) = &pod.reason {
        return (reason.clone(), pod.message.clone().unwrap_or_default());
    }
    let disrupted = pod.condition("DisruptionTarget").filter(|condition| condition.status == "True");
    if let Some(condition) = disrupted {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        return (text(&condition.reason), text(&condition.message));
    }
    // The launcher knows best; what others say may only follow from its end.
    let mut all = pod.container("compute").into_iter().chain(&pod.containers);
    let ended = all.find_map(|container| {
        let (code, reason, message, _) = container.ended.as_ref().filter(|(code, ..)| *code != 0)?;
        let word = if reason.is_empty() { "Error" } else { reason };
        let mut text = format!("container {} ended with exit code {code}", container.name);
        if !message.is_empty() {
            text = format!("{text}: {message}");
        }
        Some((word.to_owned(), text))
    });
    ended.unwrap_or_else(|| match pod.is_going() {
        true => ("PodTerminating".to_owned(), "virt-launcher pod is terminating".to_owned()),
        false => ("PodEnded".to_owned(), "virt-launcher pod has ended".to_owned()),
    })
}

/// When the last of its containers ended.
pub(super) fn over_since(pod: &Pod) -> Option<Timestamp> {
    let ends = pod.containers.iter().filter_map(|container| container.ended.as_ref()?.3.parse().ok());
    ends.max().or_else(|| pod.condition("Ready")?.since.as_ref()?.parse().ok())
}
