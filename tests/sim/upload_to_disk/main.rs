//! The second walk of the design, as a test that reads as its list: `virtctl image-upload`, until the disk is whole.
//!
//! | on the way | here |
//! |---|---|
//! | API server | the one in memory of `controller/kit` ([`cluster`]), which asks the real webhook before it writes |
//! | virt-controller | its decisions on its World, carried out by its own writer: PVC, certificates, pod, Service, status |
//! | provisioner, scheduler, kubelet | played ([`kubelet`]): a PVC is bound, a pod's Secret is mounted, what the pod says of itself is told |
//! | virt-api | its signer of upload tokens, with the key that virt-controller had made |
//! | cdi-uploadproxy | the program, with the certificates that virt-controller had made |
//! | upload pod | the program cdi-worker, with the words, the job and the Secret of the pod |
//! | virtctl | its requests; the unmodified virtctl is told as stories in a cluster |

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr)]

#[path = "../../../controller/cdi-uploadproxy/tests/uploads/client.rs"]
#[allow(dead_code, reason = "the suite of cdi-uploadproxy uses the rest")]
mod client;
#[path = "../apply_to_boot/cluster.rs"]
#[allow(dead_code, reason = "the walk to a VM uses the rest")]
mod cluster;
mod kubelet;
#[path = "../../../controller/cdi-uploadproxy/tests/uploads/program.rs"]
mod program;

use api::cdi::annotations::{POD_PHASE, POD_READY, TARGET};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use client::{Client, head};
use cluster::Cluster;
use cluster_model::objects::{self, Key, Kind};
use cluster_model::uploads::{
    BUNDLE, CLIENT_CERTIFICATE, PRIVATE_KEY, PUBLIC_KEY, SERVER_SIGNER, SIGNING_KEY, UPLOADER,
};
use jiff::{SignedDuration, Timestamp};
use kubelet::UploadPod;
use program::Program;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use serve::token::Signer;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Kinds of objects that virt-controller reconciles here.
const DISKS: &[Kind] = &[Kind::DataVolume, Kind::PersistentVolumeClaim];
/// Size of the disk in bytes.
const SIZE: usize = 24 << 20;

/// A DataVolume as virtctl makes it.
fn manifest() -> Value {
    json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": {"namespace": "n", "name": "disk"},
        "spec": {
            "source": {"upload": {}},
            "storage": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "64Mi"}}},
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_uploaded_is_whole() {
    let cluster = Cluster::new();
    let of = |kind, name: &str| Key::new(kind, "n", name);
    let ours = |kind, name: &str| Key::new(kind, "kubevirt", name);
    let disk = of(Kind::DataVolume, "disk");

    // virt-controller has made its authorities, certificates and keys a while ago.
    let before = Timestamp::now().checked_sub(SignedDuration::from_hours(1)).unwrap();
    cluster.has(&ours(Kind::Secret, "begin"), json!({}));
    cluster.decide_on(&[Kind::Secret], before).await;

    // Admission finds what no worker could do.
    let mut faulty = manifest();
    faulty["spec"]["source"]["http"] = json!({"url": "https://a.example/x"});
    let said = cluster.apply(&disk, &faulty).unwrap_err();
    assert!(said.contains("Multiple Data volume sources"), "{said}");
    cluster.apply(&disk, &manifest()).unwrap();

    // cluster/datavolume plans the PVC, with room for what a file system takes …
    cluster.decide_on(DISKS, Timestamp::now()).await;
    let claim = of(Kind::PersistentVolumeClaim, "disk");
    let wanted = cluster.object(&claim)["spec"]["resources"]["requests"]["storage"].clone();
    assert_eq!(wanted, "71135396", "64 MiB and six percent");
    cluster.change(&claim, &json!({"status": {"phase": "Bound", "capacity": {"storage": wanted}}}));

    // … and then a pod, its Service, and its certificate.
    cluster.decide_on(DISKS, Timestamp::now()).await;
    let name = format!("{UPLOADER}disk");
    for kind in [Kind::Pod, Kind::Service, Kind::Secret] {
        assert_eq!(cluster.object(&of(kind, &name))["metadata"]["ownerReferences"][0]["name"], "disk");
    }
    assert_eq!(cluster.object(&disk)["status"]["phase"], "UploadScheduled");

    // The kubelet starts it: upload server.
    let pod = of(Kind::Pod, &name);
    let mut server = UploadPod::start(&cluster.object(&pod), &cluster.object(&of(Kind::Secret, &name)));
    cluster.change(&pod, &kubelet::runs());
    cluster.decide_on(DISKS, Timestamp::now()).await;
    assert_eq!(cluster.object(&disk)["status"]["phase"], "UploadReady");
    let annotations = cluster.object(&claim)["metadata"]["annotations"].clone();
    assert_eq!((&annotations[TARGET], &annotations[POD_READY]), (&json!(""), &json!("true")));

    // The proxy has what virt-controller made for it, and asks the API server about the PVC.
    let url = cluster.server.listen().await;
    let map = |name: &str, key: &str| text(&cluster.object(&ours(Kind::ConfigMap, name))["data"][key]);
    let shows = cluster.object(&ours(Kind::Secret, CLIENT_CERTIFICATE));
    let files = vec![
        ("keys", PUBLIC_KEY, map(SIGNING_KEY, PUBLIC_KEY)),
        ("client", "tls.crt", bytes(&shows["data"]["tls.crt"])),
        ("client", "tls.key", bytes(&shows["data"]["tls.key"])),
        ("authorities", BUNDLE, map(SERVER_SIGNER.1, BUNDLE)),
    ];
    let roots = roots(&map(objects::AUTHORITY, objects::BUNDLE));
    let program = Program::begin(&url, server.address(), files, Arc::clone(&roots), &[]).await;

    // virt-api signs a token, for this PVC alone.
    let signer = Signer::default();
    let key = cluster.object(&ours(Kind::Secret, SIGNING_KEY));
    signer.take(&bytes(&key["data"][PRIVATE_KEY])).unwrap();
    let token = |pvc| signer.upload("n", pvc, Timestamp::now()).unwrap().unwrap();

    // The proxy verifies it, and passes on; the upload server looks at the first block, takes xz and qcow2 away, and writes.
    let folder = tempfile::tempdir().unwrap();
    let (raw, packed) = image(folder.path());
    let post = |token: &str, path: &str| {
        let size = format!("content-length: {}\r\n", packed.len());
        [head("POST", path, token, &size).as_bytes(), &packed].concat()
    };
    let client = Client::new(program.address, roots);
    assert_eq!(client.says(head("GET", "/v1beta1/upload", "x", "").as_bytes()).await.status, 404);
    assert_ne!(client.says(&post(&token("other"), "/v1beta1/upload")).await.status, 200);
    let answer = client.says(&post(&token("disk"), "/v1beta1/upload")).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{}", server.log());

    // The termination message has the report, and the DataVolume has succeeded.
    let report = server.ends();
    cluster.change(&pod, &kubelet::ended(&report));
    cluster.decide_on(DISKS, Timestamp::now()).await;
    let status = cluster.object(&disk)["status"].clone();
    assert_eq!(
        (&status["phase"], &status["progress"]),
        (&json!("Succeeded"), &json!("100.0%")),
        "{status:#}"
    );
    let annotations = cluster.object(&claim)["metadata"]["annotations"].clone();
    assert_eq!(annotations[POD_PHASE], "Succeeded", "{annotations:#}");
    let deleted = cluster.deleted();
    for kind in [Kind::Pod, Kind::Service, Kind::Secret] {
        assert!(deleted.contains(&of(kind, &name).path()), "{kind:?} is not taken away");
    }

    // Content of the volume: the disk with the requested size and name, and no other file.
    let (names, disk) = server.volume();
    assert_eq!(names, ["disk.img"]);
    assert_eq!(disk.len(), 64 << 20);
    assert!(disk[..SIZE] == raw && disk[SIZE..].iter().all(|byte| *byte == 0), "other bytes");
    // And then there is silence.
    let version = cluster.version();
    cluster.decide_on(DISKS, Timestamp::now()).await;
    assert_eq!(cluster.version(), version);
}

/// A disk, and the same as a qcow2 in an xz, by the tools that people use.
fn image(folder: &Path) -> (Vec<u8>, Vec<u8>) {
    let mut raw = vec![0_u8; SIZE];
    for (at, byte) in raw.iter_mut().enumerate().filter(|(at, _)| (at >> 20) % 3 != 1) {
        *byte = (at ^ (at >> 8) ^ (at >> 16)) as u8;
    }
    std::fs::write(folder.join("disk"), &raw).unwrap();
    let done = Command::new("qemu-img")
        .args(["convert", "-f", "raw", "-O", "qcow2", "disk", "disk.qcow2"])
        .current_dir(folder)
        .status();
    assert!(done.unwrap().success());
    assert!(Command::new("xz").args(["-1", "disk.qcow2"]).current_dir(folder).status().unwrap().success());
    (raw, std::fs::read(folder.join("disk.qcow2.xz")).unwrap())
}

fn text(value: &Value) -> Vec<u8> {
    value.as_str().unwrap().as_bytes().to_vec()
}

/// The value of a key in a Secret.
fn bytes(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap()).unwrap()
}

fn roots(bundle: &[u8]) -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(bundle) {
        roots.add(authority.unwrap()).unwrap();
    }
    Arc::new(roots)
}
