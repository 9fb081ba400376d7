//! Advice for messages that name what is missing or has failed.

use super::Finding;
use super::finding::RuleContext;
use crate::virt::json::{name, text};
use serde_json::Value;

/// Annotation that keeps the launcher pod of a failed VMI, with the logs of its sidecars.
const KEEP: &str = "kubevirt.io/keep-launcher-alive-after-failure";

/// Advice for a message about a missing object of a pod: the object to create, and the field that names it.
pub(super) fn missing(context: &RuleContext<'_>, sentence: &str) -> Option<String> {
    let sentence = sentence.to_lowercase();
    let at = context.at();
    let namespace = &context.facts.namespace;
    // Sidecars use files of ConfigMaps; guests use ConfigMaps and Secrets.
    let kinds = [
        ("ConfigMap", format!("the annotation hooks.kubevirt.io/hookSidecars, or {at}.volumes")),
        ("Secret", format!("{at}.volumes, or {at}.accessCredentials")),
    ];
    let of_pod = kinds.into_iter().find_map(|(kind, named)| {
        let lacking = not_found(&sentence, &kind.to_lowercase())?;
        Some(format!(
            "create the {kind} {lacking} in namespace {namespace}, or correct the name of it: {named}"
        ))
    });
    of_pod.or_else(|| {
        let definition = definition(&sentence)?;
        Some(format!(
            "create the NetworkAttachmentDefinition{definition}, or correct {at}.networks[].multus.networkName; \
             a cluster that does not know the kind has no Multus"
        ))
    })
}

/// The name in `configmap "x" not found`.
fn not_found<'a>(sentence: &'a str, kind: &str) -> Option<&'a str> {
    sentence.split(&format!("{kind} \"")).skip(1).find_map(|rest| {
        let (name, rest) = rest.split_once('"')?;
        rest.trim_start().starts_with("not found").then_some(name)
    })
}

/// Name of a missing NetworkAttachmentDefinition with a space before it; empty if the message has an unknown
/// form.
fn definition(sentence: &str) -> Option<String> {
    let is_missing = ["could not find", "cannot find", "not found", "is not there"];
    if !is_missing.iter().any(|words| sentence.contains(words)) {
        return None;
    }
    if let Some((_, rest)) = sentence.split_once("networkattachmentdefinition ") {
        return Some(rest.split([':', ' ']).next().map_or_else(String::new, |name| format!(" {name}")));
    }
    // Message of Multus: `cannot find a network-attachment-definition (NAME) in namespace (NAMESPACE)`.
    let (_, rest) = sentence.split_once("network-attachment-definition")?;
    let named = || {
        let (name, rest) = rest.strip_prefix(" (")?.split_once(')')?;
        let (namespace, _) = rest.strip_prefix(" in namespace (")?.split_once(')')?;
        Some(format!(" {namespace}/{name}"))
    };
    Some(named().unwrap_or_default())
}

/// Adds to the finding of a failed hook sidecar how its log can be read.
pub(super) fn of_sidecar(context: &RuleContext<'_>, finding: Finding) -> Finding {
    let heard = finding.quoted_text();
    let Some((_, rest)) = heard.split_once("the hook sidecar ") else { return finding };
    let container = rest.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-').next();
    let container = container.filter(|container| !container.is_empty()).unwrap_or("hook-sidecar-0");
    let namespace = &context.facts.namespace;
    let finding = match context.pod {
        Some(pod) => finding.advise(format!(
            "read what the sidecar says: kubectl logs {} -n {namespace} -c {container}",
            name(pod)
        )),
        None => finding,
    };
    if context.pod.is_some() && context.vmi().is_some_and(keeps) {
        return finding;
    }
    let (metadata, again) = match context.vm() {
        Some(_) => {
            ("spec.template.metadata.annotations", format!("start it again: $virt restart {}", context.name))
        }
        None => ("metadata.annotations of the VMI", "create it again".to_owned()),
    };
    finding.advise(format!(
        "the sidecar's log is gone with the pod; to keep both, set {KEEP}: \"true\" in {metadata}, {again}; \
         then kubectl logs -n {namespace} -l vm.kubevirt.io/name={} -c {container} --tail=-1",
        context.name
    ))
}

fn keeps(vmi: &Value) -> bool {
    let said = vmi.pointer("/metadata/annotations").and_then(|annotations| annotations.get(KEEP));
    said.and_then(Value::as_str) == Some("true")
}

/// Adds to the finding of a missing ControllerRevision which field names it, and how the VM can start without
/// it.
pub(super) fn of_revision(vm: &Value, finding: Finding) -> Finding {
    let heard = finding.quoted_text();
    if !heard.contains("controllerrevision") || !heard.contains("not found") {
        return finding;
    }
    let lacking = ["instancetype", "preference"].into_iter().filter(|role| {
        let named = text(vm, &format!("/spec/{role}/revisionName"));
        let used = named.or(text(vm, &format!("/status/{role}Ref/controllerRevisionRef/name")));
        used.is_some_and(|used| heard.contains(&format!("\"{}\"", used.to_lowercase())))
    });
    lacking.fold(finding, |finding, role| {
        let without = match text(vm, &format!("/spec/{role}/revisionName")) {
            Some(_) => format!("take out spec.{role}.revisionName"),
            None => format!("name another one in spec.{role}.name"),
        };
        finding.advise(format!("{without}, or restore the ControllerRevision"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_what_is_missing_is_found_in_the_words_of_others() {
        let mount =
            "MountVolume.SetUp failed for volume \"secret\" : configmap \"x\" not found".to_lowercase();
        assert_eq!(not_found(&mount, "configmap"), Some("x"));
        assert_eq!(not_found(&mount, "secret"), None);
        assert_eq!(not_found("configmap \"x\" is forbidden", "configmap"), None);
        for (sentence, named) in [
            (
                "networkattachmentdefinition blue/lan: the server could not find the requested resource",
                " blue/lan",
            ),
            ("network red: networkattachmentdefinition shared/vf is not there", " shared/vf"),
            ("cannot find a network-attachment-definition (lan) in namespace (blue): no", " blue/lan"),
            ("network-attachment-definitions.k8s.cni.cncf.io \"lan\" not found", ""),
        ] {
            assert_eq!(definition(sentence).as_deref(), Some(named), "{sentence}");
        }
        assert_eq!(definition("networkattachmentdefinition blue/lan: forbidden"), None);
        assert_eq!(definition("the bridge is not found"), None);
    }
}
