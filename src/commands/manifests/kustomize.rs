//! The manifests as a kustomize base: a file for each object, and the list of them.

use super::folder::{File, marked, split};
use install::{InstallOptions, objects};
use local_vm::manifest;
use serde_json::json;

/// Folder of the objects.
pub(super) const OBJECTS: &str = "objects";

/// All files, `kustomization.yaml` first.
pub(super) fn files(wishes: &InstallOptions) -> Vec<File> {
    let objects = split(OBJECTS, &objects(wishes));
    let list = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": objects.iter().map(|(path, _)| path).collect::<Vec<_>>(),
        // Keeps the order of the manifests: accounts come after the policies that bind them.
        "sortOptions": {"order": "fifo"},
    });
    let mut files = vec![marked("kustomization.yaml", &manifest::text(&[list]))];
    files.extend(objects);
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::yaml::parse;
    use serde_json::Value;

    #[test]
    fn the_listed_files_are_the_stream() {
        let wishes = super::super::tests::wishes();
        let files = files(&wishes);
        let list = parse(&files[0].1).unwrap().remove(0).value;
        let mut found: Vec<String> = Vec::new();
        for path in list["resources"].as_array().unwrap() {
            let (_, text) = files.iter().find(|(there, _)| path.as_str() == Some(there)).unwrap();
            found.extend(parse(text).unwrap().into_iter().map(|document| document.value.to_string()));
        }
        let mut wanted: Vec<String> = objects(&wishes).iter().map(Value::to_string).collect();
        assert_eq!(list["resources"].as_array().unwrap().len(), files.len() - 1);
        found.sort();
        wanted.sort();
        assert!(found == wanted, "the files are not the stream");
    }
}
