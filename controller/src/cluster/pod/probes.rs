//! How the kubelet finds out whether the guest works: the spec's probes, run in the pod. A program in the
//! guest and a ping of its agent are refused by name: the launcher has no program yet that carries them there.

use super::Refusal;
use api::vmi::{Probe, VirtualMachineInstance};
use serde_json::{Map, Value, json};

/// What cannot be asked yet.
pub(super) fn refused(vmi: &VirtualMachineInstance) -> Option<Refusal> {
    let probes = [("livenessProbe", &vmi.spec.liveness_probe), ("readinessProbe", &vmi.spec.readiness_probe)];
    probes.into_iter().find_map(|(name, probe)| {
        let probe = probe.as_ref()?;
        let way = match probe {
            Probe { exec: Some(_), .. } => "exec",
            Probe { guest_agent_ping: Some(_), .. } => "guestAgentPing",
            _ => return None,
        };
        Some(Refusal(format!("spec.{name}.{way}: not supported yet")))
    })
}

/// A probe of the compute container.
pub(super) fn probe(probe: Option<&Probe>) -> Value {
    let Some(probe) = probe else { return Value::Null };
    let mut fields = Map::new();
    super::put(&mut fields, "httpGet", json!(probe.http_get));
    super::put(&mut fields, "tcpSocket", json!(probe.tcp_socket));
    for (name, value) in [
        ("initialDelaySeconds", probe.initial_delay_seconds),
        ("timeoutSeconds", probe.timeout_seconds),
        ("periodSeconds", probe.period_seconds),
        ("successThreshold", probe.success_threshold),
        ("failureThreshold", probe.failure_threshold),
    ] {
        super::put(&mut fields, name, json!(value));
    }
    Value::Object(fields)
}
