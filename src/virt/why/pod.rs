//! Rules about the launcher pod, which quote the scheduler and the kubelet.

use super::finding::RuleContext;
use super::{Finding, Quote, advice};
use crate::virt::json::{condition, list, moment, name, text};
use api::launcher::Ending;
use cluster_model::objects::Kind;
use serde_json::Value;

/// Reasons of a waiting container that are not a fault.
const PATIENT: [&str; 3] = ["ContainerCreating", "PodInitializing", ""];

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "/status/initContainerStatuses").chain(list(pod, "/status/containerStatuses"))
}

/// Reason for the end of the pod, quoted from its status or a container's; `None` while all of it runs.
pub(super) fn end(pod: &Value) -> Option<Quote> {
    let pod_name = name(pod);
    if let Some(reason) = text(pod, "/status/reason") {
        let message = text(pod, "/status/message").unwrap_or(reason);
        return Some(Quote::new(format!("status of Pod {pod_name}, {reason}"), message));
    }
    if let Some(said) = condition(pod, "DisruptionTarget", "True") {
        return Some(said.quote("", Kind::Pod, pod_name));
    }
    containers(pod).find_map(|container| {
        let ended = container.pointer("/state/terminated").or(container.pointer("/lastState/terminated"))?;
        let code = ended.get("exitCode").and_then(Value::as_i64).filter(|code| *code != 0)?;
        let reason = text(ended, "/reason").unwrap_or("Error");
        let who = format!("container {} of Pod {pod_name}, {reason}", text(container, "/name")?);
        let said = text(ended, "/message")
            .map_or_else(String::new, |message| format!(": {}", Ending::readable(message)));
        Some(Quote::new(who, format!("ended with exit code {code}{said}")))
    })
}

pub(super) fn has_ended(context: &RuleContext<'_>) -> Option<Finding> {
    let pod = context.pod?;
    let pod_name = name(pod);
    let is_over = matches!(text(pod, "/status/phase"), Some("Failed" | "Succeeded"));
    let goes = moment(pod, "/metadata/deletionTimestamp");
    if !is_over && goes.is_none() {
        return None;
    }
    let says = match is_over {
        true => format!("The launcher pod {pod_name} of VM {} has ended before the guest ran", context.name),
        false => format!("The launcher pod {pod_name} of VM {} is being deleted", context.name),
    };
    let finding = Finding::new(says).since(goes).quote(end(pod));
    Some(finding.quote_event(context.warning(Kind::Pod, pod_name, &[])).advise(format!(
        "read what the launcher says: kubectl logs {pod_name} -n {} -c compute",
        context.facts.namespace
    )))
}

/// The pod has no node: none fits, or the scheduler has not tried yet.
pub(super) fn is_not_scheduled(context: &RuleContext<'_>) -> Option<Finding> {
    let pod = context.pod?;
    if text(pod, "/spec/nodeName").is_some() {
        return None;
    }
    let pod_name = name(pod);
    let said = condition(pod, "PodScheduled", "False");
    let made = moment(pod, "/metadata/creationTimestamp");
    let finding =
        Finding::new(format!("VM {} waits for a node: no node can take its launcher pod", context.name))
            .since(said.and_then(|said| said.since).or(made))
            .quote(said.map(|said| said.quote("the scheduler, ", Kind::Pod, pod_name)))
            .quote_event(context.warning(Kind::Pod, pod_name, &["FailedScheduling"]));
    if finding.quotes.is_empty() {
        let says =
            format!("VM {} waits for the scheduler, which has not looked at its launcher pod", context.name);
        let advice = "see whether a scheduler runs: kubectl get pods -n kube-system";
        return Some(Finding { says, ..finding }.advise(advice));
    }
    let words = finding.quoted_text();
    let advice = [
        (
            "devices.kubevirt.io/",
            "no node offers that device: see whether virt-handler runs on the nodes, and whether they have /dev/kvm; \
             without KVM, useEmulation in the KubeVirt object lets guests run slowly",
        ),
        ("persistentvolumeclaim", "see why the PVC has no volume: kubectl describe pvc"),
        (
            "volume node affinity",
            "its volume is on a node that cannot take the pod: free that node, or move the volume",
        ),
        ("untolerated taint", "give the VM a toleration for the taint, or take the taint off a node"),
    ];
    let fitting =
        advice.into_iter().filter(|(sign, _)| words.contains(sign)).map(|(_, advice)| advice.to_owned());
    let sizes = [("insufficient memory", "memory", "less memory"), ("insufficient cpu", "cpu", "fewer CPUs")];
    let sizes = sizes.into_iter().filter(|(sign, ..)| words.contains(sign));
    let sizes = sizes.map(|(_, resource, less)| {
        format!("make room on a node, or give the VM {less} ({})", field_of(context, resource))
    });
    let pages = words.split_once("insufficient hugepages-").map(|(_, rest)| huge_pages(rest));
    let labels = words.contains("node affinity/selector").then(|| labels(pod));
    let fitting: Vec<String> = sizes.chain(fitting).chain(pages).chain(labels).collect();
    Some(match fitting.is_empty() {
        true => finding.advise("compare what the pod asks for with the nodes: kubectl describe nodes"),
        false => fitting.into_iter().fold(finding, Finding::advise),
    })
}

/// Advice for missing huge pages; `rest` begins with their size.
fn huge_pages(rest: &str) -> String {
    let size: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    let size = size.replace("mi", "Mi").replace("gi", "Gi");
    format!(
        "reserve hugepages of {size} on a node, and restart its kubelet; what each node has: \
         kubectl get nodes -o custom-columns=NAME:.metadata.name,HUGEPAGES:.status.allocatable.hugepages-{size}"
    )
}

/// Advice for missing node labels, which explains the labels that few nodes have.
fn labels(pod: &Value) -> String {
    let asked = pod.pointer("/spec/nodeSelector").unwrap_or(&Value::Null);
    let rare = [
        (
            "cpumanager",
            "true",
            "the VM has dedicated CPUs, and goes only to nodes labelled cpumanager=true: those whose kubelet has the static \
             CPU manager policy; ",
        ),
        (
            "kubevirt.io/realtime",
            "",
            "the VM has real-time CPUs, and goes only to nodes labelled kubevirt.io/realtime, whose kernel lets \
             real-time threads run for as long as they want; ",
        ),
    ];
    let rare = rare
        .into_iter()
        .filter(|(label, value, _)| asked.get(label).and_then(Value::as_str) == Some(value))
        .map(|(label, _, means)| (label, means));
    let (columns, means): (Vec<&str>, Vec<&str>) = rare.unzip();
    let means = match means.as_slice() {
        [] => "no node has the labels that are asked for; ".to_owned(),
        means => means.concat(),
    };
    let columns = columns.into_iter().chain(["kubevirt.io/schedulable"]).collect::<Vec<_>>().join(",");
    format!("{means}virt-handler marks nodes that can run VMs: kubectl get nodes -L {columns}")
}

/// Path of the field that sets the amount of a resource: a request, else a limit, else the instance type,
/// else the guest's size.
fn field_of(context: &RuleContext<'_>, resource: &str) -> String {
    let at = context.at();
    let spec = match (context.vm(), context.vmi()) {
        (Some(vm), _) => vm.pointer("/spec/template/spec"),
        (None, vmi) => vmi.and_then(|vmi| vmi.get("spec")),
    };
    let said = |list: &str| {
        let place = format!("/domain/resources/{list}/{resource}");
        spec.and_then(|spec| spec.pointer(&place)).map(|_| format!("{at}.domain.resources.{list}.{resource}"))
    };
    let sized = || {
        let named = context.vm()?.pointer("/spec/instancetype").filter(|named| named.is_object());
        named.map(|_| "another instance type: spec.instancetype".to_owned())
    };
    said("requests")
        .or_else(|| said("limits"))
        .or_else(sized)
        .unwrap_or_else(|| format!("{at}.domain.{resource}"))
}

/// The image in a message of the kubelet: `… image "registry.example/disk:1": …`.
fn quoted_image(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("image \"")?;
    rest.split_once('"').map(|(image, _)| image).filter(|image| !image.is_empty())
}

/// A container of the pod does not start.
pub(super) fn container_waits(context: &RuleContext<'_>) -> Option<Finding> {
    let pod = context.pod?;
    let pod_name = name(pod);
    let (container, waiting) = containers(pod).find_map(|container| {
        let waiting = container.pointer("/state/waiting")?;
        let reason = text(waiting, "/reason").unwrap_or_default();
        (!PATIENT.contains(&reason)).then_some((container, waiting))
    })?;
    let reason = text(waiting, "/reason").unwrap_or_default();
    let container_name = text(container, "/name").unwrap_or_default();
    // A volume of the container may be an image too: the message of the kubelet names it.
    let named = text(waiting, "/message").and_then(quoted_image);
    let image = named.or(text(container, "/image")).unwrap_or("(unknown)");
    let is_image =
        matches!(reason, "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull");
    let says = match is_image {
        true => format!("VM {} waits for image {image}, which cannot be pulled", context.name),
        false => {
            format!("VM {} waits for container {container_name} of its launcher pod: {reason}", context.name)
        }
    };
    let finding = Finding::new(says)
        .since(condition(pod, "PodScheduled", "True").and_then(|scheduled| scheduled.since))
        .quote([Quote::new(
            format!("the kubelet, container {container_name} of Pod {pod_name}, {reason}"),
            text(waiting, "/message").unwrap_or(reason),
        )])
        .quote_event(context.warning(Kind::Pod, pod_name, &[]))
        .quote(end(pod).filter(|_| !is_image));
    let missing = text(waiting, "/message").and_then(|message| advice::missing(context, message));
    Some(match missing {
        Some(missing) if !is_image => finding.advise(missing),
        _ if is_image => finding.advise(
            "check the name of the image, that the node reaches the registry, and the pull secret; it is tried again by itself",
        ),
        _ => finding.advise(format!(
            "read what it says: kubectl logs {pod_name} -n {} -c {container_name} --previous",
            context.facts.namespace
        )),
    })
}

/// The kubelet prepares volumes, network and containers of the pod.
pub(super) fn begins(context: &RuleContext<'_>) -> Option<Finding> {
    let pod = context.pod?;
    let runs = text(pod, "/status/phase") == Some("Running")
        && list(pod, "/status/containerStatuses")
            .filter(|container| text(container, "/name") == Some("compute"))
            .any(|container| container.pointer("/state/running").is_some());
    if runs {
        return None;
    }
    let pod_name = name(pod);
    let node = text(pod, "/spec/nodeName").unwrap_or("(unknown)");
    let scheduled = condition(pod, "PodScheduled", "True").and_then(|scheduled| scheduled.since);
    let finding = Finding::new(format!(
        "VM {} waits for the kubelet of node {node} to start its launcher pod {pod_name}",
        context.name
    ))
    .since(scheduled);
    let finding = match context.node_trouble() {
        Some((node, quote)) => {
            finding.quote([quote]).advise(format!("bring node {node} back: kubectl describe node {node}"))
        }
        None => finding,
    };
    let warning = context.warning(Kind::Pod, pod_name, &[]);
    let finding = finding.quote_event(warning);
    if let Some(missing) = warning.and_then(|warning| advice::missing(context, &warning.message)) {
        return Some(finding.advise(missing));
    }
    Some(match warning.map(|warning| warning.reason.as_str()) {
        Some("FailedMount" | "FailedAttachVolume" | "FailedMapVolume") => finding
            .advise("see why the volume is not there: kubectl describe pvc, and the storage driver's pods"),
        Some("FailedCreatePodSandBox" | "NetworkNotReady") => {
            finding.advise("look at the network plugin of that node")
        }
        Some(_) => finding.advise("fix the cause in the event above; the kubelet tries again by itself"),
        None if finding.advice.is_empty() => {
            finding.advise("images may still be pulled: wait, or watch the events")
        }
        None => finding,
    })
}
