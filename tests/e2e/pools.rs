//! As many VMs of one template as are wanted.

use crate::imports::disk;
use crate::trust::{Bearer, refused};
use tests::cluster::{Space, until};

fn pool(replicas: u32) -> String {
    let vm = crate::tiny("x", "Always");
    let spec = vm.split_once("\nspec:\n").unwrap().1.replace("256Mi", "128Mi");
    let spec: String = spec.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "
apiVersion: pool.kubevirt.io/v1beta1
kind: VirtualMachinePool
metadata: {{name: many}}
spec:
  replicas: {replicas}
  maxUnavailable: 1
  selector: {{matchLabels: {{app: many}}}}
  scaleInStrategy: {{proactive: {{selectionPolicy: {{sortPolicy: DescendingOrder}}}}}}
  virtualMachineTemplate:
    metadata: {{labels: {{app: many}}}}
    spec:
{spec}"
    )
}

#[test]
fn a_pool_is_scaled_updated_and_ended() {
    let Some(space) = Space::new("pools") else { return };
    space.apply(&pool(1));
    space.says("vmpool/many", ".status.readyReplicas", "1");
    assert_eq!(
        space.run(&["get", "vmpool", "many", "--subresource=scale", "-o", "jsonpath={.status.selector}"]),
        "app=many"
    );
    space.run(&["scale", "vmpool/many", "--replicas=2"]);
    space.says("vmpool/many", ".status.readyReplicas", "2");
    // Another template: both run it, one after the other.
    space.apply(&pool(2).replace("128Mi", "144Mi"));
    for number in 0..2 {
        space.says(&format!("vmi/many-{number}"), ".spec.domain.resources.requests.memory", "144Mi");
    }
    space.says("vmpool/many", ".status.readyReplicas", "2");
    space.run(&["scale", "vmpool/many", "--replicas=1"]);
    let names = || space.run(&["get", "vm", "-l", "app=many", "-o", "name"]);
    until(|| names().trim() == "virtualmachine.kubevirt.io/many-0", names);
    space.run(&["delete", "vmpool", "many"]);
    space.gone("vm");
    space.gone("pod");
}

#[test]
fn a_pool_is_refused_where_it_is_wrong() {
    let Some(space) = Space::new("pools-wrong") else { return };
    for (wrong, with, said) in [
        (
            "selector: {matchLabels: {app: many}}",
            "selector: {matchLabels: {app: few}}",
            "selector does not match labels.",
        ),
        (
            "sortPolicy: DescendingOrder",
            "sortPolicy: Best",
            "sortPolicy is set with an unrecognized option: Best",
        ),
    ] {
        let told = space.try_apply(&pool(1).replace(wrong, with));
        assert!(told.code != 0 && told.err.contains(said), "{}", told.err);
    }
}

/// A pool whose VMs have a disk, and which keeps it.
fn with_disk(replicas: u32) -> String {
    let template = "dataVolumeTemplates: [{metadata: {name: data}, spec: {source: {blank: {}}, storage: {resources: {requests: {storage: \
                    16Mi}}}}}]";
    let pool = pool(replicas)
        .replace("selectionPolicy:", "statePreservation: Offline, selectionPolicy:")
        .replacen("    spec:\n", &format!("    spec:\n      {template}\n"), 1);
    let devices = "            devices:\n";
    let disks = "              disks: [{name: data, disk: {bus: virtio}}]\n";
    let volumes = "          volumes: [{name: data, dataVolume: {name: data}}]\n";
    let networks = "          networks:\n";
    assert!(pool.contains(devices) && pool.contains(networks), "{pool}");
    pool.replace(devices, &format!("{devices}{disks}")).replace(networks, &format!("{volumes}{networks}"))
}

#[test]
fn a_vm_that_comes_back_into_a_pool_has_its_disk_again() {
    let Some(space) = Space::new("pools-disks") else { return };
    space.apply(&with_disk(1));
    space.says("vmpool/many", ".status.readyReplicas", "1");
    let uid = |object: &str| space.get(object, ".metadata.uid");
    let (vm, data, claim) = (uid("vm/many-0"), uid("dv/data-0"), uid("pvc/data-0"));
    let computer = || space.get("vm/many-0", ".spec.template.spec.domain.firmware.uuid");
    let known = computer();
    space.run(&["scale", "vmpool/many", "--replicas=0"]);
    space.gone("vm");
    space.gone("pod");
    assert_eq!(space.get("dv/data-0", ".metadata.ownerReferences"), "");
    space.run(&["scale", "vmpool/many", "--replicas=1"]);
    space.says("vmpool/many", ".status.readyReplicas", "1");
    assert_ne!(uid("vm/many-0"), vm, "another VM");
    assert_eq!((uid("dv/data-0"), uid("pvc/data-0"), computer()), (data, claim, known), "and the same disk");
}

/// An owner that is added would have a disk deleted, and one that is taken out is a VM.
#[test]
fn a_stolen_token_of_virt_controller_takes_only_vms_out_of_the_owners_of_a_disk() {
    let Some(space) = Space::new("pools-owners") else { return };
    let thief = Bearer::of(&space, "kubevirt-controller", &[]);
    space.apply(&crate::tiny("theirs", "Halted"));
    let owner = |object: &str, version: &str, kind: &str, name: &str| {
        let uid = space.get(object, ".metadata.uid");
        format!(r#"{{"apiVersion":"{version}","kind":"{kind}","name":"{name}","uid":"{uid}"}}"#)
    };
    let vm = owner("vm/theirs", "kubevirt.io/v1", "VirtualMachine", "theirs");
    let map = owner("configmap/kube-root-ca.crt", "v1", "ConfigMap", "kube-root-ca.crt");
    let owned = |owners: &[&str]| format!(r#"{{"metadata":{{"ownerReferences":[{}]}}}}"#, owners.join(","));
    space.apply(&disk("data", "{blank: {}}", "16Mi", ""));
    let said = "takes VMs out of its owners";
    refused(&thief.patches("datavolume/data", &owned(&[&vm])), said);
    space.run(&["patch", "dv", "data", "--type=merge", "-p", &owned(&[&map, &vm])]);
    refused(&thief.patches("datavolume/data", &owned(&[&vm])), said);
    refused(&thief.patches("datavolume/data", r#"{"spec":{"contentType":"archive"}}"#), said);
    thief.patches("datavolume/data", &owned(&[&map])).ok();
    let claim = format!(
        "{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: persistent-state-for-theirs, ownerReferences: [{map}, \
         {vm}]}}, spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Mi}}}}}}}}"
    );
    space.apply(&claim);
    space.apply(&claim.replace("persistent-state-for-theirs", "other"));
    let said = "it changes no other owner";
    refused(&thief.patches("pvc/persistent-state-for-theirs", &owned(&[&vm])), said);
    refused(&thief.patches("pvc/other", &owned(&[&map])), said);
    thief.patches("pvc/persistent-state-for-theirs", &owned(&[&map])).ok();
}
