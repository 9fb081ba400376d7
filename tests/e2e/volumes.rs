//! Disks: what is written stays where it should, and goes where it should.

use tests::cluster::Space;

/// A claim, and a machine that has it as its second disk.
fn manifest(mode: &str, class: &str) -> String {
    format!(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [ReadWriteOnce]
  volumeMode: {mode}
  storageClassName: {class}
  resources: {{requests: {{storage: 64Mi}}}}
---{}",
        crate::tiny("web", "Always")
            .replace("        devices:\n", "        devices:\n          disks:\n          - {name: data, disk: {bus: virtio}}\n")
            .replace("      networks:\n", "      volumes:\n      - {name: data, persistentVolumeClaim: {claimName: data}}\n      networks:\n")
    )
}

fn survives(mode: &str) {
    let Some(space) = Space::new(&mode.to_lowercase()) else { return };
    space.apply(&manifest(mode, "standard"));
    let mut console = space.console_when_ready("web");
    console.log_in();
    console.types("echo kept-here | dd of=/dev/vda bs=512 seek=7 conv=sync 2>&1; sync; echo writ''ten");
    console.says("written");
    let first = space.get("vmi/web", ".metadata.uid");
    // Its pod goes, as with a node that is drained: the strategy begins it again.
    let pod = space.pod_of("web");
    space.run(&["delete", "pod", &pod]);
    space.another("vmi/web", &first);
    let mut console = space.console_when_ready("web");
    console.log_in().types("dd if=/dev/vda bs=512 skip=7 count=1 2>/dev/null");
    console.says("kept-here");
}

#[test]
fn a_claim_with_a_file_system() {
    survives("Filesystem");
}

#[test]
fn a_claim_that_is_a_device() {
    survives("Block");
}
