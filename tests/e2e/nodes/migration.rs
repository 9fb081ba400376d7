//! A running VM goes from node to node: its guest counts on, in its memory and on its disk.

use super::{AWAY, PLACE, Whole, on_two_nodes, running};
use crate::{tiny, with_disks, with_spec};
use std::process::Stdio;
use tests::cluster::{Space, until};
use tests::serial::Serial;

/// The guest counts, on its console and its disk.
pub(super) const COUNTS: &str = "i=0; while :; do i=$((i+1)); echo \"$i is kept\" | dd of=/dev/vda bs=512 conv=sync,notrunc,fsync 2>/dev/null; \
    echo \"at $i.\"; sleep 0.2; done";

/// A VM with a disk of its own, whose guest counts.
fn counting(story: &str, lines: &str) -> Option<(Space, Serial)> {
    counting_on(story, lines, "emptyDisk: {capacity: 64Mi}", "")
}

/// The same with a disk on another volume, which these objects provide.
pub(crate) fn counting_on(story: &str, lines: &str, volume: &str, objects: &str) -> Option<(Space, Serial)> {
    let space = on_two_nodes(story)?;
    space.apply(&format!("{objects}{}", counting_vm(lines, volume)));
    let mut console = space.console_when_ready("web");
    console.log_in().types(COUNTS).says("at 3.");
    space.has("vmi/web", "LiveMigratable", "True");
    Some((space, console))
}

fn counting_vm(lines: &str, volume: &str) -> String {
    let volume = format!("{{name: data, {volume}}}");
    let disk = ("{name: data, disk: {bus: virtio}}", volume.as_str());
    with_spec(&with_disks(&tiny("web", "Always"), &[disk]), lines)
}

/// A PVC that one node can use at a time.
pub(crate) const CLAIM: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: standard
  resources: {requests: {storage: 64Mi}}
---";

/// The disk goes along into a new PVC, whose name the VM gets without a restart. A tool that writes the old name back is answered, and
/// the VM does not start on the old disk.
#[test]
fn a_vm_takes_the_disk_of_its_pvc_along() {
    let volume = "persistentVolumeClaim: {claimName: data}";
    let Some((space, mut console)) = counting_on("along", "", volume, CLAIM) else { return };
    let uid = space.get("vmi/web", ".metadata.uid");
    let claims = || {
        let of = |object: &str, spec: &str| {
            space.get(
                object,
                &format!(".spec{spec}.volumes[?(@.name=='data')].persistentVolumeClaim.claimName"),
            )
        };
        [of("vmi/web", ""), of("vm/web", ".template.spec")]
    };
    let told = |kind: &str| space.get("vm/web", &format!(".status.conditions[?(@.type=='{kind}')].status"));
    let note = |claim: &str, name: &str| {
        space.get(&format!("pvc/{claim}"), &format!(".metadata.annotations.coracle\\.io/{name}"))
    };
    let mut last = "data".to_owned();
    for hop in ["first", "second"] {
        let from = space.get("vmi/web", ".status.nodeName");
        space.apply(&migration(hop));
        ends_as(&space, hop, "Succeeded");
        assert_ne!(space.get("vmi/web", ".status.nodeName"), from);
        until(
            || claims()[0] == claims()[1],
            || format!("the VM has another PVC than its VMI: {:?}", claims()),
        );
        let [new, _] = claims();
        assert!(new != last && new.starts_with("data-moved-"), "{new} after {last}");
        assert_eq!((note(&last, "moved-to"), note(&last, "moving-to")), (new.clone(), String::new()));
        assert_eq!(note(&new, "moved-from"), last);
        console = console_there(&space);
        counts_on(&console);
        last = new;
    }
    assert_eq!((space.get("vmi/web", ".metadata.uid"), told("RestartRequired")), (uid, String::new()));
    console.keys_are(b"\x03");
    console.says("/root #");
    let shown = numbers(&console.text()).into_iter().max().unwrap();
    let kept = console.runs("dd if=/dev/vda bs=512 count=1 2>/dev/null | head -n 1");
    let kept: u64 = kept.trim().strip_suffix(" is kept").unwrap_or(&kept).parse().unwrap();
    assert!(kept == shown || kept == shown + 1, "the disk has {kept}, the console {shown}");
    // The migrations and their PVCs do not go together.
    space.run(&["delete", "vmim", "first", "second", "--timeout=100s"]);
    // GitOps.
    space.apply(&counting_vm("", volume));
    space.says("vm/web", ".status.conditions[?(@.type=='ManualRecoveryRequired')].status", "True");
    console.power_off();
    let pods = || space.run(&["get", "pods", "-o", "name"]);
    until(|| pods().is_empty(), || format!("it runs in {}", pods()));
    std::thread::sleep(std::time::Duration::from_secs(5));
    assert_eq!(pods(), "", "it was started on the old disk");
    space.apply(&counting_vm("", &format!("persistentVolumeClaim: {{claimName: {last}}}")));
    let mut console = space.console_when_ready("web");
    console.log_in();
    let again = console.runs("dd if=/dev/vda bs=512 count=1 2>/dev/null | head -n 1");
    assert_eq!(again.trim(), format!("{kept} is kept"));
    assert_eq!(told("ManualRecoveryRequired"), "");
    console.power_off();
}

/// The same with a block device in place of a file system.
#[test]
fn a_vm_takes_the_device_of_its_pvc_along() {
    let claim = CLAIM.replace("spec:\n", "spec:\n  volumeMode: Block\n");
    let volume = "persistentVolumeClaim: {claimName: data}";
    let Some((space, mut console)) = counting_on("device", "", volume, &claim) else { return };
    for hop in ["first", "second"] {
        let from = space.get("vmi/web", ".status.nodeName");
        space.apply(&migration(hop));
        ends_as(&space, hop, "Succeeded");
        assert_ne!(space.get("vmi/web", ".status.nodeName"), from);
        console = console_there(&space);
        counts_on(&console);
    }
    let new = space.get("vmi/web", ".spec.volumes[?(@.name=='data')].persistentVolumeClaim.claimName");
    assert!(new.starts_with("data-moved-"), "{new}");
    assert_eq!(space.get(&format!("pvc/{new}"), ".spec.volumeMode"), "Block");
    console.keys_are(b"\x03");
    console.says("/root #");
    let shown = numbers(&console.text()).into_iter().max().unwrap();
    let kept = console.runs("dd if=/dev/vda bs=512 count=1 2>/dev/null | head -n 1");
    let kept: u64 = kept.trim().strip_suffix(" is kept").unwrap_or(&kept).parse().unwrap();
    assert!(kept == shown || kept == shown + 1, "the disk has {kept}, the console {shown}");
    console.power_off();
}

#[test]
fn a_vm_migrates_to_and_fro_and_its_guest_counts_on() {
    let Some((space, mut console)) = counting("hops", "") else { return };
    let uid = space.get("vmi/web", ".metadata.uid");
    let mut last = 3;
    for hop in ["first", "second"] {
        let from = space.get("vmi/web", ".status.nodeName");
        space.apply(&migration(hop));
        ends_as(&space, hop, "Succeeded");
        let to = space.get("vmi/web", ".status.nodeName");
        assert!(from != to && running(&space) == [to.as_str()], "{from} to {to}: {:?}", running(&space));
        assert_eq!(space.get("vmi/web", ".metadata.uid"), uid, "it is the same VMI");
        last = numbers(&console.text()).into_iter().max().unwrap_or(last);
        console = console_there(&space);
        console.says(&format!("at {}.", last + 10));
    }
    console.keys_are(b"\x03");
    console.says("/root #");
    let shown = numbers(&console.text()).into_iter().max().unwrap();
    let kept = console.runs("dd if=/dev/vda bs=512 count=1 2>/dev/null | head -n 1");
    let kept: u64 = kept.trim().strip_suffix(" is kept").unwrap_or(&kept).parse().unwrap();
    assert!(kept == shown || kept == shown + 1, "the disk has {kept}, the console {shown}");
    space.has("vmi/web", "Ready", "True");
    // The logs of all its pods have each number, once.
    let pods = space.run(&["get", "pods", "-l", "vm.kubevirt.io/name=web", "-o", "name"]);
    let logs = pods.lines().map(|pod| space.run(&["logs", pod, "-c", "guest-console-log"]));
    let mut all = numbers(&logs.collect::<Vec<_>>().join("\n"));
    all.sort_unstable();
    assert!(all.windows(2).all(|two| two[1] == two[0] + 1), "a number is missing or doubled: {all:?}");
    console.power_off();
}

/// A drain moves a VM that can migrate: its guest is not shut down.
#[test]
fn a_drain_moves_a_vm_that_can_migrate() {
    let lines = format!("{PLACE}      evictionStrategy: LiveMigrate\n");
    let Some((space, _console)) = counting("moved", &lines) else { return };
    let _again = Whole(&space);
    assert_eq!(space.get("vmi/web", ".status.nodeName"), AWAY);
    let uid = space.get("vmi/web", ".metadata.uid");
    let words = ["drain", AWAY, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=170s"];
    let mut drain = space.cluster.kubectl(&words).stdout(Stdio::null()).spawn().unwrap();
    space.says("vmi/web", ".status.nodeName", "node1");
    assert!(drain.wait().unwrap().success());
    assert_eq!(space.get("vmi/web", ".metadata.uid"), uid, "it is the same VMI");
    assert_eq!(running(&space), ["node1"]);
    let leaves = || space.get("vmi/web", ".status.evacuationNodeName");
    until(|| leaves().is_empty(), || format!("it must still leave {}", leaves()));
    counts_on(&console_there(&space));
}

/// A migration that is cancelled while the guest is copied leaves the guest where it is. It is so slow by a policy.
#[test]
fn a_cancelled_migration_leaves_the_guest_where_it_is() {
    let Some((space, console)) = counting("cancelled", "") else { return };
    let node = space.get("vmi/web", ".status.nodeName");
    // So slow that it does not end by itself. The other policy selects another namespace.
    let _slow = Policy::new(&space, "slow", &space.name, "1Mi");
    let _other = Policy::new(&space, "other", "kube-system", "2Mi");
    space.apply(&migration("slow"));
    space.says("vmim/slow", ".status.phase", "Running");
    let printable = space.get("vm/web", ".status.printableStatus");
    assert_eq!(printable, "Migrating");
    let state = |field: &str| space.get("vmi/web", &format!(".status.migrationState.{field}"));
    let settings = ["bandwidthPerMigration", "allowWorkloadDisruption", "completionTimeoutPerGiB"];
    let settings = settings.map(|field| state(&format!("migrationConfiguration.{field}")));
    assert_eq!(settings, ["1Mi", "true", "3600"]);
    assert_eq!(state("migrationPolicyName"), format!("{}-slow", space.name));
    space.run(&["delete", "vmim", "slow", "--timeout=100s"]);
    assert_eq!((state("failed"), state("abortStatus")), ("true".to_owned(), "Succeeded".to_owned()));
    assert_eq!(state("failureReason"), "Live migration has been aborted");
    assert_eq!(space.get("vmi/web", ".status.nodeName"), node);
    until(|| running(&space) == [node.as_str()], || format!("QEMU runs on {:?}", running(&space)));
    counts_on(&console);
}

/// A MigrationPolicy for a namespace, until the end of the story.
pub(super) struct Policy<'a> {
    space: &'a Space,
    name: String,
}

impl Policy<'_> {
    /// A policy by which migrations are slow, and are not given up.
    pub(super) fn new<'a>(space: &'a Space, name: &str, namespace: &str, rate: &str) -> Policy<'a> {
        let slow =
            format!("bandwidthPerMigration: {rate}, completionTimeoutPerGiB: 3600, allowPostCopy: true");
        Policy::with(space, name, namespace, &slow)
    }

    /// `limits`: fields of its spec, with commas.
    pub(super) fn with<'a>(space: &'a Space, name: &str, namespace: &str, limits: &str) -> Policy<'a> {
        let name = format!("{}-{name}", space.name);
        space.apply(&format!(
            "
apiVersion: migrations.kubevirt.io/v1alpha1
kind: MigrationPolicy
metadata: {{name: {name}}}
spec: {{selectors: {{namespaceSelector: {{kubernetes.io/metadata.name: {namespace}}}}}, {limits}}}
"
        ));
        Policy { space, name }
    }
}

impl Drop for Policy<'_> {
    fn drop(&mut self) {
        self.space.cluster.run(&["delete", "migrationpolicy", &self.name]);
    }
}

/// The guest shows further numbers.
#[track_caller]
pub(crate) fn counts_on(console: &Serial) {
    let before = numbers(&console.text()).len();
    until(|| numbers(&console.text()).len() >= before + 10, || format!("no numbers: {}", console.text()));
}

/// The console of a VM that has migrated, once the source's pod has ended.
#[track_caller]
pub(crate) fn console_there(space: &Space) -> Serial {
    until(|| !space.pod_of("web").contains(' '), || format!("two pods: {}", space.pod_of("web")));
    space.console("web")
}

pub(crate) fn migration(name: &str) -> String {
    format!(
        "
apiVersion: kubevirt.io/v1
kind: VirtualMachineInstanceMigration
metadata: {{name: {name}}}
spec: {{vmiName: web}}
"
    )
}

/// Waits for the end of a migration.
#[track_caller]
pub(crate) fn ends_as(space: &Space, migration: &str, phase: &str) {
    let object = format!("vmim/{migration}");
    let told = || space.get(&object, ".status.phase");
    until(
        || ["Succeeded", "Failed"].contains(&told().as_str()),
        || format!("{migration} is {}: {}", told(), space.get("vmi/web", ".status.migrationState")),
    );
    assert_eq!(told(), phase, "{}", space.get("vmi/web", ".status.migrationState"));
}

/// The numbers that the guest has shown.
fn numbers(text: &str) -> Vec<u64> {
    let shown = text.split("at ").skip(1).filter_map(|rest| rest.split_once('.')?.0.parse().ok());
    shown.collect()
}
