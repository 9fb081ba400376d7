use super::*;
use crate::node::error::Kind;
use crate::node::pod::layout::Inside;
use crate::node::pod::{Layout, Pods};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;

const UUID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

const MOUNT: &str = "/mnt/data";

/// A pod whose one volume `data` is a folder of the test's.
struct Pod {
    place: tempfile::TempDir,
    layout: Layout,
}

impl Pod {
    fn new() -> Pod {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join(&MOUNT[1..])).unwrap();
        let inside = || Inside { volume: "private".into(), path: "x".into() };
        let layout = Layout {
            uid: "u".into(),
            socket: inside(),
            root: inside(),
            folder: "/private/x".into(),
            mounts: BTreeMap::from([("data".to_owned(), MOUNT.to_owned())]),
            devices: BTreeMap::new(),
            secrets: BTreeMap::new(),
            optional: Vec::new(),
            beside: BTreeMap::new(),
            kernel: None,
            kvm: false,
        };
        Pod { place, layout }
    }

    fn data(&self) -> PathBuf {
        self.place.path().join(&MOUNT[1..])
    }

    fn ready(&self, volume: &Value, claim: &Value) -> Result<Ready> {
        let mut source = json!({"name": "data"});
        source.as_object_mut().unwrap().extend(volume.as_object().unwrap().clone());
        let vmi: VirtualMachineInstance = api::wire::read(json!({
            "metadata": {"name": "a", "namespace": "test"},
            "spec": {
                "domain": {
                    "memory": {"guest": "128Mi"},
                "firmware": {"uuid": UUID},
                    "devices": {
                        "autoattachPodInterface": false,
                        "disks": [{"name": "data", "disk": {"bus": "virtio"}}]
                    }
                },
                "volumes": [source]
            },
            "status": {"volumeStatus": [{"name": "data", "target": "", "persistentVolumeClaimInfo": claim}]}
        }))
        .unwrap();
        let machine = Machine::handed(&vmi).unwrap();
        let root = Folder::open(self.place.path()).unwrap();
        let place = Place::new(&Pods::played(self.place.path()), self.layout.clone());
        let process = Process::of(std::process::id()).unwrap();
        ready(&Parts { vmi: &vmi, machine: &machine, place: &place, root: &root, process: &process })
    }
}

fn claim() -> Value {
    json!({"persistentVolumeClaim": {"claimName": "pvc"}})
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_missing_disk_is_made_sparse_for_the_launcher() {
    if !is_root() {
        return; // only root may give files away
    }
    let pod = Pod::new();
    let said = pod.ready(&claim(), &json!({})).unwrap_err();
    assert_eq!(said.kind(), Kind::NotFound);
    let ready = pod.ready(&claim(), &json!({"capacity": {"storage": "64Mi"}})).unwrap();
    let path = Path::new(MOUNT).join("disk.img");
    assert_eq!(
        ready.resolved.volumes["data"],
        Source::File { path, format: Format::Raw, preallocated: false }
    );
    let made = fs::metadata(pod.data().join("disk.img")).unwrap();
    assert_eq!((made.len(), made.blocks(), made.uid(), made.gid()), (64 << 20, 0, 107, 107));
    assert_eq!(fs::read_dir(pod.data()).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_claim_that_grew_has_a_disk_that_grows_and_none_shrinks() {
    if !is_root() {
        return;
    }
    let pod = Pod::new();
    let disk = pod.data().join("disk.img");
    fs::write(&disk, "guest").unwrap();
    let info = json!({"capacity": {"storage": "100Mi"}, "filesystemOverhead": "0.055"});
    pod.ready(&claim(), &info).unwrap();
    assert_eq!(fs::metadata(&disk).unwrap().len(), 94 << 20);
    assert_eq!(fs::metadata(&disk).unwrap().uid(), 107);
    pod.ready(&claim(), &json!({"capacity": {"storage": "10Mi"}})).unwrap();
    assert_eq!(fs::metadata(&disk).unwrap().len(), 94 << 20);
    assert!(fs::read(&disk).unwrap().starts_with(b"guest"));
}

#[test]
fn a_claim_whose_disk_leads_elsewhere_is_refused() {
    let outside = tempfile::tempdir().unwrap();
    let victim = outside.path().join("victim");
    fs::write(&victim, "v").unwrap();
    let pod = Pod::new();
    symlink(&victim, pod.data().join("disk.img")).unwrap();
    let said = pod.ready(&claim(), &json!({"capacity": {"storage": "64Mi"}})).unwrap_err();
    assert_eq!(said.kind(), Kind::Refused);
    assert!(said.chain().contains("link"), "{}", said.chain());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "v");
    assert_ne!(fs::metadata(&victim).unwrap().uid(), 107);
}

#[test]
fn the_disk_of_a_mounted_image_is_found_by_the_rules_of_images() {
    let image =
        |path: Option<&str>| json!({"containerDisk": {"image": "registry.example/os:1", "path": path}});
    let pod = Pod::new();
    fs::create_dir(pod.data().join("disk")).unwrap();
    fs::write(pod.data().join("disk/os.img"), [0; 4096]).unwrap();
    let ready = pod.ready(&image(None), &json!({})).unwrap();
    let path = Path::new(MOUNT).join("disk/os.img");
    assert_eq!(ready.resolved.volumes["data"], Source::Image { path, format: Format::Raw });

    fs::write(pod.data().join("disk/os.qcow2"), b"QFI\xfb\0\0\0\x03").unwrap();
    assert!(pod.ready(&image(None), &json!({})).unwrap_err().to_string().contains("2 files"));
    let ready = pod.ready(&image(Some("/disk/os.qcow2")), &json!({})).unwrap();
    let path = Path::new(MOUNT).join("disk/os.qcow2");
    assert_eq!(ready.resolved.volumes["data"], Source::Image { path, format: Format::Qcow2 });

    symlink("os.img", pod.data().join("disk/link")).unwrap();
    let said = pod.ready(&image(Some("/disk/link")), &json!({})).unwrap_err().to_string();
    assert!(said.contains("a link"), "{said}");
}

#[test]
fn what_is_not_in_the_pod_is_told_by_name() {
    let mut pod = Pod::new();
    pod.layout.mounts.clear();
    let said = pod.ready(&claim(), &json!({})).unwrap_err().to_string();
    assert!(said.contains("'data'") && said.contains("not mounted"), "{said}");
    let said = pod.ready(&json!({"cloudInitNoCloud": {"secretRef": {"name": "keys"}}}), &json!({}));
    assert!(said.unwrap_err().to_string().contains("the secret keys is not in the pod"));
}

#[test]
fn a_folder_is_a_disc_and_an_optional_one_may_be_missing() {
    let pod = Pod::new();
    let map = |optional: bool| json!({"configMap": {"name": "m", "optional": optional}});
    assert_eq!(pod.ready(&map(true), &json!({})).unwrap().resolved.volumes["data"], Source::Absent);
    let folder = Source::Folder { path: MOUNT.into() };
    assert_eq!(pod.ready(&map(false), &json!({})).unwrap().resolved.volumes["data"], folder);
    fs::write(pod.data().join("key"), "value").unwrap();
    assert_eq!(pod.ready(&map(true), &json!({})).unwrap().resolved.volumes["data"], folder);
}
