//! The manifests as a kustomize base and as a Helm chart, read by the real programs: each makes the same stream of them.

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
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
