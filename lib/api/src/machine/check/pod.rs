//! Names, and fields for the pod and the scheduler. They are checked here and have no effect on the domain.

use super::{Check, text};
use crate::machine::Machine;
use crate::machine::hook::{self, HookSidecar};
use crate::meta::{Empty, ObjectMeta};
use crate::vmi;
use crate::wire::Path;
use serde_json::Value;

/// Default of `terminationGracePeriodSeconds`, in seconds.
const GRACE: u64 = 30;
/// Longest name of a libvirt domain.
const DOMAIN: usize = 224;
/// Annotation with the configuration of Ignition.
const IGNITION: &str = "kubevirt.io/ignitiondata";

pub(super) fn name(metadata: &ObjectMeta, check: &mut Check<'_>) -> String {
    let name = text::non_empty(&metadata.name).unwrap_or_default();
    if name.is_empty() {
        check.required("metadata.name", "metadata.name is a required field");
    } else if let Some(why) = text::not_a_subdomain(name) {
        let message = format!("metadata.name does not conform to the kubernetes DNS_SUBDOMAIN rules : {why}");
        check.invalid("metadata.name", message);
    }
    name.to_owned()
}

/// Checks that the domain name fits into a file name of 255 bytes with our suffix.
pub(super) fn check_file_names(machine: &Machine, check: &mut Check<'_>) {
    let length = machine.domain_name().len();
    if length > DOMAIN {
        let message = format!(
            "metadata.name must be shorter by {} letters: with its namespace it names files, and has room for {DOMAIN}",
            length - DOMAIN
        );
        check.invalid("metadata.name", message);
    }
}

pub(super) fn namespace(check: &mut Check<'_>) -> String {
    let namespace = check.namespace;
    if let Some(why) = text::not_a_label(namespace) {
        let message =
            format!("metadata.namespace does not conform to the kubernetes DNS_LABEL rules : {why}");
        check.invalid("metadata.namespace", message);
    }
    namespace.to_owned()
}

/// Checks annotations that change the VMI: hook sidecars, and Ignition, which is not supported yet.
pub(super) fn annotations(metadata: &ObjectMeta, check: &mut Check<'_>) -> Vec<HookSidecar> {
    let hooks = permitted(metadata, hook::ANNOTATION, ("Sidecar", "sidecar"), check);
    let hooks = hooks.map(|(listed, entry)| super::hook::sidecars(listed, &entry, check));
    let gate = "ExperimentalIgnitionSupport";
    if let Some((_, entry)) = permitted(metadata, IGNITION, (gate, gate), check) {
        check.not_yet(entry);
    }
    hooks.unwrap_or_default()
}

/// An annotation whose feature gate is enabled, and its path. `gate`: name of the gate, and of the feature in
/// the message.
fn permitted<'a>(
    metadata: &'a ObjectMeta,
    key: &str,
    (gate, called): (&str, &str),
    check: &mut Check<'_>,
) -> Option<(&'a str, Path)> {
    let text = metadata.annotations.get(key).filter(|text| !text.is_empty())?;
    let at = check.settings.metadata().child("annotations");
    let entry = at.child(key);
    if check.settings.gate(gate) {
        return Some((text, entry));
    }
    let message = format!("{called} feature gate is not enabled in kubevirt-config, invalid entry {entry}");
    check.invalid(at, message);
    None
}

/// Annotation of a VMI that asks for the sidecar of Istio; the pod has it as a label, too.
const MESH: &str = "sidecar.istio.io/inject";

pub(super) fn is_in_mesh(metadata: &ObjectMeta) -> bool {
    metadata.annotations.get(MESH).is_some_and(|said| said.eq_ignore_ascii_case("true"))
}

/// Host name of the guest: the field, or the name of the VMI up to its first dot.
pub(super) fn hostname(said: Option<&str>, name: &str, at: &Path, check: &mut Check<'_>) -> String {
    let Some(hostname) = said.filter(|said| !said.is_empty()) else {
        let first = name.split('.').next().unwrap_or_default();
        let short: String = first.chars().take(63).collect();
        return short.trim_end_matches('-').to_owned();
    };
    if let Some(why) = text::not_a_label(hostname) {
        let at = at.child("hostname");
        check.invalid(&at, format!("{at} does not conform to the kubernetes DNS_LABEL rules : {why}"));
    }
    hostname.to_owned()
}

pub(super) fn subdomain(said: Option<&str>, at: &Path, check: &mut Check<'_>) -> Option<String> {
    let subdomain = said.filter(|said| !said.is_empty())?;
    if let Some(why) = text::not_a_subdomain(subdomain) {
        let at = at.child("subdomain");
        check.invalid(&at, format!("{at} does not conform to the kubernetes DNS_SUBDOMAIN rules : {why}"));
    }
    Some(subdomain.to_owned())
}

pub(super) fn service_account(name: Option<&str>, volumes: &[vmi::Volume], at: &Path, check: &mut Check<'_>) {
    let why = name.filter(|name| !name.is_empty()).map(text::against_subdomain).unwrap_or_default();
    if !why.is_empty() {
        let at = at.child("serviceAccountName");
        check.invalid(&at, format!("{at} is not a valid service account name: {}", why.join("; ")));
    }
    // A pod has one service account.
    let mut accounts = volumes.iter().filter_map(|volume| volume.service_account.as_ref());
    let first = accounts.next().and_then(|account| account.service_account_name.as_deref());
    if accounts.next().is_some() {
        let at = at.child("volumes");
        check.invalid(&at, format!("{at} must have max one serviceAccount volume set"));
    }
    if let (Some(name), Some(first)) = (name.filter(|name| !name.is_empty()), first)
        && name != first
    {
        let at = at.child("serviceAccountName");
        let message = format!(
            "{at} {name:?} and serviceAccount volume {first:?} must reference the same service account"
        );
        check.invalid(&at, message);
    }
}

pub(super) fn eviction(strategy: Option<&vmi::EvictionStrategy>, at: &Path, check: &mut Check<'_>) {
    if let Some(vmi::EvictionStrategy::Other(word)) = strategy {
        let at = at.child("evictionStrategy");
        check.invalid(&at, format!("{at} is set with an unrecognized option: {word}"));
    }
}

pub(super) fn starts_paused(
    strategy: Option<&vmi::StartStrategy>,
    has_liveness: bool,
    at: &Path,
    check: &mut Check<'_>,
) -> bool {
    let strategy_at = at.child("startStrategy");
    match strategy {
        None => false,
        Some(vmi::StartStrategy::Paused) => {
            if has_liveness {
                let probe = at.child("livenessProbe");
                check.invalid(
                    &strategy_at,
                    format!(
                        "either {strategy_at} or {probe} should be provided.Pausing VMI with LivenessProbe is not \
                         supported"
                    ),
                );
            }
            true
        }
        Some(vmi::StartStrategy::Other(word)) => {
            check.invalid(&strategy_at, format!("{strategy_at} is set with an unrecognized option: {word}"));
            false
        }
    }
}

pub(super) fn grace_period(seconds: Option<i64>, at: &Path, check: &mut Check<'_>) -> u64 {
    let Some(seconds) = seconds else {
        return GRACE;
    };
    u64::try_from(seconds).unwrap_or_else(|_| {
        let at = at.child("terminationGracePeriodSeconds");
        check.invalid(&at, format!("{at} '{seconds}': must be greater than or equal to 0."));
        GRACE
    })
}

/// Checks resources of the pod: no negative amount, and no request above its limit.
pub(super) fn resources(resources: Option<&vmi::Resources>, domain: &Path, check: &mut Check<'_>) {
    let Some(vmi::Resources { requests, limits, overcommit_guest_overhead: _, other: _ }) = resources else {
        return;
    };
    let at = domain.child("resources");
    for (list, kind) in [(requests, "requests"), (limits, "limits")] {
        for (name, amount) in list {
            if amount.nanos() < 0 {
                let at = at.child(kind).child(name);
                check.invalid(&at, format!("{at} '{amount}': must be greater than or equal to 0."));
            }
        }
    }
    for (name, request) in requests {
        let request_at = at.child("requests").child(name);
        if name == "memory"
            && (0..1_000_000).contains(&(request.nanos() / 1_000_000_000))
            && request.nanos() >= 0
        {
            let message = format!("{request_at} '{request}': must be greater than or equal to 1M.");
            check.invalid(&request_at, message);
        }
        if let Some(limit) = limits.get(name)
            && request.nanos() > limit.nanos()
        {
            let limit_at = at.child("limits").child(name);
            let message = format!("{request_at} '{request}' is greater than {limit_at} '{limit}'");
            check.invalid(&request_at, message);
        }
    }
}

pub(super) fn probes(
    liveness: Option<&vmi::Probe>,
    readiness: Option<&vmi::Probe>,
    networks: &[vmi::Network],
    at: &Path,
    check: &mut Check<'_>,
) {
    let on_pod = networks.iter().any(|network| network.pod.is_some());
    for (probe, name) in [(readiness, "readinessProbe"), (liveness, "livenessProbe")] {
        let Some(probe) = probe else { continue };
        let vmi::Probe {
            exec,
            guest_agent_ping,
            http_get,
            tcp_socket,
            initial_delay_seconds: _,
            timeout_seconds: _,
            period_seconds: _,
            success_threshold: _,
            failure_threshold: _,
            other: _,
        } = probe;
        let at = at.child(name);
        let ping = guest_agent_ping.as_ref().map(|Empty { other: _ }| ());
        match [exec.is_some(), ping.is_some(), http_get.is_some(), tcp_socket.is_some()]
            .iter()
            .filter(|&&there| there)
            .count()
        {
            0 => check.required(
                &at,
                format!(
                    "either {at}.tcpSocket, {at}.exec or {at}.httpGet must be set if a {at} is specified"
                ),
            ),
            1 => {}
            _ => check.invalid(&at, format!("{at} must have exactly one probe type set")),
        }
        for (way, field) in [(http_get, "httpGet"), (tcp_socket, "tcpSocket")] {
            if way.is_some() && !on_pod {
                let at = at.child(field);
                check.invalid(&at, format!("{at} is only allowed if the Pod Network is attached"));
            }
        }
    }
}

pub(super) fn dns(policy: Option<&str>, config: Option<&Value>, at: &Path, check: &mut Check<'_>) {
    // The empty policy is an unset one; upstream lists it, too.
    const POLICIES: [&str; 5] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None", ""];
    let list = |name: &str| -> Vec<&str> {
        let entries = config.and_then(|config| config.get(name)?.as_array());
        entries.into_iter().flatten().filter_map(Value::as_str).collect()
    };
    let (servers, searches) = (list("nameservers"), list("searches"));
    let config_at = at.child("dnsConfig");
    match policy {
        None => {}
        Some("None") if config.is_none() => {
            check.required(&config_at, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        Some("None") if servers.is_empty() => {
            let message = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            check.required(config_at.child("nameservers"), message);
        }
        Some(policy) if POLICIES.contains(&policy) => {}
        Some(policy) => {
            let valid = POLICIES.join(" ");
            let message = format!("DNSPolicy: {policy} is not supported, valid values: [{valid}]");
            check.not_supported(at.child("dnsPolicy"), message);
        }
    }
    if servers.len() > 3 {
        let message = format!("must not have more than 3 nameservers: [{}]", servers.join(" "));
        check.invalid(config_at.child("nameservers"), message);
    }
    if searches.len() > 6 {
        check.invalid(config_at.child("searches"), "must not have more than 6 search paths");
    }
    if searches.join(" ").len() > 256 {
        let message = "must not have more than 256 characters (including spaces) in the search list";
        check.invalid(config_at.child("searches"), message);
    }
}

#[cfg(test)]
mod tests {
    use super::DOMAIN;
    use crate::machine::{Machine, Settings};
    use serde_json::json;

    #[test]
    fn a_name_of_which_no_file_can_be_called_is_refused() {
        // Labels of a name have 63 letters at most.
        let name = |length: usize| {
            let text: String =
                "a".repeat(60) + "." + &"b".repeat(60) + "." + &"c".repeat(60) + "." + &"d".repeat(60);
            text[..length].to_owned()
        };
        let told = |length: usize| {
            let vmi = json!({
                "metadata": {"name": name(length), "namespace": "n"},
                "spec": {"domain": {
                    "memory": {"guest": "128Mi"},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": {},
                }},
            });
            Machine::check(&crate::wire::read(vmi).unwrap(), &Settings::of_cluster(&json!({})))
        };
        // The namespace, and a letter between both.
        assert!(told(DOMAIN - 2).is_ok());
        let said = told(DOMAIN - 1).unwrap_err()[0].to_string();
        assert!(said.contains("metadata.name must be shorter by 1 letters"), "{said}");
    }
}
