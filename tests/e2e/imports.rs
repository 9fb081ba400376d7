//! DataVolumes: a disk from a web server on a PVC, by an importer pod; what goes wrong says why, and what breaks off goes on.

use crate::{tiny, with_disks};
use std::net::Ipv4Addr;
use std::path::Path;
use tests::cluster::{Space, until};
use tests::disk::{qemu_convert, raw_disk, shell};
use tests::http::{Behaviour, Fail, Server};
use tests::layout::Tar;

const MIB: u64 = 1 << 20;

/// A server that the pods of the cluster reach.
pub(crate) fn serve(space: &Space, bytes: Vec<u8>, behaviour: Behaviour) -> Server {
    let gateway: Ipv4Addr = space.cluster.info("gateway").parse().unwrap();
    Server::start_at(gateway, bytes, behaviour)
}

pub(crate) fn disk(name: &str, source: &str, size: &str, more: &str) -> String {
    format!(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata:
  name: {name}
  annotations: {{cdi.kubevirt.io/storage.bind.immediate.requested: ''}}
spec:
  source: {source}
  storage: {{resources: {{requests: {{storage: {size}}}}}{more}}}
"
    )
}

pub(crate) fn http(server: &Server, more: &str) -> String {
    format!("{{http: {{url: '{}'{more}}}}}", server.url("/disk.qcow2"))
}

/// A disk that says something at its seventh sector, as qcow2.
pub(crate) fn words(folder: &Path) -> Vec<u8> {
    let raw = folder.join("disk.raw");
    let mut bytes = vec![0; 16 * MIB as usize];
    bytes[7 * 512..7 * 512 + 9].copy_from_slice(b"kept-here");
    std::fs::write(&raw, bytes).unwrap();
    std::fs::read(qemu_convert("-O qcow2", &raw, &folder.join("disk.qcow2"))).unwrap()
}

/// The message of a condition.
pub(crate) fn message(space: &Space, name: &str, kind: &str) -> String {
    space.get(&format!("dv/{name}"), &format!(".status.conditions[?(@.type==\"{kind}\")].message"))
}

pub(crate) fn reason(space: &Space, name: &str, kind: &str) -> String {
    space.get(&format!("dv/{name}"), &format!(".status.conditions[?(@.type==\"{kind}\")].reason"))
}

pub(crate) fn phase(space: &Space, name: &str, wanted: &str) {
    space.says(&format!("dv/{name}"), ".status.phase", wanted);
}

/// The disk of a VM comes with it: the volume is made where the VM can run, and filled before it starts.
#[test]
fn a_vm_brings_its_disk() {
    let Some(space) = Space::new("imports") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&space, words(folder.path()), Behaviour::default());
    let vm = with_disks(
        &tiny("web", "Always"),
        &[("{name: data, disk: {bus: virtio}}", "{name: data, dataVolume: {name: web-data}}")],
    );
    let template = format!(
        "spec:
  dataVolumeTemplates:
  - metadata: {{name: web-data}}
    spec:
      source: {}
      storage: {{resources: {{requests: {{storage: 16Mi}}}}}}
",
        http(&server, "")
    );
    space.apply(&vm.replacen("spec:\n", &template, 1));
    let mut console = space.console_when_ready("web");
    crate::volumes::reads(&mut console);
    assert_eq!(space.get("dv/web-data", ".status.phase"), "Succeeded");
    assert_eq!(space.get("dv/web-data", ".status.progress"), "100.0%");
    let noted = ".metadata.annotations.cdi\\.kubevirt\\.io/storage\\.pod\\.phase";
    assert_eq!(space.get("pvc/web-data", noted), "Succeeded");
    let events =
        space.run(&["get", "events", "--field-selector=involvedObject.kind=DataVolume", "-o", "name"]);
    assert!(!events.is_empty(), "people are told");
}

/// A device of a PVC, and an empty disk.
#[test]
fn a_device_and_an_empty_disk_are_filled() {
    let Some(space) = Space::new("imports") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&space, words(folder.path()), Behaviour::default());
    space.apply(&disk("device", &http(&server, ""), "64Mi", ", volumeMode: Block"));
    space.apply(&disk("empty", "{blank: {}}", "64Mi", ""));
    for name in ["device", "empty"] {
        phase(&space, name, "Succeeded");
        assert_eq!(reason(&space, name, "Bound"), "Bound");
    }
}

/// The pod is killed in the middle, and taken away: the next one goes on where the last one stopped.
#[test]
fn an_importer_that_is_killed_goes_on() {
    let Some(space) = Space::new("imports") else { return };
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("disk.raw");
    raw_disk(&raw, 96 * MIB, 1);
    let image = std::fs::read(qemu_convert("-O qcow2", &raw, &folder.path().join("disk.qcow2"))).unwrap();
    let length = image.len() as u64;
    let server = serve(&space, image, Behaviour { rate: Some(MIB), ..Behaviour::default() });
    space.apply(&disk("slow", &http(&server, ""), "96Mi", ""));
    let said = || message(&space, "slow", "Transferring");
    until(|| said().contains("of 96.0 MiB") && said().contains("a second"), said);
    // On a busy disk a mark is durable long after its bytes came.
    space.has_kept("importer-slow", 8 * MIB);
    space.kill_in("importer-slow", "cdi-worker");
    space.says("dv/slow", ".status.restartCount", "1");
    server.set(Behaviour::default());
    phase(&space, "slow", "Succeeded");
    let said = message(&space, "slow", "Transferring");
    assert!(said.contains("of an earlier run"), "{said}");
    let sent = server.sent();
    assert!(sent < length + length / 2, "{sent} bytes were sent of {length}");
}

/// What no other try mends ends at once, and says why: no pod begins again, and nothing is fetched twice.
#[test]
fn what_cannot_be_mended_ends_at_once() {
    let Some(space) = Space::new("imports") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = words(folder.path());
    let fail = Fail { status: 404, times: u32::MAX, skip: 0, retry_after: None };
    let missing = serve(&space, image.clone(), Behaviour { fail: Some(fail), ..Behaviour::default() });
    let there = serve(&space, image, Behaviour::default());
    let wrong = format!(", checksum: 'sha256:{}'", "0".repeat(64));
    space.apply(&disk("missing", &http(&missing, ""), "64Mi", ""));
    space.apply(&disk("wrong", &http(&there, &wrong), "64Mi", ""));
    // Without a limit the PVC would be made larger.
    space.apply(&disk("small", &http(&there, ""), "8Mi}, limits: {storage: 8Mi", ""));
    for (name, word, said) in [
        ("missing", "NotFound", "404"),
        ("wrong", "ChecksumError", "sha256"),
        ("small", "DataVolumeTooSmall", "16777216"),
    ] {
        phase(&space, name, "Failed");
        assert_eq!(reason(&space, name, "Running"), word);
        let message = message(&space, name, "Running");
        assert!(message.contains(said), "{name}: {message}");
        // Its log stays.
        space.says(&format!("pod/importer-{name}"), ".status.phase", "Failed");
    }
    assert_eq!(space.get("dv/missing", ".status.restartCount"), "");
    assert!(missing.requests().len() <= 2, "{:?}", missing.requests());
}

/// Images that lead to other files, are larger than they say, or are no disks, end at once with a sentence on the DataVolume; a
/// node has no file more, and no server is asked twice.
#[test]
fn hostile_images_are_refused_by_name() {
    let Some(space) = Space::new("imports") else { return };
    let folder = tempfile::tempdir().unwrap();
    shell(
        folder.path(),
        "truncate -s 4M disk.raw
         qemu-img create -q -f qcow2 -b /etc/passwd -F raw backing
         qemu-img create -q -f qcow2 -o data_file=data.raw data 4M
         qemu-img convert -f raw -O vmdk disk.raw vmdk
         head -c 1G /dev/zero | gzip -1 > bomb
         head -c 3M /dev/urandom > noise; qemu-img convert -f raw -O qcow2 noise whole; head -c 1M whole > cut",
    );
    let cases = [
        ("backing", "InvalidImage", "/etc/passwd"),
        ("data", "InvalidImage", "another file"),
        ("vmdk", "InvalidImage", "vmdk"),
        ("bomb", "DataVolumeTooSmall", "larger volume"),
        ("cut", "InvalidImage", "past the end of the file"),
    ];
    let servers = cases.map(|(name, ..)| {
        let bytes = std::fs::read(folder.path().join(name)).unwrap();
        let server = serve(&space, bytes, Behaviour::default());
        space.apply(&disk(name, &http(&server, ""), "64Mi", ""));
        server
    });
    for ((name, word, said), server) in cases.into_iter().zip(servers) {
        phase(&space, name, "Failed");
        let message = message(&space, name, "Running");
        assert!(message.to_lowercase().contains(said), "{name}: {message}");
        assert_eq!(reason(&space, name, "Running"), word, "{name}: {message}");
        assert_eq!(space.get(&format!("dv/{name}"), ".status.restartCount"), "", "{name}");
        let asked = server.requests().len();
        assert!(asked < 10, "{name}: {asked} requests");
    }
}

/// Files instead of a disk: an archive is unpacked, and one with a link ends with the name of that.
#[test]
fn an_archive_is_unpacked_or_refused() {
    let Some(space) = Space::new("imports") else { return };
    let files = Tar::default().other(b'5', "d", "").file("d/notes", b"notes");
    let good = serve(&space, files.clone().end(), Behaviour::default());
    let bad = serve(&space, files.other(b'2', "d/link", "/etc").end(), Behaviour::default());
    for (name, server) in [("good", &good), ("bad", &bad)] {
        let source = format!("{}\n  contentType: archive", http(server, ""));
        space.apply(&disk(name, &source, "64Mi", ""));
    }
    phase(&space, "good", "Succeeded");
    phase(&space, "bad", "Failed");
    assert_eq!(reason(&space, "bad", "Running"), "InvalidArchive");
    let message = message(&space, "bad", "Running");
    assert!(message.contains("\"d/link\" is a symbolic link to \"/etc\""), "{message}");
}

/// A volume that waits for its consumer waits, and says for what.
#[test]
fn a_disk_that_nobody_uses_waits_and_says_for_what() {
    let Some(space) = Space::new("imports") else { return };
    let manifest = disk("waits", "{blank: {}}", "16Mi", "");
    let manifest =
        manifest.replace("  annotations: {cdi.kubevirt.io/storage.bind.immediate.requested: ''}\n", "");
    space.apply(&manifest);
    phase(&space, "waits", "WaitForFirstConsumer");
    let said = message(&space, "waits", "Running");
    assert!(said.contains("when a VM uses it"), "{said}");
}

/// A DataVolume that failed, and one in the middle of its import, go with their PVCs and pods, and can be made anew.
#[test]
fn a_disk_that_is_deleted_goes_and_is_made_anew() {
    let Some(space) = Space::new("imports") else { return };
    let folder = tempfile::tempdir().unwrap();
    let fail = Fail { status: 404, times: u32::MAX, skip: 0, retry_after: None };
    let behaviour = Behaviour { fail: Some(fail), ..Behaviour::default() };
    let server = serve(&space, words(folder.path()), behaviour);
    let manifest = disk("again", &http(&server, ""), "64Mi", "");
    space.apply(&manifest);
    phase(&space, "again", "Failed");
    let goes = || {
        space.run(&["delete", "dv", "again", "--timeout=60s"]);
        space.gone("pvc/again");
        space.gone("pod/importer-again");
    };
    goes();
    // It would take minutes.
    server.set(Behaviour { rate: Some(1024), ..Behaviour::default() });
    space.apply(&manifest);
    phase(&space, "again", "ImportInProgress");
    goes();
    server.set(Behaviour::default());
    space.apply(&manifest);
    phase(&space, "again", "Succeeded");
}

/// Twenty at once, half of them from one server that is slow to answer, and with names of every kind.
#[test]
fn twenty_imports_at_once_are_all_filled() {
    let Some(space) = Space::new("imports") else { return };
    let folder = tempfile::tempdir().unwrap();
    let latency = std::time::Duration::from_millis(200);
    let server = serve(&space, words(folder.path()), Behaviour { latency, ..Behaviour::default() });
    let long = "l".repeat(120);
    let names: Vec<String> = (0..20)
        .map(|number| match number {
            0 => "with.dots.in.it".to_owned(),
            1 => long.clone(),
            2 => format!("{long}2"),
            _ => format!("d{number}"),
        })
        .collect();
    let manifests: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(number, name)| match number % 2 {
            0 => disk(name, &http(&server, ""), "16Mi", ""),
            _ => disk(name, "{blank: {}}", "16Mi", ""),
        })
        .collect();
    space.apply(&manifests.join("---"));
    for name in &names {
        phase(&space, name, "Succeeded");
        assert_eq!(space.get(&format!("dv/{name}"), ".status.restartCount"), "", "{name}");
    }
}

/// A quota that is too small is said by its numbers, and an import begins when there is room.
#[test]
fn a_quota_is_waited_for_and_said() {
    let Some(space) = Space::new("imports") else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = serve(&space, words(folder.path()), Behaviour::default());
    let quota = |most: &str| {
        space.apply(&format!(
            "
apiVersion: v1
kind: ResourceQuota
metadata: {{name: storage}}
spec: {{hard: {{requests.storage: {most}}}}}
"
        ));
        space.says("quota/storage", ".status.hard.requests\\.storage", most);
    };
    quota("20Mi");
    // One disk needs no other volume than its own.
    space.apply(&disk("fits", &http(&server, ""), "16Mi", ""));
    phase(&space, "fits", "Succeeded");
    space.apply(&disk("waits", &http(&server, ""), "16Mi", ""));
    let said = || reason(&space, "waits", "Running") == "ErrExceededQuota";
    until(said, || space.get("dv/waits", ".status"));
    let said = message(&space, "waits", "Running");
    assert!(said.contains("exceeded quota: storage") && said.contains("20Mi"), "{said}");
    quota("100Mi");
    phase(&space, "waits", "Succeeded");
}
