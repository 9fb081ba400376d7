//! Uploads: a disk from this computer into a PVC, by the real virtctl, through cdi-uploadproxy and an upload pod.

use crate::{tiny, with_disks};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tests::cluster::{PATIENCE, Space, until};
use tests::coracle::Ran;
use tests::disk::{qemu_convert, raw_disk, shell};

const MIB: u64 = 1 << 20;
/// Where a PVC says what its pod does.
const POD_PHASE: &str = ".metadata.annotations.cdi\\.kubevirt\\.io/storage\\.pod\\.phase";
const POD_READY: &str = ".metadata.annotations.cdi\\.kubevirt\\.io/storage\\.pod\\.ready";

/// The upload proxy, as the host reaches it.
pub(crate) fn proxy(space: &Space) -> String {
    let slices = ["get", "endpointslices", "-l", "kubernetes.io/service-name=cdi-uploadproxy"];
    let path = ["-o", "jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}"];
    let look = || {
        let ran = space.cluster.run(&[&["-n", "kubevirt"][..], &slices, &path].concat());
        String::from_utf8_lossy(&ran.out).split_whitespace().next().map(str::to_owned)
    };
    until(|| look().is_some(), || "cdi-uploadproxy has no address".to_owned());
    format!("https://{}:8443", look().unwrap_or_default())
}

/// `virtctl image-upload` of a file, whatever comes of it.
fn upload(space: &Space, what: &[&str], image: &Path) -> Ran {
    virtctl(space, &[what, &["--image-path", image.to_str().unwrap()]].concat())
}

/// `virtctl image-upload` with these words.
fn virtctl(space: &Space, words: &[&str]) -> Ran {
    let info = |word| space.cluster.info(word);
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string()).arg(info("virtctl"));
    command.args(["-n", &space.name, "image-upload"]).args(words);
    command.args(["--insecure", "--uploadproxy-url", &proxy(space)]);
    Ran::of(command.env("KUBECONFIG", info("kubeconfig")).stdin(Stdio::null()).output().unwrap())
}

/// A disk that says something at its seventh sector.
fn words(folder: &Path) -> PathBuf {
    let raw = folder.join("disk.raw");
    let mut bytes = vec![0; 16 * MIB as usize];
    bytes[7 * 512..7 * 512 + 9].copy_from_slice(b"kept-here");
    std::fs::write(&raw, bytes).unwrap();
    raw
}

/// A VM reads the disk.
pub(crate) fn is_read(space: &Space, volume: &str) {
    let volume = format!("{{name: data, {volume}}}");
    space.apply(&with_disks(&tiny("web", "Always"), &[("{name: data, disk: {bus: virtio}}", &volume)]));
    let mut console = space.console_when_ready("web");
    crate::volumes::reads(&mut console);
}

/// A DataVolume that waits for an upload.
fn waiting(space: &Space, name: &str, size: &str) {
    space.apply(&format!(
        "
apiVersion: cdi.kubevirt.io/v1beta1
kind: DataVolume
metadata:
  name: {name}
  annotations: {{cdi.kubevirt.io/storage.bind.immediate.requested: ''}}
spec:
  source: {{upload: {{}}}}
  storage: {{resources: {{requests: {{storage: {size}}}}}}}
"
    ));
    space.says(&format!("dv/{name}"), ".status.phase", "UploadReady");
}

/// A token for a PVC.
pub(crate) fn token(space: &Space, claim: &str) -> String {
    let request = format!(
        "
apiVersion: upload.cdi.kubevirt.io/v1beta1
kind: UploadTokenRequest
metadata: {{name: {claim}}}
spec: {{pvcName: {claim}}}
"
    );
    let mut command = space.cluster.kubectl(&["-n", &space.name, "create", "-f", "-"]);
    command.args(["-o", "jsonpath={.status.token}"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), request.as_bytes()).unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap()).ok();
    String::from_utf8(ran.out).unwrap()
}

/// curl, about to send a file; it prints the answer and its status.
fn curl(space: &Space, token: &str, image: &Path) -> Command {
    let mut curl = Command::new("curl");
    // Not --data-binary: with --limit-rate, curl then sends nothing by HTTP/2.
    curl.args(["-sk", "-m", "120", "-X", "POST", "-w", "\n%{http_code}", "-T"]);
    curl.arg(image);
    curl.args(["-H", "Content-Type: application/octet-stream"]);
    curl.args(["-H", &format!("Authorization: Bearer {token}")]);
    curl.arg(format!("{}/v1beta1/upload", proxy(space))).stdin(Stdio::null());
    curl
}

/// The status of the answer, and what it says.
pub(crate) fn sends(space: &Space, token: &str, image: &Path) -> (String, String) {
    let ran = Ran::of(curl(space, token, image).output().unwrap());
    let text = String::from_utf8_lossy(&ran.out).into_owned();
    let (said, status) = text.rsplit_once('\n').unwrap_or_else(|| panic!("{text}{}", ran.err));
    (status.to_owned(), said.to_owned())
}

/// An upload that takes its time, and ends with this value.
struct Slow(Child);

impl Slow {
    fn begin(space: &Space, claim: &str, image: &Path) -> Slow {
        let mut command = curl(space, &token(space, claim), image);
        command.args(["--limit-rate", "256k"]).stdout(Stdio::null());
        Slow(command.spawn().unwrap())
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A qcow2 into a DataVolume, and a VM on it. Nothing of the way is left.
#[test]
fn an_image_is_uploaded_and_a_vm_reads_it() {
    let Some(space) = Space::new("uploads") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = qemu_convert("-O qcow2", &words(folder.path()), &folder.path().join("disk.qcow2"));
    let ran = upload(&space, &["dv", "disk", "--size", "16Mi", "--force-bind"], &image).ok();
    let out = String::from_utf8_lossy(&ran.out).into_owned();
    assert!(out.contains("Processing completed successfully"), "{out}");
    space.says("dv/disk", ".status.phase", "Succeeded");
    assert_eq!(space.get("dv/disk", ".status.progress"), "100.0%");
    for kind in ["pod", "service", "secret"] {
        space.gone(&format!("{kind}/cdi-upload-disk"));
    }
    is_read(&space, "dataVolume: {name: disk}");
    // What is whole is not written again.
    let ran = upload(&space, &["dv", "disk", "--size", "16Mi", "--force-bind"], &image);
    assert!(ran.code != 0 && ran.err.contains("already successfully imported"), "{}", ran.err);
}

/// A qcow2 onto a device.
#[test]
fn a_device_takes_a_qcow2() {
    let Some(space) = Space::new("uploads") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = qemu_convert("-O qcow2", &words(folder.path()), &folder.path().join("disk.qcow2"));
    upload(&space, &["dv", "device", "--size", "64Mi", "--volume-mode", "block", "--force-bind"], &image)
        .ok();
    space.says("dv/device", ".status.phase", "Succeeded");
    is_read(&space, "dataVolume: {name: device}");
}

/// A raw disk into a PVC without a DataVolume.
#[test]
fn a_pvc_takes_a_raw_disk() {
    let Some(space) = Space::new("uploads") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = words(folder.path());
    upload(&space, &["pvc", "raw", "--size", "64Mi", "--force-bind"], &image).ok();
    assert_eq!(space.get("pvc/raw", POD_PHASE), "Succeeded");
    space.gone("pod/cdi-upload-raw");
    is_read(&space, "persistentVolumeClaim: {claimName: raw}");
}

/// Compressed disks, an archive, a DataSource, a DataVolume that is there already, and every word that says where the volume
/// comes from.
#[test]
fn every_flag_of_image_upload_is_understood() {
    let Some(space) = Space::new("uploads") else { return };
    let folder = tempfile::tempdir().unwrap();
    let raw = words(folder.path());
    shell(folder.path(), "xz -k disk.raw; gzip -k disk.raw; zstd -q disk.raw; tar -cf files.tar disk.raw");
    let at = |name: &str| folder.path().join(name);
    let size = ["--size", "16Mi"];

    let class =
        ["--storage-class", "immediate", "--access-mode", "ReadWriteOnce", "--volume-mode", "filesystem"];
    let xz = [&["dv", "xz"][..], &size, &class].concat();
    // A PVC is not made larger by what its file system takes.
    let gz = ["pvc", "gz", "--force-bind", "--size", "32Mi"];
    let made = ["dv", "zst", "--force-bind", "--datasource", "--wait-secs", "120", "--retry", "1"];
    let zst = [&made[..], &size].concat();
    let tar = at("files.tar");
    let archive = ["dv", "files", "--force-bind", "--size", "32Mi", "--archive-path", tar.to_str().unwrap()];
    waiting(&space, "there", "16Mi");
    std::thread::scope(|scope| {
        scope.spawn(|| upload(&space, &xz, &at("disk.raw.xz")).ok());
        scope.spawn(|| upload(&space, &gz, &at("disk.raw.gz")).ok());
        scope.spawn(|| upload(&space, &zst, &at("disk.raw.zst")).ok());
        scope.spawn(|| virtctl(&space, &archive).ok());
        scope.spawn(|| upload(&space, &["dv", "there", "--no-create"], &raw).ok());
    });
    assert_eq!(space.get("pvc/xz", ".spec.storageClassName"), "immediate");
    assert_eq!(space.get("pvc/xz", ".spec.accessModes[0]"), "ReadWriteOnce");
    assert_eq!(space.get("datasource/zst", ".spec.source.pvc.name"), "zst");
    space.has("datasource/zst", "Ready", "True");
    assert_eq!(space.get("dv/files", ".spec.contentType"), "archive");
    let ran = upload(&space, &["dv", "missing", "--no-create"], &raw);
    assert!(ran.code != 0 && ran.err.contains("not found"), "{}", ran.err);
    for name in ["xz", "zst", "files", "there"] {
        space.says(&format!("dv/{name}"), ".status.phase", "Succeeded");
    }
    // Of two, what is in them is read.
    let data = |name: &str| format!("{{name: {name}, persistentVolumeClaim: {{claimName: {name}}}}}");
    let disk = |name: &str| format!("{{name: {name}, disk: {{bus: virtio}}}}");
    let vm = with_disks(&tiny("web", "Always"), &[(&disk("xz"), &data("xz")), (&disk("gz"), &data("gz"))]);
    space.apply(&vm);
    crate::volumes::reads(&mut space.console_when_ready("web"));
}

/// A token opens one PVC; a forged one opens none; what does not fit is said with both numbers, and the next upload may come.
#[test]
fn a_token_opens_one_pvc_and_what_fails_can_be_sent_again() {
    let Some(space) = Space::new("uploads") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = words(folder.path());
    waiting(&space, "one", "16Mi");
    waiting(&space, "other", "16Mi");
    let good = token(&space, "other");
    // Other claims under the same signature.
    let (status, _) = sends(&space, &good.replacen('.', ".A", 1), &image);
    assert_eq!(status, "401");
    let missing = token(&space, "missing");
    let (status, said) = sends(&space, &missing, &image);
    assert!(status == "503" && said.contains("doesn&#39;t exist"), "{status} {said}");

    let large = folder.path().join("large.raw");
    raw_disk(&large, 32 * MIB, 1);
    let (status, said) = sends(&space, &good, &large);
    assert_eq!(status, "400", "{said}");
    let running = ".status.conditions[?(@.type==\"Running\")].message";
    let message = || space.get("dv/other", running);
    until(|| message().contains("33554432"), || format!("no reason: {:?}", message()));

    let (status, said) = sends(&space, &good, &image);
    assert_eq!(status, "200", "{said}");
    space.says("dv/other", ".status.phase", "Succeeded");
    assert_eq!(space.get("dv/one", ".status.phase"), "UploadReady");
}

/// The pod is killed, and the DataVolume deleted, in the middle of an upload.
#[test]
fn an_upload_that_is_cut_off_begins_anew_and_one_that_is_deleted_leaves_nothing() {
    let Some(space) = Space::new("uploads") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.raw");
    raw_disk(&image, 16 * MIB, 2);
    waiting(&space, "disk", "16Mi");
    let moves = || {
        let moving = ".status.conditions[?(@.type==\"Transferring\")].status";
        space.says("dv/disk", moving, "True");
    };
    let upload = Slow::begin(&space, "disk", &image);
    moves();
    space.kill_in("cdi-upload-disk", "cdi-worker");
    space.says("dv/disk", ".status.restartCount", "1");
    drop(upload);
    space.says("pvc/disk", POD_READY, "true");
    let upload = Slow::begin(&space, "disk", &image);
    moves();
    space.run(&["delete", "dv", "disk", "--timeout=60s"]);
    for left in ["pvc/disk", "pod/cdi-upload-disk", "service/cdi-upload-disk", "secret/cdi-upload-disk"] {
        space.gone(left);
    }
    drop(upload);
    // The same name again.
    waiting(&space, "disk", "16Mi");
    assert_eq!(sends(&space, &token(&space, "disk"), &image).0, "200");
    space.says("dv/disk", ".status.phase", "Succeeded");
}

/// Every certificate and the key of tokens are made anew in the middle of an upload: it goes on, and so do those behind it.
#[test]
fn certificates_are_renewed_in_the_middle_of_an_upload() {
    let Some(space) = Space::new("uploads") else { return };
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.raw");
    raw_disk(&image, 16 * MIB, 4);
    waiting(&space, "long", "16Mi");
    let mut upload = Slow::begin(&space, "long", &image);
    space.says("dv/long", ".status.conditions[?(@.type==\"Transferring\")].status", "True");
    for name in ["cdi-uploadproxy-server-cert", "cdi-uploadserver-client-cert"] {
        let at = |secret: &str| {
            let found = ["-n", "kubevirt", "get", "secret", secret, "-o", "jsonpath={.metadata.uid}"];
            String::from_utf8_lossy(&space.cluster.run(&found).out).into_owned()
        };
        let before = at(name);
        space.cluster.run(&["-n", "kubevirt", "delete", "secret", name]).ok();
        until(|| !at(name).is_empty() && at(name) != before, || format!("{name} is not made anew"));
    }
    // Another one begins, and ends, by the certificates of now.
    waiting(&space, "short", "16Mi");
    let whole = || sends(&space, &token(&space, "short"), &image).0 == "200";
    until(whole, || space.get("dv/short", ".status"));
    space.says("dv/short", ".status.phase", "Succeeded");
    assert!(upload.0.wait().unwrap().success(), "the long one broke off");
    space.says("dv/long", ".status.phase", "Succeeded");
    assert_eq!(space.get("dv/long", ".status.restartCount"), "");
}

/// A volume that waits for its consumer waits, and virtctl says so at once.
#[test]
fn an_upload_that_nobody_uses_waits_and_says_for_what() {
    let Some(space) = Space::new("uploads") else { return };
    let folder = tempfile::tempdir().unwrap();
    let ran = upload(&space, &["dv", "waits", "--size", "16Mi"], &words(folder.path()));
    assert!(ran.code != 0 && ran.err.contains("WaitForFirstConsumer"), "{}", ran.err);
    space.says("dv/waits", ".status.phase", "WaitForFirstConsumer");
    let said = space.get("dv/waits", ".status.conditions[?(@.type==\"Running\")].message");
    assert!(said.contains("when a VM uses it"), "{said}");
}
