//! Files of volumes in a guest: mounted by virtiofs, and as small ISO images.

use crate::{tiny, with_disks};
use tests::cluster::Space;

/// A PVC, a secret, and a VM that mounts both.
fn sharing() -> String {
    let vm = with_disks(&tiny("web", "Always"), &[]).replace("          disks:\n", "");
    let devices = "        devices:
          filesystems:
          - {name: files, virtiofs: {}}
          - {name: keys, virtiofs: {}}
          sound: {name: card}
";
    let volumes = "      volumes:
      - {name: files, persistentVolumeClaim: {claimName: files}}
      - {name: keys, secret: {secretName: keys}}
";
    format!(
        "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: files}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: standard
  resources: {{requests: {{storage: 64Mi}}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: keys}}
stringData: {{word: sesame}}
---{}",
        vm.replace("        devices:\n", devices).replace("      volumes:\n", volumes)
    )
}

#[test]
fn a_guest_mounts_a_claim_and_a_secret() {
    let Some(space) = Space::new("shares") else { return };
    space.apply(&sharing());
    let mut console = space.console_when_ready("web");
    console
        .log_in()
        .types("mkdir /files /keys; mount -t virtiofs keys /keys && cat /keys/word")
        .says("sesame");
    console.types("mount -t virtiofs files /files && echo kept-here > /files/word && sync && echo writ''ten");
    console.says("written");
    // Only a claim that is not read-only is written to.
    console.types("touch /keys/more || echo re''fused").says("refused");
    // What is kept is on the claim, and not in the guest: another run of the VM has it.
    let first = space.get("vmi/web", ".metadata.uid");
    space.run(&["delete", "pod", &space.pod_of("web")]);
    space.another("vmi/web", &first);
    let mut console = space.console_when_ready("web");
    console
        .log_in()
        .types("mkdir /files; mount -t virtiofs files /files && cat /files/word")
        .says("kept-here");
    // A file belongs to the launcher's user, whoever wrote it in the guest.
    console.types("stat -c owner-%u /files/word").says("owner-107");
    // The sound card is there (the class of HD audio).
    console.types("grep -q 0x0403 /sys/bus/pci/devices/*/class && echo a-so''und-card").says("a-sound-card");
    // The containers that serve files end with the VMI.
    space.run(&["delete", "vm", "web"]);
    space.gone("vmi/web");
    space.gone("pod");
}

#[test]
fn a_guest_reads_labels_and_the_token_of_a_service_account() {
    let Some(space) = Space::new("facts") else { return };
    let vm = with_disks(
        &tiny("web", "Always"),
        &[
            (
                "{name: facts, disk: {bus: virtio}}",
                "{name: facts, downwardAPI: {fields: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}",
            ),
            (
                "{name: account, disk: {bus: virtio}}",
                "{name: account, serviceAccount: {serviceAccountName: default}}",
            ),
        ],
    );
    space.apply(&vm);
    let mut console = space.console_when_ready("web");
    console.log_in().types("mkdir /facts /account; mount -t iso9660 -r /dev/vda /facts && cat /facts/labels");
    console.says("kubevirt.io=\"virt-launcher\"");
    // A JSON Web Token begins so, whatever it says.
    console.types("mount -t iso9660 -r /dev/vdb /account && head -c 3 /account/token && echo -begins");
    console.says("eyJ-begins");
    console.types(&format!("grep -qx {} /account/namespace && echo own-''namespace", space.name));
    console.says("own-namespace");
    console.types("grep -c BEGIN /account/ca.crt && echo author''ities").says("authorities");
}
