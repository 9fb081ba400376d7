//! The launcher pod as other programs see it: its class, its limits, its ports, and what becomes of one that fails.

use crate::{tiny, with_spec};
use tests::cluster::{Space, until};

const CLASS: &str = ".status.qosClass";

/// The VM with these resources, or other fields of its domain.
fn with_domain(vm: &str, lines: &str) -> String {
    vm.replace("      domain:\n", &format!("      domain:\n{lines}"))
}

fn with_annotation(vm: &str, key: &str, value: &str) -> String {
    let metadata = format!("    metadata:\n      annotations: {{\"{key}\": \"{value}\"}}\n    spec:\n");
    vm.replacen("    spec:\n", &metadata, 1)
}

fn limited(vm: &str) -> String {
    vm.replace(
        "          requests:\n            memory: 256Mi",
        "          limits: {cpu: 500m, memory: 256Mi}",
    )
}

#[test]
fn limits_alone_make_a_guaranteed_pod() {
    let Some(space) = Space::new("guaranteed") else { return };
    space.apply(&limited(&tiny("web", "Always")));
    space.has("vmi/web", "Ready", "True");
    space.says(&format!("pod/{}", space.pod_of("web")), CLASS, "Guaranteed");
    space.says("vmi/web", CLASS, "Guaranteed");
}

#[test]
fn a_quota_that_counts_limits_admits_a_vm_that_says_none() {
    let Some(space) = Space::new("quota") else { return };
    let hard = "{limits.cpu: \"4\", limits.memory: 4Gi, requests.cpu: \"2\", requests.memory: 2Gi}";
    let meta = "{name: all}";
    space.apply(&format!("apiVersion: v1\nkind: ResourceQuota\nmetadata: {meta}\nspec: {{hard: {hard}}}\n"));
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    let pod = format!("pod/{}", space.pod_of("web"));
    space.says(&pod, ".spec.containers[0].resources.limits.cpu", "1");
    space.says(&pod, CLASS, "Burstable");
}

#[test]
fn a_quota_without_room_is_told_on_the_vm() {
    let Some(space) = Space::new("noroom") else { return };
    let hard = "{count/virtualmachineinstances.kubevirt.io: \"0\"}";
    space.apply(&format!(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: none}}\nspec: {{hard: {hard}}}\n"
    ));
    space.apply(&tiny("web", "Always"));
    let of_vm = "--field-selector=involvedObject.kind=VirtualMachine";
    let events = || space.run(&["get", "events", of_vm, "-o", "jsonpath={.items[*].reason}"]);
    until(|| events().contains("FailedCreate"), || format!("no event FailedCreate: {}", events()));
}

#[test]
fn ports_of_a_vm_are_found_by_their_names() {
    let Some(space) = Space::new("ports") else { return };
    let ports = "masquerade: {}\n            ports: [{name: web, port: 80}]";
    space.apply(&tiny("web", "Always").replace("masquerade: {}", ports));
    space.has("vmi/web", "Ready", "True");
    let pod = format!("pod/{}", space.pod_of("web"));
    space.says(&pod, ".spec.containers[0].ports[0].name", "web");
}

#[test]
fn a_launcher_that_fails_at_once_is_a_crash_loop_with_its_count() {
    let Some(space) = Space::new("crashloop") else { return };
    space.apply(&with_annotation(
        &tiny("web", "Always"),
        "kubevirt.io/func-test-virt-launcher-fail-fast",
        "true",
    ));
    space.says("vm/web", ".status.printableStatus", "CrashLoopBackOff");
    let count = || space.get("vm/web", ".status.startFailure.consecutiveFailCount");
    until(
        || count().parse::<u32>().is_ok_and(|count| count > 1),
        || format!("it is not tried again: {}", count()),
    );
}

#[test]
fn a_launcher_stays_after_a_failure_where_somebody_looks_for_why() {
    let Some(space) = Space::new("keep") else { return };
    let keep = "kubevirt.io/keep-launcher-alive-after-failure";
    space.apply(&with_annotation(&tiny("web", "Once"), keep, "true"));
    space.has("vmi/web", "Ready", "True");
    let pod = space.pod_of("web");
    space.kill_in(&pod, "qemu-system-x86");
    space.says("vmi/web", ".status.phase", "Failed");
    space.says(&format!("pod/{pod}"), ".status.phase", "Running");
    space.run(&["delete", "vm", "web", "--wait=false"]);
    space.gone(&format!("pod/{pod}"));
}

/// The nodes of this cluster give no whole CPUs: a VMI that needs them waits, and says for what.
#[test]
fn cpus_of_its_own_are_waited_for_where_no_node_gives_them() {
    let Some(space) = Space::new("owncpus") else { return };
    let with = "-l cpumanager=true";
    if !space.run(&["get", "nodes", with, "-o", "name"]).trim().is_empty() {
        return;
    }
    space.apply(&with_domain(&tiny("web", "Always"), "        cpu: {dedicatedCpuPlacement: true}\n"));
    space.says("vm/web", ".status.printableStatus", "ErrorUnschedulable");
}

#[test]
fn what_cannot_be_is_refused_when_it_is_written() {
    let Some(space) = Space::new("absurd") else { return };
    for (lines, words) in [
        ("        cpu: {sockets: 1000000}\n", "are more than 255 vCPUs"),
        (
            "        cpu: {cores: 2, isolateEmulatorThread: true}\n",
            "in combination with DedicatedCPUPlacement",
        ),
    ] {
        let ran = space.try_apply(&with_domain(&tiny("web", "Always"), lines));
        assert!(ran.code != 0 && ran.err.contains(words), "{}", ran.err);
    }
    let asked = space.try_apply(&with_spec(&tiny("web", "Always"), "      evictionStrategy: Sometimes\n"));
    assert!(asked.code != 0 && asked.err.contains("unrecognized option: Sometimes"), "{}", asked.err);
}
