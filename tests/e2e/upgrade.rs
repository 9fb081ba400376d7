//! The installation is replaced by a newer version, and customized: other stories would meet programs that come and go, so these run
//! one after the other, and each leaves the installation as it was.
//!
//! The newer version is the same images by another tag: a version is what the manifests name.

use crate::tiny;
use crate::trust::refused;
use std::path::Path;
use std::process::Command;
use tests::cluster::{Cluster, Space, until};
use tests::coracle::Ran;

const KUBEVIRT: [&str; 4] = ["get", "-n", "kubevirt", "kubevirt/kubevirt"];
/// The images of an installation.
const IMAGES: [&str; 6] =
    ["virt-api", "virt-controller", "virt-handler", "virt-launcher", "cdi-worker", "cdi-uploadproxy"];

/// What the KubeVirt object says at this path.
fn kubevirt(cluster: &Cluster, path: &str) -> String {
    let out = format!("jsonpath={{{path}}}");
    let ran = cluster.run(&[&KUBEVIRT[..], &["-o", &out]].concat());
    String::from_utf8_lossy(&ran.out).trim().to_owned()
}

fn object(cluster: &Cluster, name: &str, path: &str) -> String {
    let out = format!("jsonpath={{{path}}}");
    let ran = cluster.run(&["get", "-n", "kubevirt", name, "-o", &out]);
    String::from_utf8_lossy(&ran.out).trim().to_owned()
}

/// All pods of a DaemonSet are of its newest template, and ready.
fn is_replaced(cluster: &Cluster, name: &str) -> bool {
    let path = ".metadata.generation} {.status.observedGeneration} {.status.desiredNumberScheduled} {.status.updatedNumberScheduled} \
                {.status.numberReady";
    let said = object(cluster, name, path);
    let numbers: Vec<&str> = said.split(' ').collect();
    matches!(numbers[..], [newest, observed, all, updated, ready] if newest == observed && all == updated && all == ready)
}

/// How many pods of a component are ready with an image of this tag.
fn ready(cluster: &Cluster, component: &str, tag: &str) -> usize {
    let of = format!("kubevirt.io={component}");
    let each = r#"jsonpath={range .items[*]}{.spec.containers[0].image}={.status.conditions[?(@.type=="Ready")].status}{"\n"}{end}"#;
    let ran = cluster.run(&["get", "-n", "kubevirt", "pods", "-l", &of, "-o", each]);
    String::from_utf8_lossy(&ran.out).lines().filter(|pod| pod.ends_with(&format!(":{tag}=True"))).count()
}

/// The program on this computer.
fn coracle(args: &[&str]) -> Ran {
    Ran::of(Command::new(env!("CARGO_BIN_EXE_coracle")).args(args).output().unwrap())
}

/// The same images by another tag.
fn tagged(cluster: &Cluster, folder: &Path, old: &str, new: &str) {
    let registry = cluster.info("registry");
    let plain = folder.join("registries.toml");
    std::fs::write(&plain, format!("[host.\"{registry}\"]\nplain-http = true\n")).unwrap();
    for image in IMAGES {
        let of = |tag: &str| format!("docker://{registry}/coracle/{image}:{tag}");
        coracle(&["copy", "--quiet", "--registries", plain.to_str().unwrap(), &of(old), &of(new)]).ok();
    }
}

/// Applies the manifests of a version, whatever the API server answers.
fn apply(cluster: &Cluster, folder: &Path, version: &str) -> Ran {
    let manifests = coracle(&["manifests", "--registry", "registry:5000/coracle", "--version", version]).ok();
    let file = folder.join(version);
    std::fs::write(&file, manifests.out).unwrap();
    cluster.run(&["apply", "-f", file.to_str().unwrap()])
}

/// Every component is of this version.
fn observes(cluster: &Cluster, version: &str) {
    let is = || {
        kubevirt(cluster, ".status.observedKubeVirtVersion") == version
            && kubevirt(cluster, ".status.phase") == "Deployed"
            && kubevirt(cluster, ".status.conditions[?(@.type=='Available')].status") == "True"
    };
    let of = r#".status.conditions[?(@.type=="Progressing")].message"#;
    until(is, || format!("{version} is not observed: {}", kubevirt(cluster, of)));
}

#[test]
fn a_newer_version_takes_the_place_of_the_installation_and_a_vm_runs_on() {
    let Some(space) = Space::new("upgrade") else { return };
    let (cluster, place) = (&space.cluster, tempfile::tempdir().unwrap());
    let before = kubevirt(cluster, ".status.observedKubeVirtVersion");
    space.apply(&tiny("web", "Always"));
    let mut console = space.console_when_ready("web");
    console.log_in().types("n=4711; echo s''et-$n").says("set-4711");
    drop(console);
    let pod = space.pod_of("web");
    let uid = space.get(&format!("pod/{pod}"), ".metadata.uid");
    tagged(cluster, place.path(), &before, "99.0.1");
    apply(cluster, place.path(), "99.0.1").ok();
    // No virt-controller of the newer version is ready before virt-handler is replaced everywhere. Which are ready is asked first.
    let mut waited = 0;
    let in_turn = || {
        let ready = ready(cluster, "virt-controller", "99.0.1");
        let is_replaced = is_replaced(cluster, "daemonset/virt-handler");
        assert!(
            is_replaced || ready == 0,
            "{ready} virt-controllers are ready before virt-handler is replaced"
        );
        waited += usize::from(!is_replaced);
        is_replaced && ready > 0
    };
    until(in_turn, || "virt-handler or virt-controller is not replaced".to_owned());
    assert!(waited > 0, "virt-handler was replaced before anybody looked: nothing is shown");
    until(
        || kubevirt(cluster, ".status.targetKubeVirtVersion") == "99.0.1",
        || "the newer version is not wanted".to_owned(),
    );
    observes(cluster, "99.0.1");
    // The VM is the one of before, in the pod of before, and is looked after.
    assert_eq!(space.get(&format!("pod/{pod}"), ".metadata.uid"), uid);
    let mut console = space.console("web");
    console.types("echo $n-af''ter").says("4711-after");
    drop(console);
    until(
        || kubevirt(cluster, ".status.outdatedVirtualMachineInstanceWorkloads") != "0",
        || "the VM is not counted".to_owned(),
    );
    // What is installed is not replaced by an older one, and no component alone by another image.
    let older = apply(cluster, place.path(), "99.0.0");
    assert!(older.code != 0 && older.err.contains("a downgrade is not supported"), "{}", older.err);
    let set = [
        "set",
        "image",
        "-n",
        "kubevirt",
        "deployment/virt-api",
        "virt-api=registry:5000/coracle/virt-api:99.0.0",
    ];
    refused(&cluster.run(&set), "the images of a component are those of its manifest");
    let undo = cluster.run(&["rollout", "undo", "-n", "kubevirt", "daemonset/virt-handler"]);
    refused(&undo, "the version that the component says");
    // The tag of before is no version, so that nothing is known of which is older.
    apply(cluster, place.path(), &before).ok();
    observes(cluster, &before);
    assert_eq!(space.get(&format!("pod/{pod}"), ".metadata.uid"), uid);
}

#[test]
fn components_are_customized_and_are_as_before_without_it() {
    let Some(space) = Space::new("customized") else { return };
    let cluster = &space.cluster;
    let version = kubevirt(cluster, ".status.observedKubeVirtVersion");
    let customize = |said: &str| {
        let patch = format!(r#"{{"spec":{{"customizeComponents":{said}}}}}"#);
        cluster.run(&["patch", "-n", "kubevirt", "kubevirt", "kubevirt", "--type", "merge", "-p", &patch])
    };
    let memory = ".spec.template.spec.containers[0].resources.requests.memory";
    let before = object(cluster, "daemonset/virt-handler", memory);
    let strategic = r#"{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"virt-handler\",\"resources\":{\"requests\":{\"memory\":\"65Mi\"}}}]}}}}"#;
    let json = r#"[{\"op\":\"add\",\"path\":\"/spec/template/metadata/annotations/team\",\"value\":\"x\"}]"#;
    let evil = r#"{\"spec\":{\"template\":{\"spec\":{\"hostNetwork\":true}}}}"#;
    let patch = |kind: &str, of: &str, name: &str, patch: &str| {
        format!(r#"{{"resourceType":"{of}","resourceName":"{name}","type":"{kind}","patch":"{patch}"}}"#)
    };
    let patches = [
        patch("strategic", "DaemonSet", "virt-handler", strategic),
        patch("json", "Deployment", "virt-api", json),
        patch("merge", "Deployment", "virt-api", evil),
    ];
    customize(&format!(r#"{{"patches":[{}]}}"#, patches.join(","))).ok();
    until(
        || object(cluster, "daemonset/virt-handler", memory) == "65Mi",
        || format!("virt-handler asks for {}", object(cluster, "daemonset/virt-handler", memory)),
    );
    let team = ".spec.template.metadata.annotations.team";
    until(|| object(cluster, "deployment/virt-api", team) == "x", || "virt-api has no annotation".to_owned());
    assert_eq!(object(cluster, "deployment/virt-api", ".spec.template.spec.hostNetwork"), "");
    let said = ".status.conditions[?(@.type=='Synchronized')].message";
    until(
        || kubevirt(cluster, said).contains("spec.customizeComponents.patches[2]: the patch changes"),
        || kubevirt(cluster, said),
    );
    observes(cluster, &version);
    // Nothing is written for ever.
    let generation = || object(cluster, "daemonset/virt-handler", ".metadata.generation");
    let now = generation();
    for (said, why) in [
        (
            r#"{"patches":[{"resourceType":"Deployment","resourceName":"virt-api","type":"merge","patch":"{"}]}"#,
            "is not JSON",
        ),
        (r#"{"flags":{"api":{"v":"5"}}}"#, "does not know the argument"),
    ] {
        let ran = customize(said);
        assert!(ran.code != 0 && ran.err.contains(why), "{}", ran.err);
    }
    assert_eq!(generation(), now);
    customize("null").ok();
    until(
        || object(cluster, "daemonset/virt-handler", memory) == before,
        || object(cluster, "daemonset/virt-handler", memory),
    );
    until(|| object(cluster, "deployment/virt-api", team).is_empty(), || "the annotation stays".to_owned());
    observes(cluster, &version);
    assert_eq!(kubevirt(cluster, ".status.conditions[?(@.type=='Synchronized')].status"), "True");
}
