//! Disks in claims and images as the launcher sees them, while other containers have the same folders. The
//! containers are like those of a node. The tests need root, and do nothing otherwise.

use super::super::{Ready, prepare};
use super::*;
use crate::pod::confined::LAUNCHER;
use crate::pod::layout::PodPath;
use crate::pod::played::{Container, may_mount};
use crate::pod::{Layout, PodFolder, Pods};
use api::launcher::Source;
use api::machine::Machine;
use api::vmi::VirtualMachineInstance;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, chown, symlink};
use std::process::{Child, Command, Stdio};

const UUID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

/// Path of the volume in the launcher's container, …
const DATA: &str = "/private/vmi-disks/data";
/// … and of its emptyDir on the node.
const PRIVATE: &str = "u/volumes/kubernetes.io~empty-dir/private";

/// The launcher's container, with a volume `data` that other containers have too, and a folder `host` of the
/// node.
struct Pod {
    compute: Container,
    layout: Layout,
    /// Folder of virt-handler; shared by pods on one node.
    kept: PathBuf,
}

impl Pod {
    fn new() -> Pod {
        let mounts = format!(
            "/busybox mkdir -p /{PRIVATE}/root /{PRIVATE}/vmi-disks/data /{PRIVATE}/vmi-disks/host /private /data /host && \
             /busybox mount --bind /{PRIVATE} /private && /busybox mount --bind /data {DATA} && \
             /busybox mount --bind /host /private/vmi-disks/host &&"
        );
        let compute = Container::new(&mounts);
        let inside = || PodPath { volume: "private".into(), path: "root".into() };
        let layout = Layout {
            uid: "u".into(),
            socket: inside(),
            root: inside(),
            folder: "/private/root".into(),
            mounts: [("private", "/private"), ("data", DATA), ("host", "/private/vmi-disks/host")]
                .map(|(name, path)| (name.to_owned(), path.to_owned()))
                .into(),
            claims: BTreeMap::from([("data".to_owned(), "pvc".to_owned())]),
            devices: BTreeMap::new(),
            secrets: BTreeMap::new(),
            beside: BTreeMap::new(),
            filesystems: BTreeMap::new(),
            hooks: Vec::new(),
            kernel: Some(DATA.into()),
            state: None,
            kvm: false,
        };
        Pod { kept: compute.place.path().to_owned(), compute, layout }
    }

    /// The volume as other containers see it.
    fn data(&self, name: &str) -> PathBuf {
        self.compute.place.path().join("data").join(name)
    }

    /// A disk in the volume. It is owned by the launcher already, since the owner of a hostDisk is not
    /// changed.
    fn has_disk(&self, name: &str) {
        let path = self.data(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "the disk").unwrap();
        chown(&path, Some(LAUNCHER), Some(LAUNCHER)).unwrap();
    }

    fn ready(&self, spec: &Value) -> Ready {
        self.try_ready(spec).unwrap()
    }

    fn try_ready(&self, spec: &Value) -> Result<Ready> {
        self.try_ready_for(spec, false)
    }

    fn try_ready_for(&self, spec: &Value, receives: bool) -> Result<Ready> {
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
        cluster_model::plan::merge(&mut object["spec"], spec);
        let vmi: VirtualMachineInstance = api::wire::read(object).unwrap();
        let machine = Machine::check_again(&vmi).unwrap();
        let place =
            PodFolder::new(&Pods::played(self.compute.place.path()).keeping(&self.kept), self.layout.clone());
        let (process, root) = (self.compute.process(), self.compute.root());
        let files = api::machine::Files::default();
        let (vmi, machine, place, process, root) = (&vmi, &machine, &place, &process, &root);
        prepare(&Parts { vmi, machine, place, process, root, files, receives })
    }

    fn volume(&self, volume: &Value) -> PathBuf {
        match self.ready(&Pod::spec(volume)).resolved.volumes.remove("data").unwrap() {
            Source::File { path, .. } | Source::Image { path, .. } => path,
            other => panic!("{other:?}"),
        }
    }

    /// A VMI with this volume.
    fn spec(volume: &Value) -> Value {
        let mut volume = volume.clone();
        volume["name"] = json!("data");
        let disks = json!({"domain": {"devices": {"disks": [{"name": "data", "disk": {"bus": "virtio"}}]}}});
        let mut spec = json!({"volumes": [volume]});
        cluster_model::plan::merge(&mut spec, &disks);
        spec
    }

    /// A file of root in the folder of the node.
    fn host_file(&self, name: &str) -> PathBuf {
        let file = self.compute.place.path().join("host").join(name);
        fs::write(&file, "root's").unwrap();
        chown(&file, Some(0), Some(0)).unwrap();
        file
    }

    /// Asserts that the folder of the node is unchanged: it has only this file, which is root's.
    fn has_changed_nothing(&self, file: &Path, case: &str) {
        let names: Vec<_> = fs::read_dir(self.compute.place.path().join("host")).unwrap().collect();
        assert_eq!(names.len(), 1, "{case}: {names:?}");
        assert_eq!(fs::metadata(file).unwrap().uid(), 0, "{case}");
        assert_eq!(fs::read_to_string(file).unwrap(), "root's", "{case}");
    }

    /// Content that the launcher reads at a path that it was given.
    fn reads(&self, path: &Path) -> String {
        self.compute.run(&format!("/busybox head -c 8 {}", path.display()))
    }
}

/// Volumes whose disk another container may swap, and the name of the disk in each.
fn volumes() -> [(Value, &'static str); 4] {
    [
        (json!({"persistentVolumeClaim": {"claimName": "pvc"}}), "disk.img"),
        (json!({"ephemeral": {"persistentVolumeClaim": {"claimName": "pvc"}}}), "disk.img"),
        (json!({"hostDisk": {"path": "/data/vm.img", "type": "Disk"}}), "vm.img"),
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
        // Another container with the volume replaces the disk before QEMU opens it.
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
    // The disk was replaced: the new one is mounted, and nothing is left below the mount.
    fs::remove_file(pod.data("disk.img")).unwrap();
    let file = fs::File::create(pod.data("disk.img")).unwrap();
    file.set_len(128 << 20).unwrap();
    assert_eq!(pod.volume(&claim), path);
    assert_eq!(shown(&pod), ("134217728\n".into(), "1\n".into()));
}

/// Code in the container may write to the parent folder of its volumes. So it can move that folder away, and
/// make another with links in it.
#[test]
fn what_is_said_to_be_a_volume_and_is_no_mount_is_not_believed() {
    if !may_mount() {
        return;
    }
    let moved = "cd /private && /busybox mv vmi-disks old && /busybox mkdir -p vmi-disks && ";
    for (case, script) in [
        ("a link", "/busybox ln -s ../old/host vmi-disks/data"),
        ("a link on the way", "/busybox rm -r vmi-disks && /busybox ln -s old vmi-disks"),
        ("a folder of its own", "/busybox mkdir vmi-disks/data && /busybox chmod 777 vmi-disks/data"),
    ] {
        let pod = Pod::new();
        let file = pod.host_file("disk.img");
        let done = pod.compute.run(&format!("{moved}{script}"));
        assert_eq!(done, "", "{case}");
        for (volume, _) in volumes() {
            let said = pod.try_ready(&Pod::spec(&volume)).map(|ready| ready.resolved);
            assert_eq!(said.unwrap_err().kind(), ErrorKind::Refused, "{case}: {volume}");
        }
        pod.has_changed_nothing(&file, case);
    }
}

#[test]
fn the_launchers_own_folder_is_no_folder_of_the_node() {
    if !may_mount() {
        return;
    }
    let claim = Pod::spec(&json!({"persistentVolumeClaim": {"claimName": "pvc"}}));
    // By a link, or by another container with the emptyDir but without its mounts, which renames a mount
    // point.
    let exchange = |pod: &Pod, one: &str| {
        let at = |name: &str| pod.compute.place.path().join(PRIVATE).join(name);
        let swap = rustix::fs::RenameFlags::EXCHANGE;
        rustix::fs::renameat_with(rustix::fs::CWD, at(one), rustix::fs::CWD, at("vmi-disks/host"), swap)
            .unwrap();
    };
    type Change<'a> = &'a dyn Fn(&Pod);
    let cases: [(&str, Change<'_>); 3] = [
        ("a link", &|pod| {
            let script = "cd /private && /busybox mv root old && /busybox ln -s vmi-disks/host root";
            assert_eq!(pod.compute.run(script), "");
        }),
        ("another mount", &|pod| exchange(pod, "root")),
        ("a mount below it", &|pod| {
            fs::create_dir(pod.compute.place.path().join(PRIVATE).join("root/shown")).unwrap();
            exchange(pod, "root/shown");
        }),
    ];
    for (case, change) in cases {
        let pod = Pod::new();
        pod.has_disk("disk.img");
        let file = pod.host_file("data.img");
        change(&pod);
        let said = pod.try_ready(&claim).map(|ready| ready.resolved);
        assert_eq!(said.unwrap_err().kind(), ErrorKind::Refused, "{case}");
        pod.has_changed_nothing(&file, case);
    }
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

/// A block device of this host.
struct LoopDevice {
    number: (u32, u32),
    path: String,
    _file: tempfile::NamedTempFile,
}

impl LoopDevice {
    fn new() -> LoopDevice {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(8 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().unwrap();
        let path = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        assert!(path.starts_with("/dev/loop"), "{}", String::from_utf8_lossy(&made.stderr));
        let number = fs::metadata(&path).unwrap().rdev();
        LoopDevice { number: (rustix::fs::major(number), rustix::fs::minor(number)), path, _file: file }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        drop(Command::new("losetup").args(["--detach", &self.path]).status());
    }
}

/// A QEMU that has opened a disk like those of launchers; it ends on drop.
struct Qemu(Child);

impl Qemu {
    /// Error of a QEMU that does not start.
    fn start(driver: &str, path: &Path, share: &str) -> std::result::Result<Qemu, String> {
        let disk = format!("driver={driver},filename={},node-name=disk", path.display());
        let device = format!("virtio-blk-pci,drive=disk,share-rw={share}");
        let qemu = Command::new("qemu-system-x86_64")
            .args(["-machine", "pc,accel=tcg", "-m", "16", "-S", "-nodefaults", "-display", "none"])
            .args(["-qmp", "stdio", "-blockdev", &disk, "-device", &device])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut qemu = Qemu(qemu.unwrap());
        // It sends its greeting before it has its devices, and answers when it has them.
        let asked = qemu.0.stdin.as_mut().unwrap().write_all(b"{\"execute\": \"qmp_capabilities\"}\n");
        let mut lines = BufReader::new(qemu.0.stdout.as_mut().unwrap()).lines().map_while(|line| line.ok());
        if lines.any(|line| line.contains("\"return\"")) {
            asked.unwrap();
            return Ok(qemu);
        }
        let mut said = String::new();
        qemu.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        Err(said)
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        drop((self.0.kill(), self.0.wait()));
    }
}

impl Pod {
    /// A VMI whose claim is a block device, with a device node in its container.
    fn with_device(device: &LoopDevice, kept: &Path) -> Pod {
        let mut pod = Pod::new();
        let (major, minor) = device.number;
        let made = format!("/busybox mkdir -p /dev && /busybox mknod /dev/data b {major} {minor}");
        assert_eq!(pod.compute.run(&made), "");
        pod.layout.devices.insert("data".into(), "/dev/data".into());
        pod.kept = kept.to_owned();
        pod
    }

    /// Device of the launcher, by a path that this test can use.
    fn device(&self, spec: &Value) -> PathBuf {
        match self.ready(spec).resolved.volumes.remove("data").unwrap() {
            Source::Block { path } => self.seen(&path),
            other => panic!("{other:?}"),
        }
    }

    /// Content at a path in the launcher's container.
    fn seen(&self, path: &Path) -> PathBuf {
        let root = self.compute.process().root().unwrap().display_path().to_owned();
        root.join(path.strip_prefix("/").unwrap())
    }
}

fn sharing(spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["domain"]["devices"]["disks"][0]["shareable"] = json!(true);
    spec
}

#[test]
fn two_launchers_never_have_one_block_device_at_once_whoever_is_killed() {
    if !may_mount() {
        return;
    }
    let (device, kept) = (LoopDevice::new(), tempfile::tempdir().unwrap());
    let spec = Pod::spec(&json!({"persistentVolumeClaim": {"claimName": "pvc"}}));
    let (one, two) = (Pod::with_device(&device, kept.path()), Pod::with_device(&device, kept.path()));
    // Both are prepared before either has a QEMU: then QEMU's own lock decides.
    let (first, second) = (one.device(&spec), two.device(&spec));
    let qemu = Qemu::start("host_device", &first, "off").unwrap_or_else(|said| panic!("{said}"));
    let said = Qemu::start("host_device", &second, "off").err().expect("a second QEMU has the device");
    assert!(said.contains("lock"), "{said}");
    // The launcher is killed and its QEMU is not; and virt-handler has lost its memory.
    drop(one);
    let three = Pod::with_device(&device, kept.path());
    for spec in [&spec, &sharing(&spec)] {
        let said = three.try_ready(spec).map(|ready| ready.resolved).unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Failed, "it is tried again");
        assert!(said.to_string().contains("is the disk of another VMI on this node"), "{said}");
    }
    assert_eq!(two.device(&spec), second, "one that was made ready is not in its own way");
    drop(qemu);
    let third = three.device(&spec);
    let _qemu = Qemu::start("host_device", &third, "off").unwrap_or_else(|said| panic!("{said}"));
    // Another node of the same device would not show the lock: so each launcher gets this one.
    let node =
        fs::metadata(kept.path().join(format!("block-devices/{}:{}", device.number.0, device.number.1)));
    assert_eq!(node.unwrap().ino(), fs::metadata(&third).unwrap().ino());
}

/// A folder on a file system that is mounted without devices, like `/var` of a hardened node.
struct WithoutDevices(tempfile::TempDir);

impl WithoutDevices {
    fn new() -> WithoutDevices {
        let place = tempfile::tempdir().unwrap();
        let mount = ["-t", "tmpfs", "-o", "nodev", "none"];
        assert!(Command::new("mount").args(mount).arg(place.path()).status().unwrap().success());
        WithoutDevices(place)
    }
}

impl Drop for WithoutDevices {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(self.0.path()).status());
    }
}

#[test]
fn a_block_device_is_used_on_a_node_whose_folders_are_mounted_without_devices() {
    if !may_mount() {
        return;
    }
    let (device, kept) = (LoopDevice::new(), WithoutDevices::new());
    let spec = Pod::spec(&json!({"persistentVolumeClaim": {"claimName": "pvc"}}));
    let (one, two) = (Pod::with_device(&device, kept.0.path()), Pod::with_device(&device, kept.0.path()));
    let first = one.device(&spec);
    let _qemu = Qemu::start("host_device", &first, "off").unwrap_or_else(|said| panic!("{said}"));
    let said = two.try_ready(&spec).map(|ready| ready.resolved).unwrap_err();
    assert!(said.to_string().contains("is the disk of another VMI on this node"), "{said}");
}

#[test]
fn a_block_device_that_guests_share_has_two_qemus() {
    if !may_mount() {
        return;
    }
    let (device, kept) = (LoopDevice::new(), tempfile::tempdir().unwrap());
    let spec = sharing(&Pod::spec(&json!({"persistentVolumeClaim": {"claimName": "pvc"}})));
    let qemus = [(); 2].map(|()| {
        let pod = Pod::with_device(&device, kept.path());
        let path = pod.device(&spec);
        let qemu = Qemu::start("host_device", &path, "on").unwrap_or_else(|said| panic!("{said}"));
        (pod, qemu)
    });
    drop(qemus);
}

#[test]
fn a_file_that_another_qemu_has_is_waited_for() {
    if !may_mount() {
        return;
    }
    for (volume, name) in volumes().into_iter().take(3) {
        let pod = Pod::new();
        pod.has_disk(name);
        fs::File::options().write(true).open(pod.data(name)).unwrap().set_len(1 << 20).unwrap();
        let qemu = Qemu::start("file", &pod.data(name), "off").unwrap_or_else(|said| panic!("{said}"));
        let said = pod.try_ready(&Pod::spec(&volume)).map(|ready| ready.resolved).unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Failed, "{said}");
        assert!(said.to_string().contains("is the disk of another VMI on this node"), "{said}");
        // The QEMU of the node from which the guest migrates has it until then.
        pod.try_ready_for(&Pod::spec(&volume), true).unwrap();
        drop(qemu);
        pod.ready(&Pod::spec(&volume));
    }
}
