//! What crashes takes nothing with it but itself. These run one after the other, since all share the one cluster.

mod outages;

use crate::imports::{disk, http, phase, serve};
use crate::tiny;
use std::path::PathBuf;
use tests::cluster::{Space, until};
use tests::disk::{Noise, shell};
use tests::http::Behaviour;

/// The guest still counts where it was: it was neither begun anew nor stopped. What was killed may have carried the
/// console, which is joined again.
fn goes_on(space: &Space, step: &str) {
    let answers = || {
        let ran = space.try_run(&["get", "pods", "-l", "vm.kubevirt.io/name=web", "-o", "name"]);
        if ran.code != 0 {
            return false;
        }
        let mut console = space.console("web");
        console.tries(&format!("echo $n-af''ter-{step}")) && console.comes(&format!("4711-after-{step}"))
    };
    until(answers, || format!("after {step} the guest does not answer"));
}

#[test]
fn whatever_is_killed_the_guest_goes_on() {
    let Some(space) = Space::new("crash") else { return };
    space.apply(&tiny("web", "Always"));
    let mut console = space.console_when_ready("web");
    console.log_in().types("n=4711; echo s''et-$n").says("set-4711");
    drop(console);
    let uid = space.get("vmi/web", ".metadata.uid");
    let parts = ["node1/kubelet", "kube-apiserver", "etcd", "kube-scheduler", "kube-controller-manager"];
    for part in parts {
        space.cluster.tool("part", &["kill", part]).ok();
        goes_on(&space, part);
    }
    until(|| space.try_run(&["get", "nodes"]).code == 0, || "the API server does not come back".into());
    for program in ["virt-handler", "virt-controller"] {
        space.kill_program(program);
        goes_on(&space, program);
        space
            .cluster
            .run(&["-n", "kubevirt", "rollout", "status", "deployment,daemonset", "--timeout=120s"])
            .ok();
    }
    space.cluster.tool("part", &["kill", "node1/containerd"]).ok();
    goes_on(&space, "containerd");
    assert_eq!(space.get("vmi/web", ".metadata.uid"), uid);
    assert_eq!(space.get("vmi/web", ".status.phase"), "Running");
    // All of them still do their work.
    space.run(&["delete", "vm", "web"]);
    space.gone("vmi/web");
    space.gone("pod");
}

/// A pod that says all of itself that a launcher's pod says, and ends as soon as it runs.
fn stranger(space: &Space, name: &str) -> String {
    let uid = space.get("vmi/web", ".metadata.uid");
    let node = space.get("vmi/web", ".status.nodeName");
    let image = space.get(&format!("pod/{}", space.pod_of("web")), ".spec.containers[0].image");
    format!(
        "
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  labels: {{kubevirt.io: virt-launcher, kubevirt.io/created-by: {uid}, stranger: 'yes'}}
  ownerReferences:
  - {{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, name: web, uid: {uid}, controller: true}}
spec:
  restartPolicy: Never
  nodeSelector: {{kubernetes.io/hostname: {node}}}
  containers:
  - name: compute
    image: {image}
    command: [/bin/sh, -c, 'exit 3', run, --root=/private/root, --socket=/sockets/launcher-sock]
    volumeMounts: [{{name: private, mountPath: /private}}, {{name: sockets, mountPath: /sockets}}]
  volumes: [{{name: private, emptyDir: {{}}}}, {{name: sockets, emptyDir: {{}}}}]
"
    )
}

#[test]
fn a_strangers_pod_that_says_it_is_the_launcher_changes_nothing() {
    let Some(space) = Space::new("stranger") else { return };
    space.apply(&tiny("web", "Always"));
    let mut console = space.console_when_ready("web");
    console.log_in().types("n=4711; echo s''et-$n").says("set-4711");
    drop(console);
    let (uid, active) = (space.get("vmi/web", ".metadata.uid"), space.get("vmi/web", ".status.activePods"));
    // One that is listed before the true one, and one behind it.
    for name in ["a-stranger", "z-stranger"] {
        space.apply(&stranger(&space, name));
        space.says(&format!("pod/{name}"), ".status.phase", "Failed");
    }
    goes_on(&space, "strangers");
    // Whoever begins anew sees all three at once, and has to tell which it is.
    for program in ["virt-handler", "virt-controller"] {
        space.kill_program(program);
        space
            .cluster
            .run(&["-n", "kubevirt", "rollout", "status", "deployment,daemonset", "--timeout=120s"])
            .ok();
        goes_on(&space, program);
    }
    space.run(&["delete", "pod", "a-stranger", "z-stranger"]);
    goes_on(&space, "deletion");
    assert_eq!(
        (space.get("vmi/web", ".metadata.uid"), space.get("vmi/web", ".status.activePods")),
        (uid.clone(), active)
    );
    assert_eq!(space.get("vmi/web", ".status.phase"), "Running");
    // The agent has the true one still: it tells how that ends.
    space.console("web").log_in().power_off();
    space.another("vmi/web", &uid);
}

/// Parts of the control plane that hold a picture of what etcd has.
const PICTURES: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// Ends etcd, does something to its folder, and lets the control plane begin anew on it.
fn without_etcd(space: &Space, does: &str) {
    let part = |verb: &str, name: &str| drop(space.cluster.tool("part", &[verb, name]).ok());
    PICTURES.iter().for_each(|name| part("stop", name));
    part("stop", "etcd");
    shell(&PathBuf::from(space.cluster.info("state")), does);
    part("start", "etcd");
    PICTURES.iter().for_each(|name| part("start", name));
    until(|| space.try_run(&["get", "nodes"]).code == 0, || "the API server does not come back".into());
}

/// Etcd is restored from a snapshot of a time when a VM ran that was halted since, and when another one was not yet there. The first
/// one runs again: its VMI is not deleted as that of a halted VM. Of the second one nothing is left.
#[test]
fn etcd_is_restored_and_each_vm_is_as_it_was_then() {
    let Some(space) = Space::new("restore") else { return };
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    let before = space.get("vmi/web", ".metadata.uid");
    // Nobody writes to the folder meanwhile: so a copy of it is a snapshot.
    without_etcd(&space, "rm -rf etcd.copy && cp -a etcd etcd.copy");
    space.has("vmi/web", "Ready", "True");
    space.run(&["patch", "vm", "web", "--type", "merge", "-p", r#"{"spec":{"runStrategy":"Halted"}}"#]);
    space.gone("vmi/web");
    space.apply(&tiny("later", "Always"));
    space.has("vmi/later", "Ready", "True");
    without_etcd(&space, "rm -rf etcd && mv etcd.copy etcd");
    // A kubelet that is not restarted watches on from a version that is still to come, and hears nothing.
    space.cluster.tool("part", &["kill", "node1/kubelet"]).ok();
    assert_eq!(space.get("vm/web", ".spec.runStrategy"), "Always");
    // Its guest was stopped. The kubelet begins its pod anew, in which no guest is started: the VM gets another VMI.
    space.another("vmi/web", &before);
    space.has("vmi/web", "Ready", "True");
    space.console_when_ready("web").log_in();
    space.pod_of("web");
    for object in ["vm/later", "vmi/later"] {
        space.gone(object);
    }
    // virt-controller goes on: what is asked of it now is done.
    space.run(&["patch", "vm", "web", "--type", "merge", "-p", r#"{"spec":{"runStrategy":"Halted"}}"#]);
    space.gone("vmi/web");
    space.gone("pod");
}

#[test]
fn an_agent_that_is_killed_loses_none_of_five() {
    let Some(space) = Space::new("agent") else { return };
    let names = ["a", "b", "c", "d", "e"];
    for name in names {
        space.apply(&tiny(name, "Always").replace("256Mi", "128Mi"));
    }
    let uids = || names.map(|name| space.get(&format!("vmi/{name}"), ".metadata.uid"));
    for name in names {
        space.has(&format!("vmi/{name}"), "Ready", "True");
    }
    let before = uids();
    for _ in 0..2 {
        space.kill_program("virt-handler");
        space.cluster.run(&["-n", "kubevirt", "rollout", "status", "daemonset", "--timeout=120s"]).ok();
    }
    assert_eq!(uids(), before);
    for name in names {
        assert_eq!(space.get(&format!("vmi/{name}"), ".status.phase"), "Running");
    }
    // The new agent has them: one that ends is told.
    space.console("c").log_in().power_off();
    space.another("vmi/c", &before[2]);
}

#[test]
fn a_launcher_that_dies_takes_its_vmi_and_the_strategy_decides() {
    let Some(space) = Space::new("launcher") else { return };
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    let first = space.get("vmi/web", ".metadata.uid");
    space.kill_in(&space.pod_of("web"), "virt-launcher");
    space.another("vmi/web", &first);
    space.has("vmi/web", "Ready", "True");
}

#[test]
fn nothing_is_left_on_the_node() {
    let Some(space) = Space::new("clean") else { return };
    let look = |what: &str| {
        let ran = space.cluster.on_node(1, &["bash", "-c", what]).ok();
        String::from_utf8_lossy(&ran.out).into_owned()
    };
    let everything = || {
        [
            look("ls /var/lib/kubelet/pods | sort"),
            look("pgrep -l 'qemu|virt-launcher' | sort -k2; true"),
            look("awk '{print $5}' /proc/self/mountinfo | grep -E 'kubelet|netns' | sort"),
            look("ip -o link | cut -d: -f2 | grep -v veth | sort"),
        ]
    };
    let before = everything();
    space.apply(&tiny("web", "Always"));
    space.has("vmi/web", "Ready", "True");
    space.run(&["delete", "vm", "web"]);
    space.gone("vm/web");
    space.gone("pod");
    until(|| everything() == before, || format!("{:#?}, not {before:#?}", everything()));
}

/// The node of an import begins anew in its middle: the import goes on where it was.
#[test]
fn an_import_goes_on_behind_a_restart_of_its_node() {
    let Some(space) = Space::new("crash") else { return };
    let image = Noise::new(3).bytes(96 << 20);
    let length = image.len() as u64;
    let server = serve(&space, image, Behaviour { rate: Some(1 << 20), ..Behaviour::default() });
    space.apply(&disk("slow", &http(&server, ""), "96Mi", ""));
    space.says("pod/importer-slow", ".status.phase", "Running");
    space.has_kept("importer-slow", 8 << 20);
    for part in ["node1/kubelet", "node1/containerd"] {
        space.cluster.tool("part", &["kill", part]).ok();
    }
    space.kill_program("virt-controller");
    server.set(Behaviour::default());
    phase(&space, "slow", "Succeeded");
    let sent = server.sent();
    assert!(sent < length + length / 2, "{sent} bytes were sent of {length}");
}
