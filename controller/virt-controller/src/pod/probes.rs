//! The spec's probes as probes of the kubelet. Probes of the guest itself (a program in it, a ping of its
//! agent) are carried out by the launcher's own program, which the kubelet runs.

use super::{PROGRAM, socket};
use api::vmi::{Probe, VirtualMachineInstance};
use serde_json::{Map, Value, json};

/// Additional seconds of the probe's timeout, for the launcher's program to report that the time is over.
const BEYOND: i64 = 1;

/// Number of probes that run a program in the pod.
pub(super) fn programs(vmi: &VirtualMachineInstance) -> u64 {
    let probes = [&vmi.spec.liveness_probe, &vmi.spec.readiness_probe];
    probes.into_iter().flatten().filter(|probe| question(probe, 1).is_some()).count() as u64
}

/// A probe of the compute container.
pub(super) fn probe(probe: Option<&Probe>) -> Value {
    let Some(probe) = probe else { return Value::Null };
    let patience = probe.timeout_seconds.filter(|seconds| *seconds > 0).unwrap_or(1);
    let question = question(probe, patience);
    let timeout = match &question {
        Some(_) => Some(patience.saturating_add(BEYOND)),
        None => probe.timeout_seconds,
    };
    let mut fields = Map::new();
    if let Some(command) = question {
        super::insert_unless_empty(&mut fields, "exec", json!({"command": command}));
    }
    super::insert_unless_empty(&mut fields, "httpGet", json!(probe.http_get));
    super::insert_unless_empty(&mut fields, "tcpSocket", json!(probe.tcp_socket));
    for (name, value) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", timeout),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        super::insert_unless_empty(&mut fields, name, json!(value));
    }
    Value::Object(fields)
}

/// The command that asks the guest itself.
fn question(probe: &Probe, patience: i64) -> Option<Vec<String>> {
    let socket = socket();
    let patience = patience.to_string();
    let words = [PROGRAM, "probe", "--socket", &socket, "--timeout", &patience];
    let mut words: Vec<String> = words.map(str::to_owned).to_vec();
    if probe.guest_agent_ping.is_some() {
        words.push("--ping".to_owned());
        return Some(words);
    }
    let command = probe.exec.as_ref()?.get("command")?.as_array()?;
    // The guest's command follows `--`, so that none of it is taken as an option.
    words.push("--".to_owned());
    words.extend(command.iter().filter_map(Value::as_str).map(str::to_owned));
    Some(words)
}
