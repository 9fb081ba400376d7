//! An older guide for a VM that is installed from an ISO, walked from its ConfigMap `kubevirt-config` to the screen: the ISO is uploaded,
//! and is the CD-ROM of a VM with a `hostDisk` and a containerDisk of drivers; `kubectl edit` changes the boot order.

use super::{Running, rfb};
use crate::{from_disks, open_gates, tiny, with_disks};
use serde_json::Value;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use tests::cluster::{Space, until};
use tests::coracle::Ran;

/// The field of a key of the ConfigMap that no other story notices.
const PERIOD: &str = ".spec.configuration.memBalloonStatsPeriod";
const HELLO: &str = "Select a language";
/// An editor that swaps the first two disks of the boot order.
const SWAP: &str = "#!/bin/sh
sed -i -e 's/bootOrder: 2$/bootOrder: 9/' -e 's/bootOrder: 1$/bootOrder: 2/' -e 's/bootOrder: 9$/bootOrder: 1/' \"$1\"
";

/// The guide's ConfigMap, in the cluster of all stories. It goes with this value, and so does what was taken from it.
struct Settings<'a>(&'a Space);

impl Settings<'_> {
    fn create(space: &Space) -> Settings<'_> {
        let settings = Settings(space);
        settings.clear();
        let literals = [
            "memBalloonStatsPeriod=11",
            "feature-gates=HostDisk,Sidecar",
            "migrations=nodeDrainTaintKey: drain",
        ];
        let mut args = vec!["-n", "kubevirt", "create", "configmap", "kubevirt-config"];
        args.extend(literals.iter().flat_map(|literal| ["--from-literal", *literal]));
        space.cluster.run(&args).ok();
        settings
    }

    fn get(&self, path: &str) -> String {
        let path = format!("jsonpath={{{path}}}");
        let ran = self.0.cluster.run(&["-n", "kubevirt", "get", "kubevirt", "kubevirt", "-o", &path]).ok();
        String::from_utf8_lossy(&ran.out).into_owned()
    }

    fn clear(&self) {
        let map = ["-n", "kubevirt", "delete", "configmap", "kubevirt-config", "--ignore-not-found"];
        self.0.cluster.run(&map);
        let patch = r#"{"metadata":{"annotations":{"kubevirt.io/taken-from-kubevirt-config":null}},
            "spec":{"configuration":{"memBalloonStatsPeriod":null}}}"#;
        let patch = ["-n", "kubevirt", "patch", "kubevirt", "kubevirt", "--type", "merge", "-p", patch];
        self.0.cluster.run(&patch);
    }
}

impl Drop for Settings<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The folder of the node with the file of the hostDisk. It goes with this value.
struct Folder<'a>(&'a Space);

impl Folder<'_> {
    fn path(&self) -> String {
        format!("/var/lib/e2e/{}", self.0.name)
    }
}

impl Drop for Folder<'_> {
    fn drop(&mut self) {
        self.0.cluster.on_node(1, &["rm", "-rf", &self.path()]);
    }
}

fn virtctl(space: &Space, args: &[&str]) -> Command {
    let mut command = Command::new(space.cluster.info("virtctl"));
    command.args(["-n", &space.name]).args(args);
    command.env("KUBECONFIG", space.cluster.info("kubeconfig")).stdin(Stdio::null());
    command
}

/// The guide's VM: the ISO first, then the disk of the node, and the drivers as a second CD-ROM.
fn manifest(folder: &Folder<'_>) -> String {
    let system = format!("{}/system.img", folder.path());
    let system = format!("{{name: system, hostDisk: {{path: {system}, type: DiskOrCreate, capacity: 1Gi}}}}");
    let disks = [
        (
            "{name: iso, bootOrder: 1, cdrom: {bus: sata}}",
            "{name: iso, persistentVolumeClaim: {claimName: iso}}",
        ),
        ("{name: system, bootOrder: 2, disk: {bus: virtio}}", system.as_str()),
        (
            "{name: drivers, cdrom: {bus: sata}}",
            "{name: drivers, containerDisk: {image: 'registry:5000/disk:1'}}",
        ),
    ];
    with_disks(&from_disks(&tiny("web", "Always")).replace("256Mi", "1Gi"), &disks)
}

#[test]
fn an_older_guide_is_walked_from_its_config_map_to_the_screen() {
    let Some(space) = Space::new("guide") else { return };
    let settings = Settings::create(&space);
    until(|| settings.get(PERIOD) == "11", || settings.get(".spec"));
    let message = ".status.conditions[?(@.type==\"SettingsServed\")].message";
    let named = || settings.get(message).contains("ConfigMap kubevirt-config, key migrations: no effect");
    until(named, || settings.get(message));
    let events =
        ["-n", "kubevirt", "get", "events", "--field-selector", "reason=SettingsTaken", "-o", "name"];
    until(|| !space.cluster.run(&events).out.is_empty(), || "no event names the settings".to_owned());
    // The folder of hostDisks is a permission that KubeVirt does not have.
    open_gates(&space);

    let services =
        ["-n", "kubevirt", "get", "services", "-l", "cdi.kubevirt.io=cdi-uploadproxy", "-o", "name"];
    let services = space.cluster.run(&services).ok();
    assert_eq!(String::from_utf8_lossy(&services.out).trim(), "service/cdi-uploadproxy");
    let recipe = format!("{}/images/guests/installer/build", env!("CARGO_MANIFEST_DIR"));
    let iso = Ran::of(Command::new(recipe).output().unwrap()).ok();
    let iso = String::from_utf8(iso.out).unwrap();
    let url = crate::uploads::proxy(&space);
    let args = ["image-upload", "pvc", "iso", "--size", "128Mi", "--image-path", iso.trim(), "--force-bind"];
    let args = [&args[..], &["--insecure", "--uploadproxy-url", &url]].concat();
    Ran::of(virtctl(&space, &args).output().unwrap()).ok();

    let folder = Folder(&space);
    let manifest = manifest(&folder);
    // The settings are read live, a moment later.
    until(|| space.try_apply(&manifest).code == 0, || space.try_apply(&manifest).err);
    space.console_when_ready("web").says(HELLO);
    let args = ["vnc", "web", "--proxy-only"];
    let mut proxy = Running(virtctl(&space, &args).stdout(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(proxy.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = serde_json::from_str::<Value>(&line).unwrap()["port"].as_u64().unwrap();
    let (width, height) = rfb::size_of_screen(port as u16);
    assert!(width > 0 && height > 0, "{width}x{height}");

    let tools = tempfile::tempdir().unwrap();
    let editor = tools.path().join("swap");
    fs::write(&editor, SWAP).unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let mut edit = space.cluster.kubectl(&["-n", &space.name, "edit", "vm", "web"]);
    Ran::of(edit.env("KUBE_EDITOR", &editor).stdin(Stdio::null()).output().unwrap()).ok();
    let first = space.get("vmi/web", ".metadata.uid");
    Ran::of(virtctl(&space, &["restart", "web"]).output().unwrap()).ok();
    space.another("vmi/web", &first);
    let order = |disk: &str| {
        space.get("vmi/web", &format!(".spec.domain.devices.disks[?(@.name==\"{disk}\")].bootOrder"))
    };
    assert_eq!((order("system"), order("iso")), ("1".to_owned(), "2".to_owned()));
    // Nothing is on the first disk: the firmware goes on to the second.
    space.console_when_ready("web").says(HELLO);
}
