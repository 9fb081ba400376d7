//! An installation: an ISO on a claim, as a CD-ROM that boots; a disk in a folder of the node; drivers out of an image.

use crate::{from_disks, open_gates, tiny, with_disks};
use tests::cluster::{Space, until};

/// A claim, and a pod that fills it with the ISO of an image.
const ISO: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: iso}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 128Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: filler}
spec:
  restartPolicy: Never
  containers:
  - name: filler
    image: registry:5000/busybox:1
    command: [/bin/sh, -c, 'cp /image/disk/* /claim/disk.img']
    volumeMounts: [{name: image, mountPath: /image}, {name: claim, mountPath: /claim}]
  volumes:
  - {name: image, image: {reference: 'registry:5000/installer:1'}}
  - {name: claim, persistentVolumeClaim: {claimName: iso}}
";

/// The file of the disk, on the node.
fn file(space: &Space) -> String {
    format!("/var/lib/e2e/{}/system.img", space.name)
}

/// The same VM with the three disks.
fn with_installation(space: &Space, vm: &str) -> String {
    let system = file(space);
    let system = format!("{{name: system, hostDisk: {{path: {system}, type: DiskOrCreate, capacity: 1Gi}}}}");
    let drivers = "{name: drivers, containerDisk: {image: 'registry:5000/disk:1'}}";
    let disks = [
        (
            "{name: iso, bootOrder: 1, cdrom: {bus: sata}}",
            "{name: iso, persistentVolumeClaim: {claimName: iso}}",
        ),
        ("{name: system, bootOrder: 2, disk: {bus: virtio}}", system.as_str()),
        ("{name: drivers, cdrom: {bus: sata}}", drivers),
    ];
    with_disks(vm, &disks)
}

/// A VM with them is there.
fn begin(space: &Space, vm: &str) {
    open_gates(space);
    space.apply(ISO);
    space.says("pod/filler", ".status.phase", "Succeeded");
    let manifest = with_installation(space, vm);
    // The settings are read live, a moment later.
    until(|| space.try_apply(&manifest).code == 0, || space.try_apply(&manifest).err);
}

#[test]
fn an_installer_starts_from_a_claim() {
    let Some(space) = Space::new("installer") else { return };
    begin(&space, &from_disks(&tiny("web", "Always")).replace("256Mi", "1Gi"));
    let mut console = space.console_when_ready("web");
    console.says("Select a language");
}

#[test]
fn a_guest_has_the_disks_of_an_installation() {
    let Some(space) = Space::new("disks") else { return };
    begin(&space, &tiny("web", "Always"));
    let mut console = space.console_when_ready("web");
    crate::volumes::write(&mut console);
    // A disc on SATA comes late, and which comes first is not said.
    console.types(
        "until mount -t iso9660 /dev/sr0 /mnt || mount -t iso9660 /dev/sr1 /mnt; do sleep 1; done; cat /mnt/.disk/info",
    );
    console.says("Debian installer");
    console.types("echo no >/dev/sr0").says("Read-only file system");
    // The disk is the launcher's, as large as it should be, and it stays when the VMI goes.
    let file = file(&space);
    let stat = space.cluster.on_node(1, &["stat", "-c", "%u %s", &file]).ok();
    assert_eq!(String::from_utf8_lossy(&stat.out).trim(), "107 1073741824");
    let first = space.get("vmi/web", ".metadata.uid");
    space.run(&["delete", "vmi", "web"]);
    space.another("vmi/web", &first);
    crate::volumes::reads(&mut space.console_when_ready("web"));
    space.cluster.on_node(1, &["rm", "-r", file.trim_end_matches("/system.img")]).ok();
}
