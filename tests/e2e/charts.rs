//! The manifests as a kustomize base and as a Helm chart, read by the real programs: each makes the same stream of them.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use tests::cluster::Cluster;
use tests::coracle::Ran;

const REGISTRY: &str = "registry.example/coracle";

/// Objects by kind, namespace and name.
type Objects = BTreeMap<String, Value>;

fn objects(text: &[u8]) -> Objects {
    let documents = api::yaml::parse(std::str::from_utf8(text).unwrap()).unwrap();
    let all = documents.into_iter().map(|document| document.value);
    let key = |object: &Value| {
        let meta = &object["metadata"];
        format!("{} {} {}", object["kind"], meta["namespace"], meta["name"])
    };
    all.filter(|object| !object.is_null()).map(|object| (key(&object), object)).collect()
}

fn manifests(folder: &Path, args: &[&str]) -> Ran {
    let words = [&["manifests", "--registry", REGISTRY], args].concat();
    tests::coracle::run(env!("CARGO_BIN_EXE_coracle"), folder, &words).ok()
}

/// The real Helm, in a folder: it reads and writes nothing of the user's own.
pub(crate) fn helm(cluster: &Cluster, folder: &Path) -> Command {
    let mut command = Command::new(cluster.info("helm"));
    let own = ["HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"];
    command.envs(own.map(|name| (name, folder.join("own")))).current_dir(folder);
    command
}

/// Says which object is another, not the whole stream.
fn same(found: &Objects, wanted: &Objects) {
    assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>());
    for (name, object) in wanted {
        assert!(found[name] == *object, "{name}:\n{:#}\n{object:#}", found[name]);
    }
}

#[test]
fn kubectl_reads_the_kustomize_base_as_the_stream() {
    let Some(cluster) = Cluster::there() else { return };
    let place = tempfile::tempdir().unwrap();
    manifests(place.path(), &["--kustomize", "base"]);
    let base = place.path().join("base");
    let read = cluster.run(&["kustomize", base.to_str().unwrap()]).ok();
    same(&objects(&read.out), &objects(&manifests(place.path(), &[]).out));
}

#[test]
fn helm_renders_the_chart_as_the_stream() {
    let Some(cluster) = Cluster::there() else { return };
    let place = tempfile::tempdir().unwrap();
    manifests(place.path(), &["--helm", "chart"]);
    let template = |args: &[&str]| {
        // As it is built here, it takes the cluster for an old one.
        let words = ["template", "coracle", "chart", "--kube-version", "1.36.3"];
        Ran::of(helm(&cluster, place.path()).args(words).args(args).output().unwrap())
    };
    let whole = ["--version", "1.2.3", "--image-pull-policy", "Always", "--image-pull-secret", "key"];
    for (values, flags) in [
        (vec!["--namespace", "kubevirt"], vec![]),
        (
            vec!["--namespace", "123", "--set", "imagePullPolicy=Always,imagePullSecret=key,version=1.2.3"],
            [&["--namespace", "123"], &whole[..]].concat(),
        ),
    ] {
        let mut found = objects(&template(&values).ok().out);
        for object in found.values_mut().filter(|object| object["kind"] == "CustomResourceDefinition") {
            let kept =
                object["metadata"]["annotations"].as_object_mut().unwrap().remove("helm.sh/resource-policy");
            assert_eq!(kept, Some("keep".into()));
        }
        let mut wanted = objects(&manifests(place.path(), &flags).out);
        wanted.retain(|_, object| object["kind"] != "Namespace");
        same(&found, &wanted);
    }
    // A value without effect, and one that would be more than a text.
    template(&["--set", "registri=other"]).refused(1, "registri");
    template(&["--set", "registry=a\"b"]).refused(1, "does not match pattern");
}
