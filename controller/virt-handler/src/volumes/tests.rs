mod copied;

use super::*;
use crate::error::ErrorKind;
use crate::pod::layout::PodPath;
use crate::pod::{Layout, Pods};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::path::Path;

const UUID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

const MOUNT: &str = "/mnt/data";

/// A pod whose one volume `data` is a folder of the test.
struct Pod {
    place: tempfile::TempDir,
    layout: Layout,
    files: Files,
    receives: bool,
}

impl Pod {
    fn new() -> Pod {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join(&MOUNT[1..])).unwrap();
        let inside = || PodPath { volume: "private".into(), path: "x".into() };
        let layout = Layout {
            uid: "u".into(),
            socket: inside(),
            root: inside(),
            folder: "/private/x".into(),
            mounts: BTreeMap::from([("data".to_owned(), MOUNT.to_owned())]),
            devices: BTreeMap::new(),
            claims: BTreeMap::from([("data".to_owned(), "pvc".to_owned())]),
            secrets: BTreeMap::new(),
            beside: BTreeMap::new(),
            filesystems: BTreeMap::new(),
            hooks: Vec::new(),
            kernel: None,
            state: None,
            kvm: false,
        };
        Pod { place, layout, files: Files::default(), receives: false }
    }

    fn data(&self) -> PathBuf {
        self.place.path().join(&MOUNT[1..])
    }

    fn ready(&self, volume: &Value, claim: &Value) -> Result<Ready> {
        self.ready_with(volume, claim, None)
    }

    /// A VMI without a disk whose TPM and EFI variables are persistent.
    fn keeps(&self) -> Result<Ready> {
        let vmi: VirtualMachineInstance = api::wire::read(json!({
            "metadata": {"name": "a", "namespace": "test"},
            "spec": {"domain": {
                "memory": {"guest": "128Mi"},
                "firmware": {
                    "uuid": UUID, "bootloader": {"efi": {"secureBoot": false, "persistent": true}}
                },
                "devices": {"autoattachPodInterface": false, "tpm": {"persistent": true}}
            }}
        }))
        .unwrap();
        self.ready_of(&vmi)
    }

    fn ready_of(&self, vmi: &VirtualMachineInstance) -> Result<Ready> {
        let machine = Machine::check_again(vmi).unwrap();
        let root = Folder::open(self.place.path()).unwrap();
        let place = PodFolder::new(&Pods::played(self.place.path()), self.layout.clone());
        let process = Process::of(std::process::id()).unwrap();
        prepare(&Parts {
            vmi,
            machine: &machine,
            place: &place,
            root: &root,
            process: &process,
            files: self.files,
            receives: self.receives,
        })
    }

    /// Adds a further volume, which is a disk too.
    fn ready_with(&self, volume: &Value, claim: &Value, more: Option<&Value>) -> Result<Ready> {
        let mut source = json!({"name": "data"});
        source.as_object_mut().unwrap().extend(volume.as_object().unwrap().clone());
        let volumes: Vec<&Value> = [&source].into_iter().chain(more).collect();
        let disk = |volume: &&Value| json!({"name": volume["name"], "disk": {"bus": "virtio"}});
        let disks: Vec<Value> = volumes.iter().map(disk).collect();
        let vmi: VirtualMachineInstance = api::wire::read(json!({
            "metadata": {"name": "a", "namespace": "test"},
            "spec": {
                "domain": {
                    "memory": {"guest": "128Mi"},
                "firmware": {"uuid": UUID},
                    "devices": {
                        "autoattachPodInterface": false,
                        "disks": disks
                    }
                },
                "volumes": volumes
            },
            "status": {"volumeStatus": [{"name": "data", "target": "", "persistentVolumeClaimInfo": claim}]}
        }))
        .unwrap();
        self.ready_of(&vmi)
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
    assert_eq!(said.kind(), ErrorKind::NotFound);
    let ready = pod.ready(&claim(), &json!({"capacity": {"storage": "64Mi"}})).unwrap();
    let path = Path::new(MOUNT).join("disk.img");
    assert_eq!(
        ready.resolved.volumes["data"],
        Source::File { path, format: Format::Raw, preallocated: false }
    );
    // The cluster's setting for the claim is passed on: no space of such a disk is freed.
    let ready = pod.ready(&claim(), &json!({"preallocated": true})).unwrap();
    assert!(matches!(ready.resolved.volumes["data"], Source::File { preallocated: true, .. }));
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
    assert_eq!(said.kind(), ErrorKind::Refused);
    assert!(said.chain().contains("link"), "{}", said.chain());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "v");
    assert_ne!(fs::metadata(&victim).unwrap().uid(), 107);
}

#[test]
fn what_outlives_a_vmi_has_folders_of_the_launchers_in_its_pvc() {
    if !is_root() {
        return; // only root may give folders away
    }
    let mut pod = Pod::new();
    let error = pod.keeps().unwrap_err().to_string();
    assert!(error.contains("'vm-state' is not mounted"), "{error}");
    pod.layout.state = Some(MOUNT.to_owned());
    let state = pod.keeps().unwrap().resolved.state.unwrap();
    assert_eq!(state.variables, Path::new(MOUNT).join("nvram/test_a_VARS.fd"));
    assert_eq!(state.tpm, Path::new(MOUNT).join("swtpm").join(UUID).join("tpm2"));
    for made in [pod.data().join("nvram"), pod.data().join("swtpm").join(UUID).join("tpm2")] {
        let made = fs::metadata(&made).unwrap();
        assert!(made.is_dir() && made.uid() == 107);
    }
    fs::write(pod.data().join("nvram/test_a_VARS.fd"), "kept").unwrap();
    pod.keeps().unwrap();
    assert_eq!(fs::read_to_string(pod.data().join("nvram/test_a_VARS.fd")).unwrap(), "kept");
}

#[test]
fn a_link_in_the_pvc_of_what_outlives_a_vmi_leads_nowhere() {
    let mut pod = Pod::new();
    pod.layout.state = Some(MOUNT.to_owned());
    let outside = tempfile::tempdir().unwrap();
    symlink(outside.path(), pod.data().join("swtpm")).unwrap();
    assert!(pod.keeps().is_err());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

fn host_disk(create: bool) -> Value {
    match create {
        true => json!({"hostDisk": {"path": "/mnt/data/vm.img", "type": "DiskOrCreate", "capacity": "8Mi"}}),
        false => json!({"hostDisk": {"path": "/mnt/data/vm.img", "type": "Disk"}}),
    }
}

#[test]
fn a_file_of_the_host_is_never_given_and_says_whose_it_is() {
    if !is_root() {
        return;
    }
    let pod = Pod::new();
    let file = pod.data().join("vm.img");
    fs::write(&file, "root's").unwrap();
    chown(&file, Some(0), Some(0)).unwrap();
    for create in [false, true] {
        let said = pod.ready(&host_disk(create), &json!({})).unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Refused);
        assert!(said.to_string().contains("belongs to the user 0"), "{said}");
        assert_eq!(fs::metadata(&file).unwrap().uid(), 0);
    }
    chown(&file, Some(107), Some(107)).unwrap();
    pod.ready(&host_disk(false), &json!({})).unwrap();
    fs::hard_link(&file, pod.data().join("other")).unwrap();
    let said = pod.ready(&host_disk(false), &json!({})).unwrap_err().to_string();
    assert!(said.contains("2 names"), "{said}");
}

#[test]
fn a_file_of_the_host_that_is_missing_is_made_where_it_may_be() {
    if !is_root() {
        return;
    }
    let pod = Pod::new();
    assert_eq!(pod.ready(&host_disk(false), &json!({})).unwrap_err().kind(), ErrorKind::NotFound);
    pod.ready(&host_disk(true), &json!({})).unwrap();
    let made = fs::metadata(pod.data().join("vm.img")).unwrap();
    assert_eq!((made.len(), made.uid(), made.nlink()), (8 << 20, 107, 1));
    assert_eq!(fs::read_dir(pod.data()).unwrap().count(), 1);
}

#[test]
fn a_file_of_the_host_is_one_namespaces_alone() {
    if !is_root() {
        return;
    }
    let pod = Pod::new();
    let folder = Folder::open(&pod.data()).unwrap();
    let of = |create: Option<u64>, namespace: &str| {
        claim::host_disk(&folder, "vm.img", create, Files::default(), namespace).map(drop)
    };
    of(Some(1 << 20), "one").unwrap();
    fs::write(pod.data().join("vm.img"), "the disk of one").unwrap();
    for create in [None, Some(1 << 20)] {
        let said = of(create, "two").unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Refused);
        assert!(said.to_string().contains("belongs to VMIs of the namespace \"one\""), "{said}");
        assert!(!said.to_string().contains("  "), "{said}");
        of(create, "one").unwrap();
    }
    // Another file of that name does not belong to the namespace.
    fs::remove_file(pod.data().join("vm.img")).unwrap();
    of(Some(1 << 20), "two").unwrap();
    assert!(of(None, "one").is_err());
    // The VMI's own namespace is accepted.
    assert!(pod.ready(&host_disk(false), &json!({})).unwrap_err().to_string().contains("namespace \"two\""));
}

/// virt-handler may be killed between any two steps.
#[test]
fn a_file_of_the_host_has_its_namespace_before_its_name() {
    if !is_root() {
        return;
    }
    let pod = Pod::new();
    let partial = pod.data().join("vm.img.partial");
    fs::write(&partial, "").unwrap();
    chown(&partial, Some(107), Some(107)).unwrap();
    let note = "trusted.kubevirt.namespace";
    rustix::fs::setxattr(&partial, note, b"other", rustix::fs::XattrFlags::CREATE).unwrap();
    let folder = Folder::open(&pod.data()).unwrap();
    let made = || claim::host_disk(&folder, "vm.img", Some(1 << 20), Files::default(), "one").map(drop);
    assert!(made().unwrap_err().to_string().contains("namespace \"other\""));
    assert!(
        !pod.data().join("vm.img").exists(),
        "a file that is not the namespace's has the name of its disk"
    );
    fs::remove_file(&partial).unwrap();
    made().unwrap();
    let mut owner = [0_u8; 16];
    let length = rustix::fs::getxattr(pod.data().join("vm.img"), note, &mut owner[..]).unwrap();
    assert_eq!(&owner[..length], b"one");
}

#[test]
fn a_file_system_that_keeps_no_attributes_has_no_host_disks() {
    let file = fs::File::open("/proc/self/comm").unwrap();
    let said = claim::claim_for_namespace(&file, Path::new("/srv/n/a.img"), "n").unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Refused);
    assert!(said.to_string().contains("choose a folder on another file system"), "{said}");
    assert!(!said.to_string().contains("  "), "{said}");
}

/// A tenant that may write to a parent folder could lead the kubelet elsewhere by a link.
#[test]
fn the_folder_of_a_host_disk_is_the_one_that_its_path_names() {
    if !is_root() {
        return;
    }
    let mut pod = Pod::new();
    let at = |name: &str| pod.place.path().join(name);
    symlink("mnt", at("link")).unwrap();
    symlink("data", at("mnt/last")).unwrap();
    fs::create_dir(at("srv")).unwrap();
    let disk = |path: &str| json!({"hostDisk": {"path": path, "type": "DiskOrCreate", "capacity": "8Mi"}});
    // Like the kubelet: it mounts the target of the links.
    for path in ["/link/data/vm.img", "/mnt/last/vm.img"] {
        let said = pod.ready(&disk(path), &json!({})).unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Refused);
        assert!(said.chain().contains("is a link, or is below one"), "{}", said.chain());
    }
    let said = pod.ready(&disk("/srv/vm.img"), &json!({})).unwrap_err().to_string();
    assert!(said.contains("is not the folder /srv of the node"), "{said}");
    let kubelet = pod.place.path().parent().unwrap().join("pods/u/vm.img");
    let said = pod.ready(&disk(kubelet.to_str().unwrap()), &json!({})).unwrap_err().to_string();
    assert!(said.contains("the kubelet's folder"), "{said}");
    assert_eq!(fs::read_dir(pod.data()).unwrap().count(), 0);
    pod.layout.mounts.insert("data".into(), "/srv".into());
    pod.ready(&disk("/srv/vm.img"), &json!({})).unwrap();
}

#[test]
fn a_claims_disk_is_given_unless_it_has_a_second_name() {
    if !is_root() {
        return;
    }
    let pod = Pod::new();
    let disk = pod.data().join("disk.img");
    fs::write(&disk, "made by a tool that runs as root").unwrap();
    chown(&disk, Some(0), Some(0)).unwrap();
    fs::hard_link(&disk, pod.data().join("other")).unwrap();
    let said = pod.ready(&claim(), &json!({})).unwrap_err();
    assert!(said.to_string().contains("2 names"), "{said}");
    assert_eq!(fs::metadata(&disk).unwrap().uid(), 0);
    fs::remove_file(pod.data().join("other")).unwrap();
    pod.ready(&claim(), &json!({})).unwrap();
    assert_eq!(fs::metadata(&disk).unwrap().uid(), 107);
}

/// Folders of the node are mounted beside those of claims, and code in the pod tries to exchange them.
#[test]
fn a_claim_beside_a_host_disk_is_made_ready_and_the_folder_of_the_host_is_not() {
    if !is_root() {
        return;
    }
    let mut pod = Pod::new();
    let disk = pod.data().join("disk.img");
    fs::write(&disk, "somebody's").unwrap();
    chown(&disk, Some(0), Some(0)).unwrap();
    let srv = pod.place.path().join("srv");
    fs::create_dir(&srv).unwrap();
    pod.layout.mounts.insert("host".into(), "/srv".into());
    let host = json!({"name": "host", "hostDisk": {"path": "/srv/vm.img", "type": "DiskOrCreate", "capacity": "8Mi"}});
    let info = json!({"capacity": {"storage": "64Mi"}});
    pod.ready_with(&claim(), &info, Some(&host)).unwrap();
    assert_eq!(fs::metadata(&disk).unwrap().uid(), 107, "the disk of a claim becomes the launcher's");
    // The folder of the host is mounted under the claim's name: no file in it is given away, created or
    // grown.
    fs::write(srv.join("disk.img"), "root's").unwrap();
    pod.layout.mounts.insert("data".into(), "/srv".into());
    for there in [true, false] {
        let said = pod.ready_with(&claim(), &info, Some(&host)).unwrap_err();
        assert!(said.chain().contains("is the folder of the hostDisk /srv/vm.img"), "{}", said.chain());
        if there {
            let found = fs::metadata(srv.join("disk.img")).unwrap();
            assert_eq!((found.uid(), found.len()), (0, 6));
            fs::remove_file(srv.join("disk.img")).unwrap();
        }
    }
    assert!(!srv.join("disk.img").exists());
}

#[test]
fn a_volume_that_is_not_the_claim_is_not_touched() {
    let mut pod = Pod::new();
    fs::write(pod.data().join("disk.img"), "x").unwrap();
    let owner = || fs::metadata(pod.data().join("disk.img")).unwrap().uid();
    let before = owner();
    pod.layout.claims.insert("data".into(), "another".into());
    let said = pod.ready(&claim(), &json!({"capacity": {"storage": "64Mi"}})).unwrap_err().to_string();
    assert!(said.contains("is not the claim pvc"), "{said}");
    assert_eq!(fs::metadata(pod.data().join("disk.img")).unwrap().uid(), before);
}

#[test]
fn what_the_engine_fills_is_waited_for_and_what_it_left_is_kept() {
    if !is_root() {
        return;
    }
    let pod = Pod::new();
    let (partial, info) = (pod.data().join("disk.img.partial"), json!({"capacity": {"storage": "64Mi"}}));
    for (volume, partial) in
        [(claim(), partial.clone()), (host_disk(true), pod.data().join("vm.img.partial"))]
    {
        fs::write(&partial, "").unwrap();
        chown(&partial, Some(107), Some(107)).unwrap();
        let held = fs::File::open(&partial).unwrap();
        rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let said = pod.ready(&volume, &info).unwrap_err();
        assert!(said.kind() == ErrorKind::Failed && said.to_string().contains("is under way"), "{said}");
        assert!(partial.exists(), "it is the engine's");
        drop(held);
        fs::write(&partial, "half a disk").unwrap();
        let said = pod.ready(&volume, &info).unwrap_err();
        assert!(said.kind() == ErrorKind::Failed && said.to_string().contains("did not end"), "{said}");
        assert_eq!(fs::read(&partial).unwrap(), b"half a disk");
        // An earlier virt-handler that was killed left nothing in it.
        fs::write(&partial, "").unwrap();
        pod.ready(&volume, &info).unwrap();
        assert!(!partial.exists());
    }
    assert_eq!(fs::metadata(pod.data().join("disk.img")).unwrap().len(), 64 << 20);
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
    assert!(said.unwrap_err().to_string().contains("the secret keys is not in the launcher pod"));
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

/// A guest may write anything to its first sector, for example the header of a qcow2 that refers to a file of
/// the host.
#[test]
fn a_disk_that_its_guest_calls_something_else_stays_raw() {
    if !is_root() {
        return;
    }
    let pod = Pod::new();
    let disk = pod.data().join("disk.img");
    let mut header = b"QFI\xfb\0\0\0\x03\0\0\0\0\0\0\0\x68\0\0\0\x0b".to_vec();
    header.resize(0x68, 0);
    header.extend(b"/etc/shadow");
    header.resize(1 << 20, 0);
    fs::write(&disk, &header).unwrap();
    chown(&disk, Some(107), Some(107)).unwrap();
    let ready = pod.ready(&claim(), &json!({"capacity": {"storage": "64Mi"}})).unwrap();
    let path = Path::new(MOUNT).join("disk.img");
    assert_eq!(
        ready.resolved.volumes["data"],
        Source::File { path, format: Format::Raw, preallocated: false }
    );
    // Growing the file does not read its content.
    let grown = fs::read(&disk).unwrap();
    assert!(grown.len() > header.len() && grown.starts_with(&header));
    assert!(grown[header.len()..].iter().all(|byte| *byte == 0));
}

#[test]
fn how_much_smaller_a_disk_may_be_and_what_is_left_free_are_settings() {
    let huge = json!({"capacity": {"storage": "4Ei"}});
    let mut pod = Pod::new();
    let said = pod.ready(&claim(), &huge).unwrap_err();
    assert!(said.chain().contains("even with the tolerance of 10 %"), "{}", said.chain());
    pod.files.reserve = u64::MAX;
    let said = pod.ready(&claim(), &huge).unwrap_err();
    assert!(said.chain().contains(" 0 are free"), "{}", said.chain());
    pod.files = Files { tolerated: 100, reserve: 0 };
    let ready = pod.ready(&claim(), &huge).unwrap();
    assert!(ready.notes.iter().any(|(_, note)| note.contains("which is tolerated")), "{:?}", ready.notes);
}

#[test]
fn sidecars_are_those_of_the_pod_and_none_is_left_out() {
    let mut pod = Pod::new();
    let vmi = |hooks: &Value| -> VirtualMachineInstance {
        api::wire::read(json!({
            "metadata": {
                "name": "a", "namespace": "test",
                "annotations": {"hooks.kubevirt.io/hookSidecars": hooks.to_string()},
            },
            "spec": {"domain": {
                "memory": {"guest": "128Mi"}, "firmware": {"uuid": UUID}, "devices": {"autoattachPodInterface": false}
            }}
        }))
        .unwrap()
    };
    let one = vmi(&json!([{"image": "a"}]));
    let said = pod.ready_of(&one).unwrap_err().to_string();
    assert!(said.contains("name 1 hook sidecars, and the launcher pod has 0"), "{said}");
    pod.layout.hooks = vec!["hook-sidecar-0".into()];
    let folder = "/var/run/kubevirt-hooks/hook-sidecar-0".into();
    let hook = Hook::Sidecar { container: "hook-sidecar-0".into(), folder };
    assert_eq!(pod.ready_of(&one).unwrap().resolved.hooks, [hook]);
    assert!(
        pod.ready_of(&vmi(&json!([]))).is_err(),
        "it was asked to change the domain, and nobody would ask it"
    );
}
