//! The launcher pod as other programs see it: its class, its limits, its ports, and what becomes of one that fails.

use crate::{tiny, with_spec};
use std::collections::BTreeMap;
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
    let pod = space.pod_of("web");
    space.says(&format!("pod/{pod}"), CLASS, "Guaranteed");
    space.says("vmi/web", CLASS, "Guaranteed");
    has_room_for_all_memory(&space, &pod);
}

const MIB: u64 = 1 << 20;

/// The guest of 256 MiB, all of whose memory is used: its container then uses no more than it has asked for.
fn has_room_for_all_memory(space: &Space, pod: &str) {
    let fill = "mount -t tmpfs -o size=100% fill /mnt && n=$(awk '/MemAvailable/ {print int($2 / 1024) - 24}' /proc/meminfo) && \
                head -c ${n}m /dev/zero >/mnt/fill && df -m /mnt | awk 'END {print $3}'";
    let mut console = space.console("web");
    let filled: u64 = console.log_in().runs(fill).trim().parse().unwrap();
    let used = used(space, pod);
    let resources = |list: &str| {
        let path = format!(".spec.containers[?(@.name==\"compute\")].resources.{list}.memory");
        bytes(&space.get(&format!("pod/{pod}"), &path))
    };
    let [asked, limit] = ["requests", "limits"].map(resources);
    let all =
        format!("{filled} MiB are filled in the guest, {asked} bytes asked for, limit {limit}: {used:?}");
    assert!(used["working"] > filled * MIB, "the guest's memory is elsewhere: {all}");
    assert!(used["working"] <= asked && asked <= limit, "{all}");
    assert_eq!(used["killed"], 0, "{all}");
    let restarts = ".status.containerStatuses[?(@.name==\"compute\")].restartCount";
    assert_eq!(space.get(&format!("pod/{pod}"), restarts), "0");
}

/// What the kernel counts for the container of QEMU: bytes that it cannot take back (as the kubelet counts them), and processes
/// that it has killed for want of memory.
fn used(space: &Space, pod: &str) -> BTreeMap<String, u64> {
    let uid = space.get(&format!("pod/{pod}"), ".metadata.uid").replace('-', "[-_]");
    let script = r#"
for p in $(pgrep -x qemu-system-x86); do
    grep -q UID /proc/$p/cgroup || continue
    one=$(sed -n 's/^[0-9]*:memory://p' /proc/$p/cgroup) two=$(sed -n 's/^0:://p' /proc/$p/cgroup)
    if [ "$one" ]; then
        cd "/sys/fs/cgroup/memory$one" && used=$(cat memory.usage_in_bytes) file=total_inactive_file events=memory.oom_control
    else
        cd "/sys/fs/cgroup$two" && used=$(cat memory.current) file=inactive_file events=memory.events
    fi
    echo "working $((used - $(sed -n "s/^$file //p" memory.stat)))"
    sed -n 's/^oom_kill /killed /p' $events
done"#;
    let ran = space.cluster.on_node(1, &["bash", "-c", &script.replace("UID", &uid)]).ok();
    let text = String::from_utf8(ran.out).unwrap();
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect()
}

/// A quantity of memory, as our pods have it.
fn bytes(quantity: &str) -> u64 {
    let digits = quantity.find(|c: char| !c.is_ascii_digit()).unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(digits);
    let unit = match unit {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "Ki" => 1 << 10,
        "Mi" => MIB,
        "Gi" => 1 << 30,
        other => panic!("{quantity}: {other}"),
    };
    number.parse::<u64>().unwrap() * unit
}

#[test]
fn a_quota_that_counts_limits_admits_a_vm_that_says_none() {
    let Some(space) = Space::new("quota") else { return };
    let hard = "{limits.cpu: \"4\", limits.memory: 4Gi, requests.cpu: \"2\", requests.memory: 2Gi}";
    let meta = "{name: all}";
    space.apply(&format!("apiVersion: v1\nkind: ResourceQuota\nmetadata: {meta}\nspec: {{hard: {hard}}}\n"));
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    let name = space.pod_of("web");
    let pod = format!("pod/{name}");
    space.says(&pod, ".spec.containers[0].resources.limits.cpu", "1");
    space.says(&pod, CLASS, "Burstable");
    has_room_for_all_memory(&space, &name);
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

/// As in KubeVirt: it is admitted, with a warning, and the scheduler finds no node.
#[test]
fn more_than_any_node_has_is_admitted_and_waits() {
    let Some(space) = Space::new("huge") else { return };
    let ran = space.try_apply(&with_domain(&tiny("web", "Always"), "        cpu: {sockets: 1000000}\n"));
    assert!(ran.code == 0 && ran.err.contains("are more than 255 vCPUs: no node starts it"), "{}", ran.err);
    space.says("vm/web", ".status.printableStatus", "ErrorUnschedulable");
}

#[test]
fn what_cannot_be_is_refused_when_it_is_written() {
    let Some(space) = Space::new("absurd") else { return };
    let lines = "        cpu: {cores: 2, isolateEmulatorThread: true}\n";
    let ran = space.try_apply(&with_domain(&tiny("web", "Always"), lines));
    assert!(ran.code != 0 && ran.err.contains("in combination with DedicatedCPUPlacement"), "{}", ran.err);
    let asked = space.try_apply(&with_spec(&tiny("web", "Always"), "      evictionStrategy: Sometimes\n"));
    assert!(asked.code != 0 && asked.err.contains("unrecognized option: Sometimes"), "{}", asked.err);
}
