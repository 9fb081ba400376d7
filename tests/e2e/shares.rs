//! Files of volumes in a guest: mounted by virtiofs, and as small ISO images.

use crate::{tiny, with_disks};
use tests::cluster::{Space, until};

/// The Role and the RoleBinding by which the guide opens a service account to VMIs, for this account.
pub(crate) fn opening(account: &str) -> String {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/how-to/storage.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    let mut blocks = guide.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let example = blocks.find(|block| block.contains("kind: RoleBinding")).unwrap();
    assert!(example.contains("resourceNames: [builder]"), "{example}");
    example.replace("resourceNames: [builder]", &format!("resourceNames: [{account}]"))
}

/// What puts a folder into all containers of the pods of this namespace, as webhooks of others do.
fn injection(space: &Space) -> String {
    let name = &space.name;
    format!(
        "
apiVersion: v1
kind: ConfigMap
metadata: {{name: injected}}
data: {{word: by-others}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: {name}}}
spec:
  matchConstraints:
    namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {name}}}}}
    resourceRules:
    - {{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [pods]}}
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        Object{{spec: Object.spec{{
          volumes: [Object.spec.volumes{{
            name: 'injected', configMap: Object.spec.volumes.configMap{{name: 'injected'}}
          }}],
          containers: object.spec.containers.map(container, Object.spec.containers{{
            name: container.name,
            volumeMounts: [Object.spec.containers.volumeMounts{{name: 'injected', mountPath: '/injected'}}]
          }})
        }}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: {name}}}
spec: {{policyName: {name}}}
"
    )
}

/// Waits until the API server puts it into new pods.
fn injects(space: &Space) {
    let of = "jsonpath={.spec.containers[0].volumeMounts[*].mountPath}";
    let pod = ["run", "try", "--image=registry:5000/busybox:1", "--dry-run=server", "-o", of];
    let made = || space.try_run(&pod);
    until(
        || String::from_utf8_lossy(&made().out).contains("/injected"),
        || format!("nothing is put into a pod: {:?}", made()),
    );
}

/// A PVC, a secret, and a VM that mounts both and a folder that others put into its pod.
fn sharing() -> String {
    let vm = with_disks(&tiny("web", "Always"), &[]).replace("          disks:\n", "");
    let devices = "        devices:
          filesystems:
          - {name: files, virtiofs: {}}
          - {name: keys, virtiofs: {}}
          - {name: injected, virtiofs: {}}
          sound: {name: card}
";
    let volumes = "      volumes:
      - {name: files, persistentVolumeClaim: {claimName: files}}
      - {name: keys, secret: {secretName: keys}}
      - {name: injected, containerPath: {path: /injected}}
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
fn a_guest_mounts_a_claim_a_secret_and_a_folder_of_its_pod() {
    let Some(space) = Space::new("shares") else { return };
    space.apply(&injection(&space));
    injects(&space);
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
    let injected = "mkdir /injected; mount -t virtiofs injected /injected && cat /injected/word; touch /injected/more || echo refused";
    let seen = console.runs(injected);
    assert!(seen.starts_with("by-others") && seen.ends_with("refused\n"), "{seen}");
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
    let policies = "mutatingadmissionpolicies,mutatingadmissionpolicybindings";
    space.run(&["delete", policies, &space.name]);
}

/// Nobody has put files there: the container that serves them ends, and the VMI does not wait for it.
#[test]
fn a_file_system_without_files_ends_its_vmi() {
    let Some(space) = Space::new("nofiles") else { return };
    let filesystem = "          filesystems:\n          - {name: files, virtiofs: {}}\n";
    let volume = "      volumes:\n      - {name: files, containerPath: {path: /nowhere}}\n";
    let vm = with_disks(&tiny("web", "Once"), &[]).replace("          disks:\n", filesystem);
    space.apply(&vm.replace("      volumes:\n", volume));
    space.says("vmi/web", ".status.phase", "Failed");
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
    // Nobody has opened the account yet: the VMI waits, and says what to do.
    space.apply(&vm);
    space.says("vmi/web", ".status.conditions[?(@.type==\"Synchronized\")].reason", "FailedCreate");
    let said = space.get("vmi/web", ".status.conditions[?(@.type==\"Synchronized\")].message");
    assert!(said.contains("make a Role in the namespace with the verb use on serviceaccounts"), "{said}");
    space.apply(&opening("default"));
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
