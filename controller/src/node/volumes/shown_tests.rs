//! What the launcher sees of disks in claims and images while somebody else has the same folders: in containers as a
//! node has them. They are root's; elsewhere there is nothing to see.

use super::super::{Ready, ready};
use super::*;
use crate::node::pod::beneath::LAUNCHER;
use crate::node::pod::layout::Inside;
use crate::node::pod::played::{Container, may_mount};
use crate::node::pod::{Layout, Place, Pods};
use api::launcher::Source;
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{chown, symlink};

const UUID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

/// The launcher's container, with a volume `data` that others have, too.
struct Pod {
    compute: Container,
    layout: Layout,
}

impl Pod {
    fn new() -> Pod {
        let compute = Container::new("");
        for folder in ["private/root", "data"] {
            fs::create_dir_all(compute.place.path().join(folder)).unwrap();
        }
        let inside = || Inside { volume: "private".into(), path: "root".into() };
        let layout = Layout {
            uid: "u".into(),
            socket: inside(),
            root: inside(),
            folder: "/private/root".into(),
            mounts: BTreeMap::from([("data".to_owned(), "/data".to_owned())]),
            claims: BTreeMap::from([("data".to_owned(), "pvc".to_owned())]),
            devices: BTreeMap::new(),
            secrets: BTreeMap::new(),
            optional: Vec::new(),
            beside: BTreeMap::new(),
            kernel: Some("/data".into()),
            kvm: false,
        };
        Pod { compute, layout }
    }

    /// The volume, as whoever else has it sees it.
    fn data(&self, name: &str) -> PathBuf {
        self.compute.place.path().join("data").join(name)
    }

    /// A disk in the volume. It is the launcher's already: that of a hostDisk is given to nobody.
    fn has_disk(&self, name: &str) {
        let path = self.data(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "the disk").unwrap();
        chown(&path, Some(LAUNCHER), Some(LAUNCHER)).unwrap();
    }

    fn ready(&self, spec: &Value) -> Ready {
        let mut object = json!({
            "metadata": {"name": "a", "namespace": "test"},
            "spec": {"domain": {
                "memory": {"guest": "128Mi"},
                "firmware": {"uuid": UUID},
                "devices": {"autoattachPodInterface": false}
            }},
            "status": {"volumeStatus": [{"name": "data", "target": "", "persistentVolumeClaimInfo": {
                "capacity": {"storage": "64Mi"}
            }}]}
        });
        crate::plan::merge(&mut object["spec"], spec);
        let vmi: VirtualMachineInstance = api::wire::read(object).unwrap();
        let machine = Machine::handed(&vmi).unwrap();
        let place = Place::new(&Pods::played(self.compute.place.path()), self.layout.clone());
        let (process, root) = (self.compute.process(), self.compute.root());
        ready(&Parts { vmi: &vmi, machine: &machine, place: &place, process: &process, root: &root }).unwrap()
    }

    fn volume(&self, volume: &Value) -> PathBuf {
        let mut volume = volume.clone();
        volume["name"] = json!("data");
        let disks = json!({"domain": {"devices": {"disks": [{"name": "data", "disk": {"bus": "virtio"}}]}}});
        let mut spec = json!({"volumes": [volume]});
        crate::plan::merge(&mut spec, &disks);
        match self.ready(&spec).resolved.volumes.remove("data").unwrap() {
            Source::File { path, .. } | Source::Image { path, .. } => path,
            other => panic!("{other:?}"),
        }
    }

    /// What the launcher reads by a name that it was told.
    fn reads(&self, path: &Path) -> String {
        self.compute.run(&format!("/busybox head -c 8 {}", path.display()))
    }
}

/// The volumes whose disk somebody else may swap, and how the disk is called in each.
fn volumes() -> [(Value, &'static str); 4] {
    [
        (json!({"persistentVolumeClaim": {"claimName": "pvc"}}), "disk.img"),
        (json!({"ephemeral": {"persistentVolumeClaim": {"claimName": "pvc"}}}), "disk.img"),
        (json!({"hostDisk": {"path": "/srv/vm.img", "type": "Disk"}}), "vm.img"),
        (json!({"containerDisk": {"image": "registry.example/os:1", "path": "/disk/os.img"}}), "disk/os.img"),
    ]
}

#[test]
fn whatever_becomes_of_a_disks_name_the_launcher_opens_the_disk_that_was_looked_at() {
    if !may_mount() {
        return;
    }
    for (volume, name) in volumes() {
        let pod = Pod::new();
        fs::write(pod.compute.place.path().join("secret"), "of the launcher's own container").unwrap();
        pod.has_disk(name);
        let path = pod.volume(&volume);
        // Whoever else has the volume puts something else where the disk was, before QEMU opens it.
        let swaps: [&dyn Fn(); 3] = [
            &|| symlink("/secret", pod.data(name)).unwrap(),
            &|| fs::write(pod.data(name), "another file").unwrap(),
            &|| fs::create_dir(pod.data(name)).unwrap(),
        ];
        for swap in swaps {
            drop(fs::remove_file(pod.data(name)));
            swap();
            assert_eq!(pod.reads(&path), "the disk", "{name}");
        }
    }
}

#[test]
fn what_the_guest_writes_is_in_the_claim_and_what_is_only_read_stays_so() {
    if !may_mount() {
        return;
    }
    for (volume, name) in volumes() {
        let pod = Pod::new();
        pod.has_disk(name);
        let path = pod.volume(&volume);
        let said = pod.compute.run(&format!("echo -n guest >{}", path.display()));
        let now = fs::read_to_string(pod.data(name)).unwrap();
        match volume.get("containerDisk").or(volume.get("ephemeral")) {
            None => assert_eq!((now.as_str(), said.as_str()), ("guest", ""), "{name}"),
            Some(_) => {
                assert!(said.contains("Read-only"), "{name}: {said}");
                assert_eq!(now, "the disk");
            }
        }
    }
}

#[test]
fn a_disk_that_was_made_is_shown_too_and_a_second_look_shows_nothing_twice() {
    if !may_mount() {
        return;
    }
    let pod = Pod::new();
    let claim = json!({"persistentVolumeClaim": {"claimName": "pvc"}});
    let path = pod.volume(&claim);
    let shown = |pod: &Pod| {
        let mounts = pod.compute.run(
            "/busybox mkdir -p /proc; /busybox mount -t proc none /proc; \
            /busybox grep -c /private/root/shown/ /proc/self/mountinfo; /busybox umount /proc",
        );
        (pod.compute.run(&format!("/busybox stat -c %s {}", path.display())), mounts)
    };
    assert_eq!(shown(&pod), ("67108864\n".into(), "1\n".into()));
    assert_eq!(pod.volume(&claim), path);
    assert_eq!(shown(&pod), ("67108864\n".into(), "1\n".into()));
    // The disk is another by now: that one is shown, and nothing below it is left.
    fs::remove_file(pod.data("disk.img")).unwrap();
    let file = fs::File::create(pod.data("disk.img")).unwrap();
    file.set_len(128 << 20).unwrap();
    assert_eq!(pod.volume(&claim), path);
    assert_eq!(shown(&pod), ("134217728\n".into(), "1\n".into()));
}

#[test]
fn the_kernel_and_its_first_disk_are_those_that_were_looked_at() {
    if !may_mount() {
        return;
    }
    let pod = Pod::new();
    fs::write(pod.data("vmlinuz"), "a kernel").unwrap();
    fs::write(pod.data("initrd"), "a ramdsk").unwrap();
    let boot = json!({"image": "registry.example/k:1", "kernelPath": "/vmlinuz", "initrdPath": "/initrd"});
    let spec = json!({"domain": {"firmware": {"kernelBoot": {"container": boot}}}});
    let kernel = pod.ready(&spec).resolved.kernel.unwrap();
    for name in ["vmlinuz", "initrd"] {
        fs::remove_file(pod.data(name)).unwrap();
        symlink("/busybox", pod.data(name)).unwrap();
    }
    assert_eq!(pod.reads(&kernel.kernel), "a kernel");
    assert_eq!(pod.reads(&kernel.initrd.unwrap()), "a ramdsk");
}
