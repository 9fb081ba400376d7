//! Every example object in the documents passes its webhooks.

use super::manifests::refused;
use cluster_model::plan::merge;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Feature gates that the documents tell users to enable.
const GATES: [&str; 4] = ["HostDevices", "HostDisk", "Sidecar", "VSOCK"];

#[test]
fn every_object_in_the_documents_is_accepted() {
    let mut asked = 0;
    let mut wrong = Vec::new();
    for folder in ["how-to", "reference"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(folder);
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|ending| ending != "md") {
                continue;
            }
            let blocks = blocks(&fs::read_to_string(&path).unwrap());
            let configuration = configuration(&blocks);
            for block in blocks {
                let (count, refused) = refused(block, &configuration);
                asked += count;
                wrong.extend(refused.into_iter().map(|message| format!("{}: {message}", path.display())));
            }
        }
    }
    assert!(asked >= 40, "{asked}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The objects of each YAML block that has any.
fn blocks(document: &str) -> Vec<Vec<Value>> {
    let blocks = document.split("\n```yaml").skip(1).filter_map(|rest| rest.split_once('\n'));
    let blocks = blocks.filter_map(|(_, rest)| rest.split("\n```").next());
    let blocks = blocks.filter(|block| block.lines().any(|line| line.starts_with("kind: ")));
    let objects = |block: &str| {
        let documents = api::yaml::parse(block).unwrap_or_else(|wrong| panic!("{wrong:?}: {block}"));
        documents.into_iter().map(|document| document.value).collect()
    };
    blocks.map(objects).collect()
}

/// The configuration that a document tells users to write into the KubeVirt object.
fn configuration(blocks: &[Vec<Value>]) -> Value {
    let mut configuration = json!({});
    for object in blocks.iter().flatten().filter(|object| object["kind"] == "KubeVirt") {
        let said = &object["spec"]["configuration"];
        if said.is_object() {
            merge(&mut configuration, said);
        }
    }
    configuration["developerConfiguration"]["featureGates"] = json!(GATES);
    configuration
}
