//! The installation as a release of the real Helm, by the steps of the chart's README. It needs a cluster in which nothing is installed,
//! so the story of the end of the installation ends with it.

use crate::charts::helm;
use crate::removal::left;
use crate::tiny;
use tests::cluster::{Cluster, Space, until};
use tests::coracle::Ran;

/// The installation that was there before: another one like it is made.
pub(crate) struct Before {
    version: String,
    emulates: String,
}

impl Before {
    pub(crate) fn of(cluster: &Cluster) -> Before {
        let said = |path: &str| {
            let out = format!("jsonpath={{{path}}}");
            let ran = cluster.run(&["get", "-n", "kubevirt", "kubevirt/kubevirt", "-o", &out]).ok();
            String::from_utf8_lossy(&ran.out).trim().to_owned()
        };
        Before {
            version: said(".status.observedKubeVirtVersion"),
            emulates: said(".spec.configuration.developerConfiguration.useEmulation"),
        }
    }
}

/// Installs the chart, boots a VM, and takes both away.
pub(crate) fn comes_and_goes(space: &Space, before: &Before) {
    let (cluster, place) = (&space.cluster, tempfile::tempdir().unwrap());
    let words =
        ["manifests", "--registry", "registry:5000/coracle", "--version", &before.version, "--helm", "chart"];
    tests::coracle::run(env!("CARGO_BIN_EXE_coracle"), place.path(), &words).ok();
    let config = cluster.info("kubeconfig");
    let release = |args: &[&str]| {
        let mut command = helm(cluster, place.path());
        command.args(args).args(["--namespace", "kubevirt"]);
        command.env("KUBECONFIG", &config);
        Ran::of(command.output().unwrap())
    };
    cluster.run(&["create", "namespace", "kubevirt"]).ok();
    let labels = ["kubevirt.io=", "pod-security.kubernetes.io/enforce=privileged"];
    cluster.run(&[&["label", "namespace", "kubevirt"], &labels[..]].concat()).ok();
    release(&["install", "coracle", "chart", "--wait", "--timeout", "5m"]).ok();
    let kubevirt = ["-n", "kubevirt", "kubevirt/kubevirt"];
    let wait = |args: &[&str]| cluster.run(&[&["wait"], &kubevirt[..], args].concat()).ok();
    wait(&["--for", "create", "--timeout", "60s"]);
    wait(&["--for", "condition=Available", "--timeout", "180s"]);
    if before.emulates == "true" {
        let emulate = r#"{"spec":{"configuration":{"developerConfiguration":{"useEmulation":true}}}}"#;
        cluster.run(&[&["patch"], &kubevirt[..], &["--type", "merge", "-p", emulate]].concat()).ok();
    }
    space.apply(&tiny("charted", "Always"));
    space.has("vmi/charted", "Ready", "True");

    cluster.run(&["delete", "-n", "kubevirt", "kubevirt", "kubevirt", "--timeout=150s"]).ok();
    space.gone("pod");
    release(&["uninstall", "coracle", "--wait", "--timeout", "5m"]).ok();
    cluster.run(&["delete", "namespace", "kubevirt", "--timeout=150s"]).ok();
    // The definitions stay, so that an uninstallation takes no VMs away, and with them objects (the CDI object, StorageProfiles) and the
    // groups that the API server serves for them; but not the groups that virt-api served.
    let is_definition = |name: &String| name.starts_with("customresourcedefinition.apiextensions.k8s.io/");
    let (definitions, others): (Vec<_>, Vec<_>) = left(cluster).into_iter().partition(is_definition);
    let stays = |name: &String| match name.split_once('/') {
        Some(("apiservice.apiregistration.k8s.io", group)) => {
            !["subresources.", "upload."].iter().any(|ours| group.contains(ours))
        }
        Some((kind, _)) => kind.ends_with(".kubevirt.io"),
        None => false,
    };
    assert!(!definitions.is_empty() && others.iter().all(stays), "{others:?}");
    let names: Vec<&str> = definitions.iter().map(String::as_str).collect();
    cluster.run(&[&["delete", "--timeout=150s"], &names[..]].concat()).ok();
    until(|| left(cluster).is_empty(), || format!("{:?}", left(cluster)));
}
