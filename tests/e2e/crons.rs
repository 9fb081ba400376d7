//! DataImportCrons: an image changes at its server, is imported anew, the DataSource follows, and what is too old goes.

use crate::trust::{Bearer, refused};
use tests::cluster::{Space, until};
use tests::disk::qemu_convert;
use tests::http::{Behaviour, Server};

/// A version of the image.
fn version(number: u32) -> Behaviour {
    Behaviour { etag: Some(format!("\"{number}\"")), ..Behaviour::default() }
}

fn cron(server: &Server, more: &str) -> String {
    format!(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataImportCron
metadata: {{name: images}}
spec:
  schedule: '@every 1m'
  managedDataSource: os
  importsToKeep: 1
  retentionPolicy: None
  template:
    spec:
      source: {{http: {{url: '{}'{more}}}}}
      storage: {{resources: {{requests: {{storage: 16Mi}}}}}}
",
        server.url("/disk.qcow2")
    )
}

fn leads_to(space: &Space) -> String {
    space.get("datasource/os", ".spec.source.pvc.name")
}

fn message(space: &Space) -> String {
    space.get("dic/images", ".status.conditions[?(@.type==\"UpToDate\")].message")
}

#[test]
fn the_newest_image_is_behind_the_datasource() {
    let Some(space) = Space::new("crons") else { return };
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("disk.raw");
    std::fs::write(&raw, vec![7; 1 << 20]).unwrap();
    let image = std::fs::read(qemu_convert("-O qcow2", &raw, &folder.path().join("disk.qcow2"))).unwrap();
    let server = crate::imports::serve(&space, image, version(1));
    space.apply(&cron(&server, ""));
    until(|| message(&space) == "Latest import is up to date", || space.get("dic/images", ".status"));
    let first = leads_to(&space);
    assert!(first.starts_with("os-") && first.len() == "os-".len() + 12, "{first}");
    assert_eq!(space.get(&format!("dv/{first}"), ".status.phase"), "Succeeded");
    let heads = server.requests().iter().filter(|request| request.method == "HEAD").count();
    assert!(heads >= 1, "a poll is a HEAD");

    server.set(version(2));
    until(|| leads_to(&space) != first, || space.get("dic/images", ".status"));
    let second = leads_to(&space);
    assert_eq!(space.get(&format!("dv/{second}"), ".status.phase"), "Succeeded");
    let names = || space.run(&["get", "dv", "-o", "name"]);
    until(|| !names().contains(&first), names);
    assert!(names().contains(&second));

    // Without it, nothing is left.
    space.run(&["delete", "dic", "images"]);
    let left = || space.run(&["get", "dv,datasource,pvc", "-o", "name"]);
    until(|| left().trim().is_empty(), left);
}

/// virt-controller has no right to the Secret: a pod polls, and says what was wrong with one that is.
#[test]
fn an_image_behind_a_login_is_polled_by_a_pod() {
    let Some(space) = Space::new("crons") else { return };
    let (user, word) = ("me", "s3cret-word");
    let login = Some((user.to_owned(), word.to_owned()));
    let behaviour = Behaviour { basic: login, ..version(1) };
    let server = crate::imports::serve(&space, vec![7; 1 << 20], behaviour);
    let secret = |word: &str| {
        let manifest = format!(
            "{{apiVersion: v1, kind: Secret, metadata: {{name: login}}, stringData: {{accessKeyId: {user}, secretKey: {word}}}}}"
        );
        space.apply(&manifest);
    };
    secret("other");
    space.apply(&cron(&server, ", secretRef: login"));
    until(|| message(&space).contains("; the last poll failed: "), || message(&space));
    assert!(!message(&space).contains(word));
    assert_eq!(space.run(&["get", "dv", "-o", "name"]).trim(), "");
    // The pod that failed stays, for its log; the next one has what the Secret says then.
    let pods = || space.run(&["get", "pod", "-l", "cdi.kubevirt.io=poller", "-o", "name"]);
    assert!(pods().contains("poller-images-"), "{}", pods());
    secret(word);
    until(|| message(&space) == "Latest import is up to date", || space.get("dic/images", ".status"));
    assert!(leads_to(&space).starts_with("os-"));
    until(|| pods().trim().is_empty(), pods);
}

/// Of images virt-controller leads DataSources of DataImportCrons alone, to PVCs of their namespace, and deletes imports alone.
#[test]
fn a_stolen_token_of_virt_controller_writes_of_images_what_is_its_own() {
    let Some(space) = Space::new("crons") else { return };
    let thief = Bearer::of(&space, "kubevirt-controller", &[]);
    let create = ["create", "-f", "-"];
    let named = |kind: &str, name: &str, labels: &str, spec: &str| {
        format!(
            "{{apiVersion: cdi.kubevirt.io/v1beta1, kind: {kind}, metadata: {{name: {name}, labels: {{{labels}}}}}, spec: {spec}}}"
        )
    };
    let to = |namespace: &str| format!("{{source: {{pvc: {{namespace: {namespace}, name: a}}}}}}");
    let label = "cdi.kubevirt.io/dataImportCron: images";
    let own = to(&space.name);
    let said = "leads only DataSources of DataImportCrons to a PVC";
    refused(&thief.reads(&named("DataSource", "ours", "", &own), &create), said);
    refused(&thief.reads(&named("DataSource", "ours", label, &to("kube-system")), &create), said);
    thief.reads(&named("DataSource", "ours", label, &own), &create).ok();
    space.apply(&named("DataSource", "theirs", "", &own));
    let change = serde_json::json!({"spec": {"source": {"pvc": {"namespace": space.name, "name": "b"}}}});
    refused(&thief.patches("datasource/theirs", &change.to_string()), said);
    thief.patches("datasource/ours", &change.to_string()).ok();
    thief.patches("datasource/theirs", r#"{"status":{"source":null}}"#).ok();
    let handed = r#"{"metadata":{"labels":{"cdi.kubevirt.io/dataImportCron":"images"}}}"#;
    refused(&thief.patches("datasource/theirs", handed), "changes nothing of the metadata of a DataSource");

    let storage = "storage: {resources: {requests: {storage: 1Mi}}}";
    let template =
        format!("{{spec: {{source: {{registry: {{url: 'docker://registry.example/a:1'}}}}, {storage}}}}}");
    let spec = format!("{{managedDataSource: os, schedule: '', template: {template}}}");
    space.apply(&named("DataImportCron", "images", "", &spec));
    let digest =
        r#"{"metadata":{"annotations":{"cdi.kubevirt.io/storage.import.sourceDesiredDigest":"none"}}}"#;
    thief.patches("dataimportcron/images", digest).ok();
    let other = r#"{"metadata":{"annotations":{"a":"b"}}}"#;
    refused(&thief.patches("dataimportcron/images", other), "only the annotation of the newest digest");
    let schedule = r#"{"spec":{"schedule":"* * * * *"}}"#;
    refused(&thief.patches("dataimportcron/images", schedule), "only status and annotations");

    for (name, label) in [("kept", ""), ("import", label)] {
        space.apply(&named("DataVolume", name, label, &format!("{{source: {{blank: {{}}}}, {storage}}}")));
    }
    refused(&thief.runs(&["delete", "dv", "kept"]), "deletes only DataVolumes of DataImportCrons");
    thief.runs(&["delete", "dv", "import", "--wait=false"]).ok();
}
