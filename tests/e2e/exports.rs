//! Exports: the disk of a PVC becomes a container image in a registry, by a pod of the cluster; and the image becomes the disk of
//! a VM again.

use crate::{tiny, with_disks};
use std::net::Ipv4Addr;
use std::process::Stdio;
use tests::cluster::{Space, until};
use tests::coracle::Ran;
use tests::http::Authority;
use tests::registry::{Registry, Serve};

const USER: (&str, &str) = ("me", "s3cret-word");

/// A registry with a login and an authority of its own, which the pods of the cluster reach.
struct Guarded {
    server: Registry,
}

impl Guarded {
    /// Its Secret is `login`, and its ConfigMap `authority`.
    fn start(space: &Space) -> Guarded {
        let gateway: Ipv4Addr = space.cluster.info("gateway").parse().unwrap();
        let authority = Authority::new();
        let serve = Serve { tls: Some(&authority), basic: Some(USER), at: Some(gateway), ..Serve::default() };
        let server = Registry::serve(&serve);
        let pem: String = authority.pem().lines().map(|line| format!("    {line}\n")).collect();
        space.apply(&format!(
            "
apiVersion: v1
kind: Secret
metadata: {{name: login}}
stringData: {{accessKeyId: {}, secretKey: {}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: authority}}
data:
  ca.crt: |
{pem}",
            USER.0, USER.1
        ));
        Guarded { server }
    }

    fn image(&self) -> String {
        format!("docker://{}/golden/os:1", self.server.address())
    }
}

/// A PVC whose disk a VM has written to, and that VM, which is halted.
fn written(space: &Space) {
    space.apply(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata:
  name: golden
  annotations: {cdi.kubevirt.io/storage.bind.immediate.requested: ''}
spec:
  source: {blank: {}}
  storage: {resources: {requests: {storage: 64Mi}}}
",
    );
    space.says("dv/golden", ".status.phase", "Succeeded");
    let volume = ("{name: data, disk: {bus: virtio}}", "{name: data, dataVolume: {name: golden}}");
    space.apply(&with_disks(&tiny("writer", "Always"), &[volume]));
    crate::volumes::write(&mut space.console_when_ready("writer"));
}

fn halt(space: &Space) {
    space.run(&["patch", "vm/writer", "--type", "merge", "-p", r#"{"spec":{"runStrategy":"Halted"}}"#]);
    space.gone("vmi/writer");
}

/// A VM reads what the other one has written, on a disk that comes from the image.
fn is_read(space: &Space, image: &str) {
    space.apply(&format!(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata:
  name: copy
  annotations: {{cdi.kubevirt.io/storage.bind.immediate.requested: ''}}
spec:
  source: {{registry: {{url: '{image}', secretRef: login, certConfigMap: authority}}}}
  storage: {{resources: {{requests: {{storage: 64Mi}}}}}}
"
    ));
    space.says("dv/copy", ".status.phase", "Succeeded");
    let volume = ("{name: data, disk: {bus: virtio}}", "{name: data, dataVolume: {name: copy}}");
    space.apply(&with_disks(&tiny("reader", "Always"), &[volume]));
    crate::volumes::reads(&mut space.console_when_ready("reader"));
}

fn note(space: &Space, name: &str) -> String {
    space.get("pvc/golden", &format!(".metadata.annotations.cdi\\.kubevirt\\.io/storage\\.export\\.{name}"))
}

fn annotated(space: &Space, said: &[(&str, &str)]) {
    let said: Vec<String> =
        said.iter().map(|(name, value)| format!("cdi.kubevirt.io/storage.export.{name}={value}")).collect();
    let words: Vec<&str> = said.iter().map(String::as_str).collect();
    space.run(&[&["annotate", "--overwrite", "pvc/golden"], &words[..]].concat());
}

/// `coracle build` on this computer, whatever comes of it.
fn build(space: &Space, words: &[&str]) -> Ran {
    let info = |word| space.cluster.info(word);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_coracle"));
    command.args(["build", "-n", &space.name]).args(words).env("KUBECONFIG", info("kubeconfig"));
    command.env_remove("SOURCE_DATE_EPOCH");
    Ran::of(command.stdin(Stdio::null()).output().unwrap())
}

/// While the VM runs, its disk is waited for; then it becomes an image, and the image the disk of another VM.
#[test]
fn a_golden_image_is_made_of_the_disk_of_a_vm_and_another_vm_has_it() {
    let Some(space) = Space::new("exports") else { return };
    let registry = Guarded::start(&space);
    written(&space);
    let image = registry.image();
    annotated(&space, &[("target", &image), ("secretRef", "login"), ("certConfigMap", "authority")]);
    until(|| note(&space, "reason") == "InUse", || note(&space, "message"));
    assert!(space.try_run(&["get", "pod/exporter-golden"]).code != 0, "nobody reads under a VM that runs");
    halt(&space);
    until(|| note(&space, "phase") == "Succeeded", || note(&space, "message"));
    assert!(note(&space, "digest").starts_with("sha256:"), "{}", note(&space, "digest"));
    space.gone("pod/exporter-golden");
    let events = space.run(&["get", "events", "--field-selector=reason=ExportSucceeded", "-o", "name"]);
    assert!(!events.is_empty(), "people are told");
    is_read(&space, &image);
}

/// The same by the command, which follows it; a wrong login ends it with its reason.
#[test]
fn the_command_asks_follows_and_tells_the_digest() {
    let Some(space) = Space::new("exports") else { return };
    let registry = Guarded::start(&space);
    written(&space);
    halt(&space);
    let image = registry.image();
    let flags = ["-t", &image, "pvc/golden", "--cert-config-map", "authority"];
    let refused = build(&space, &flags);
    assert_eq!(refused.code, 5, "{}", refused.err);
    let made = build(&space, &[&flags[..], &["--secret", "login"]].concat()).ok();
    let told = String::from_utf8(made.out).unwrap();
    assert_eq!(told.trim(), format!("{image}@{}", note(&space, "digest")));
    is_read(&space, &image);
}

/// A pod that is killed is followed by another, and the image is whole all the same.
#[test]
fn an_export_pod_that_is_killed_is_followed_by_another() {
    let Some(space) = Space::new("exports") else { return };
    let mut registry = Guarded::start(&space);
    written(&space);
    halt(&space);
    // A registry that is away is waited for: there is time to kill the pod.
    registry.server.stop();
    let image = registry.image();
    annotated(&space, &[("target", &image), ("secretRef", "login"), ("certConfigMap", "authority")]);
    until(|| note(&space, "phase") == "Running", || note(&space, "message"));
    let first = space.get("pod/exporter-golden", ".metadata.uid");
    space.run(&["delete", "pod/exporter-golden", "--grace-period=0", "--force"]);
    space.another("pod/exporter-golden", &first);
    registry.server.start_again();
    until(|| note(&space, "phase") == "Succeeded", || note(&space, "message"));
    is_read(&space, &image);
}

/// A typing error is told to whoever makes it; and a PVC with one from before may still be changed.
#[test]
fn an_annotation_that_makes_no_sense_is_refused_where_it_is_written() {
    let Some(space) = Space::new("exports") else { return };
    let disk = |kind: &str, target: &str| {
        let note = format!("cdi.kubevirt.io/storage.export.target: '{target}'");
        let spec = match kind {
            "PersistentVolumeClaim" => {
                "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}".to_owned()
            }
            _ => "{source: {blank: {}}, storage: {resources: {requests: {storage: 16Mi}}}}".to_owned(),
        };
        let version = if kind == "DataVolume" { "cdi.kubevirt.io/v1beta1" } else { "v1" };
        let name = kind.to_lowercase();
        format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: {name}, annotations: {{{note}}}}}\nspec: {spec}\n"
        )
    };
    for kind in ["PersistentVolumeClaim", "DataVolume"] {
        let refused = space.try_apply(&disk(kind, "registry.example/os"));
        assert_ne!(refused.code, 0, "{kind}");
        assert!(
            refused.err.contains("storage.export.target] must be docker://HOST/REPO:TAG"),
            "{}",
            refused.err
        );
        space.apply(&disk(kind, ""));
        let name = kind.to_lowercase();
        let note = "cdi.kubevirt.io/storage.export.target=registry.example/os";
        let refused = space.try_run(&["annotate", "--overwrite", &name, &name, note]);
        assert!(refused.code != 0 && refused.err.contains("must be docker://"), "{kind}: {}", refused.err);
        space.run(&["label", &name, &name, "tier=gold"]);
    }
}
