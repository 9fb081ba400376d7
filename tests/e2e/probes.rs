//! Probes: the kubelet asks the guest, and what it hears is the VMI's readiness, or its end.

use crate::{tiny, with_spec};
use tests::cluster::{Space, until};

fn probed(probe: &str) -> String {
    with_spec(&tiny("web", "Always"), &format!("      {probe}\n"))
}

/// The VMI is ready from what the guest does first until what it does then.
fn follows(story: &str, way: &str, begin: &str, end: &str) {
    let Some(space) = Space::new(story) else { return };
    space.apply(&probed(&format!("readinessProbe: {{{way}, periodSeconds: 1}}")));
    space.says("vmi/web", ".status.phase", "Running");
    let mut console = space.console("web");
    console.log_in();
    space.has("vmi/web", "Ready", "False");
    console.types(begin);
    space.has("vmi/web", "Ready", "True");
    space.has("vm/web", "Ready", "True");
    console.types(end);
    space.has("vmi/web", "Ready", "False");
    assert_eq!(space.get("vmi/web", ".status.phase"), "Running");
}

#[test]
fn a_guest_is_ready_while_its_port_answers() {
    follows("tcp", "tcpSocket: {port: 8080}", "nc -ll -p 8080 -e cat &", "kill $!");
}

#[test]
fn a_guest_is_ready_while_its_page_is_there() {
    follows("http", "httpGet: {port: 80, path: /healthy}", "touch /www/healthy", "rm /www/healthy");
}

#[test]
fn a_guest_that_answers_no_more_is_begun_again() {
    let Some(space) = Space::new("liveness") else { return };
    // It has a minute to boot, and then to answer.
    space.apply(&probed("livenessProbe: {httpGet: {port: 80}, periodSeconds: 1, failureThreshold: 60}"));
    let mut console = space.console_when_ready("web");
    let first = space.get("vmi/web", ".metadata.uid");
    console.log_in().types("killall httpd");
    space.another("vmi/web", &first);
    space.has("vmi/web", "Ready", "True");
}

#[test]
fn a_guest_without_an_agent_is_not_ready_for_who_asks_the_agent() {
    let Some(space) = Space::new("ping") else { return };
    space.apply(&probed("readinessProbe: {guestAgentPing: {}, periodSeconds: 1}"));
    space.says("vmi/web", ".status.phase", "Running");
    let told = ["get", "events", "--field-selector=reason=Unhealthy", "-o", "jsonpath={.items[*].message}"];
    until(|| space.run(&told).contains("agent is not connected"), || space.run(&told));
    space.has("vmi/web", "Ready", "False");
}

#[test]
fn a_probe_that_asks_in_no_known_way_is_refused_by_name() {
    let Some(space) = Space::new("noprobe") else { return };
    for (probe, said) in [
        (
            "readinessProbe: {grpc: {port: 80}}",
            "spec.template.spec.readinessProbe.httpGet must be set if a spec.template.spec.readinessProbe is specified",
        ),
        (
            "livenessProbe: {tcpSocket: {port: 80}, guestAgentPing: {}}",
            "spec.template.spec.livenessProbe must have exactly one probe type set",
        ),
    ] {
        let refused = space.try_apply(&probed(probe));
        assert!(refused.code != 0 && refused.err.contains(said), "{probe}: {}", refused.err);
    }
}
