//! Disks: what is written stays where it should, and goes where it should.

use crate::{tiny, with_disks};
use tests::cluster::Space;
use tests::serial::Serial;

/// A PVC, and a VM that has it as its second disk.
pub(crate) fn manifest(mode: &str, class: &str) -> String {
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
        with_disks(
            &tiny("web", "Always"),
            &[(
                "{name: data, disk: {bus: virtio}}",
                "{name: data, persistentVolumeClaim: {claimName: data}}"
            )]
        )
    )
}

/// Logs in, and writes to the first disk.
pub(crate) fn write(console: &mut Serial) {
    let line = "echo kept-here | dd of=/dev/vda bs=512 seek=7 conv=sync,fsync 2>&1; echo writ''ten";
    console.log_in().types(line).says("written");
}

/// Logs in, and reads it.
pub(crate) fn reads(console: &mut Serial) {
    console.log_in().types("dd if=/dev/vda bs=512 skip=7 count=1 2>/dev/null").says("kept-here");
}

fn survives(mode: &str) {
    let Some(space) = Space::new(&mode.to_lowercase()) else { return };
    space.apply(&manifest(mode, "standard"));
    let mut console = space.console_when_ready("web");
    write(&mut console);
    let first = space.get("vmi/web", ".metadata.uid");
    // Its pod goes, as with a node that is drained: the strategy begins it again.
    let pod = space.pod_of("web");
    space.run(&["delete", "pod", &pod]);
    space.another("vmi/web", &first);
    let mut console = space.console_when_ready("web");
    reads(&mut console);
}

#[test]
fn a_claim_with_a_file_system() {
    survives("Filesystem");
}

#[test]
fn a_claim_that_is_a_device() {
    survives("Block");
}
