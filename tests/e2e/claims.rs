//! PVCs: one that was there before its DataVolume, one that becomes larger, and those that are filled by `dataSourceRef`.

use crate::imports::{disk, http, message, phase, serve, words};
use crate::trust::{Bearer, refused};
use crate::uploads::{is_read, sends, token};
use tests::cluster::{Space, until};
use tests::http::Behaviour;

/// A PVC with a `dataSourceRef`.
fn populated(name: &str, class: &str, kind: &str, source: &str) -> String {
    format!(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {class}
  resources: {{requests: {{storage: 64Mi}}}}
  dataSourceRef: {{apiGroup: cdi.kubevirt.io, kind: {kind}, name: {source}}}
"
    )
}

/// A source of PVCs.
fn source(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: {kind}
metadata: {{name: {name}}}
spec: {spec}
"
    )
}

fn uid(space: &Space, object: &str) -> String {
    space.get(object, ".metadata.uid")
}

/// Nothing of the way is left, and the volume has the policy of its class.
fn is_handed_over(space: &Space, claim: &str) {
    space.says(&format!("pvc/{claim}"), ".status.phase", "Bound");
    space.gone(&format!("pvc/prime-{}", uid(space, &format!("pvc/{claim}"))));
    let volume = space.get(&format!("pvc/{claim}"), ".spec.volumeName");
    let policy = || space.get(&format!("pv/{volume}"), ".spec.persistentVolumeReclaimPolicy");
    until(|| policy() == "Delete", || format!("the policy of {volume} is {}", policy()));
    assert_eq!(space.get(&format!("pv/{volume}"), ".spec.claimRef.uid"), uid(space, &format!("pvc/{claim}")));
}

/// The objects are made anew, as a backup makes them: other uids, the same PVC. Nothing is fetched: nobody serves it any more.
#[test]
fn a_disk_that_comes_back_is_not_fetched_again() {
    let Some(space) = Space::new("claims") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&space, words(folder.path()), Behaviour::default());
    let manifest = disk("kept", &http(&server, ""), "16Mi", "");
    space.apply(&manifest);
    phase(&space, "kept", "Succeeded");
    let (volume, claim) = (uid(&space, "dv/kept"), uid(&space, "pvc/kept"));
    space.run(&["delete", "dv/kept", "--cascade=orphan"]);
    let owners = || space.get("pvc/kept", ".metadata.ownerReferences");
    until(|| owners().is_empty(), || format!("the PVC is owned by {}", owners()));
    drop(server);
    space.apply(&manifest);
    phase(&space, "kept", "Succeeded");
    assert!(message(&space, "kept", "Running").contains("is adopted as it is"));
    assert_ne!(uid(&space, "dv/kept"), volume);
    assert_eq!(uid(&space, "pvc/kept"), claim);
    assert_eq!(space.get("pvc/kept", ".metadata.ownerReferences[0].uid"), uid(&space, "dv/kept"));
    is_read(&space, "dataVolume: {name: kept}");
}

/// The image is larger than the PVC, whose class can grow: on a file system and on a device.
#[test]
fn a_pvc_grows_to_its_image() {
    let Some(space) = Space::new("claims") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&space, words(folder.path()), Behaviour::default());
    space.apply(&disk("files", &http(&server, ""), "8Mi", ""));
    space.apply(&disk("device", &http(&server, ""), "8Mi", ", volumeMode: Block"));
    for name in ["files", "device"] {
        phase(&space, name, "Succeeded");
        let asked = space.get(&format!("pvc/{name}"), ".spec.resources.requests.storage");
        assert!(asked.parse::<u64>().is_ok_and(|bytes| bytes >= 16 << 20), "{name}: {asked}");
        is_read(&space, &format!("dataVolume: {{name: {name}}}"));
    }
}

/// A PVC and its source, applied as a pair; nobody else is needed.
#[test]
fn a_pvc_is_imported_by_its_data_source() {
    let Some(space) = Space::new("claims") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&space, words(folder.path()), Behaviour::default());
    let spec = format!("{{source: {}}}", http(&server, ""));
    space.apply(&populated("at-once", "immediate", "VolumeImportSource", "gold"));
    let why = ".metadata.annotations.cdi\\.kubevirt\\.io/storage\\.condition\\.running\\.reason";
    space.says("pvc/at-once", why, "NotFound");
    space.apply(&source("VolumeImportSource", "gold", &spec));
    is_handed_over(&space, "at-once");
    is_read(&space, "persistentVolumeClaim: {claimName: at-once}");
    space.run(&["delete", "vm", "web"]);
    space.gone("vmi/web");
    // The first pod that uses it says where it is made: that of the VM.
    space.apply(&populated("later", "standard", "VolumeImportSource", "gold"));
    space.says("pvc/later", why, "WaitForFirstConsumer");
    is_read(&space, "persistentVolumeClaim: {claimName: later}");
    is_handed_over(&space, "later");
}

/// An upload goes to the PVC that the token names, whichever PVC is filled for it.
#[test]
fn a_pvc_takes_an_upload_by_its_data_source() {
    let Some(space) = Space::new("claims") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk");
    std::fs::write(&image, words(folder.path())).unwrap();
    space.apply(&source("VolumeUploadSource", "any", "{}"));
    space.apply(&populated("sent", "immediate", "VolumeUploadSource", "any"));
    let ready = ".metadata.annotations.cdi\\.kubevirt\\.io/storage\\.pod\\.ready";
    space.says("pvc/sent", ready, "true");
    let (status, said) = sends(&space, &token(&space, "sent"), &image);
    assert_eq!(status, "200", "{said}");
    is_handed_over(&space, "sent");
    is_read(&space, "persistentVolumeClaim: {claimName: sent}");
}

/// PersistentVolumes are of the whole cluster: who writes their claimRef could bring the disk of one tenant to another.
#[test]
fn a_stolen_token_of_virt_controller_moves_no_volume_and_takes_no_pvc() {
    let Some(space) = Space::new("claims") else { return };
    let thief = Bearer::of(&space, "kubevirt-controller", &[]);
    space.apply(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: theirs}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: immediate
  resources: {requests: {storage: 8Mi}}
",
    );
    space.says("pvc/theirs", ".status.phase", "Bound");
    let volume = format!("pv/{}", space.get("pvc/theirs", ".spec.volumeName"));
    let others = r#"{"spec":{"claimRef":{"namespace":"default","name":"mine","uid":"1"}}}"#;
    let own = r#"{"spec":{"claimRef":{"name":"mine","uid":"1"}}}"#;
    for change in [others, own] {
        refused(&thief.patches(&volume, change), "hands a PersistentVolume over only from the PVC");
    }
    let retains = r#"{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}"#;
    refused(&thief.patches(&volume, retains), "keeps a PersistentVolume while it is handed over");
    let label = r#"{"metadata":{"labels":{"a":"b"}}}"#;
    refused(&thief.patches(&volume, label), "changes only the PVC of a PersistentVolume");
    refused(
        &thief.runs(&["delete", "pvc", "theirs", "--wait=false"]),
        "deletes only PVCs that were filled in the place of others",
    );
    let larger = r#"{"spec":{"resources":{"requests":{"storage":"16Mi"}}}}"#;
    refused(&thief.patches("pvc/theirs", larger), "makes a PVC of a DataVolume larger");
    let owner = r#"{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"a"}]}}"#;
    refused(&thief.patches("pvc/theirs", owner), "gives a PVC that has no controller");
    is_not_deleted_by_an_owner_that_is_not_there(&space, &thief);
    its_reclaim_policy_stays(&space, &thief, &volume);
}

/// The garbage collector deletes what only an object owns that is not there.
fn is_not_deleted_by_an_owner_that_is_not_there(space: &Space, thief: &Bearer<'_>) {
    let made_up =
        r#"{"apiVersion":"cdi.kubevirt.io/v1beta1","kind":"DataVolume","name":"theirs","uid":"made-up"}"#;
    let owned = format!(r#"{{"metadata":{{"ownerReferences":[{made_up}]}}}}"#);
    refused(&thief.patches("pvc/theirs", &owned), "gives a PVC that has no controller");
    for mark in [
        r#""cdi.kubevirt.io/allowClaimAdoption":"true""#,
        r#""cdi.kubevirt.io/storage.populatedFor":"theirs""#,
    ] {
        let marked = format!(r#"{{"metadata":{{"annotations":{{{mark}}}}}}}"#);
        refused(&thief.patches("pvc/theirs", &marked), "never allows the adoption of a PVC");
        let both = format!(r#"{{"metadata":{{"annotations":{{{mark}}},"ownerReferences":[{made_up}]}}}}"#);
        refused(&thief.patches("pvc/theirs", &both), "gives a PVC that has no controller");
    }
    assert_eq!(space.get("pvc/theirs", ".metadata.ownerReferences"), "");
}

/// A volume that is to be kept is noted as one that is to be deleted, and is then given that policy again.
fn its_reclaim_policy_stays(space: &Space, thief: &Bearer<'_>, volume: &str) {
    let patch = |policy: &str| {
        let change = format!(r#"{{"spec":{{"persistentVolumeReclaimPolicy":"{policy}"}}}}"#);
        space.run(&["patch", volume, "--type=merge", "-p", &change]);
    };
    let note = r#""metadata":{"annotations":{"cdi.kubevirt.io/storage.populator.reclaimPolicy":"Delete"}}"#;
    let said = "keeps a PersistentVolume while it is handed over";
    let retains = r#""spec":{"persistentVolumeReclaimPolicy":"Retain"}"#;
    // With the note of what it was, but without a hand-over.
    refused(&thief.patches(volume, &format!("{{{note},{retains}}}")), said);
    patch("Retain");
    let deletes = r#""spec":{"persistentVolumeReclaimPolicy":"Delete"}"#;
    for change in [format!("{{{note}}}"), format!("{{{deletes}}}"), format!("{{{note},{deletes}}}")] {
        refused(&thief.patches(volume, &change), said);
    }
    assert_eq!(space.get(volume, ".spec.persistentVolumeReclaimPolicy"), "Retain");
    // The volume goes with the story.
    patch("Delete");
}
