//! Disks that a live migration copies here.

use super::*;
use rustix::fs::{FlockOperation, fcntl_lock};

/// libvirt copies a disk of a live migration into one that is as large.
#[test]
fn a_disk_that_a_migration_copies_here_is_as_large_as_at_its_source() {
    if !is_root() {
        return; // only root may give files away
    }
    let info = json!({"claimName": "pvc", "capacity": {"storage": "64Mi"}});
    let vmi = |size: Value, destination: &str| {
        let object = json!({
            "metadata": {"name": "a", "namespace": "test"},
            "spec": {
                "domain": {
                    "memory": {"guest": "128Mi"}, "firmware": {"uuid": UUID},
                    "devices": {"autoattachPodInterface": false, "disks": [{"name": "data", "disk": {"bus": "virtio"}}]},
                },
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "pvc"}}],
            },
            "status": {
                "volumeStatus": [{"name": "data", "target": "", "size": size, "persistentVolumeClaimInfo": info}],
                "migratedVolumes": [{"volumeName": "data", "sourcePVCInfo": {"claimName": "old"},
                                     "destinationPVCInfo": {"claimName": destination}}],
            },
        });
        api::wire::read::<VirtualMachineInstance>(object).unwrap()
    };
    let mut pod = Pod::new();
    let disk = pod.data().join("disk.img");
    let length = || fs::metadata(&disk).unwrap();
    let said = pod.ready_of(&vmi(Value::Null, "pvc")).unwrap_err();
    assert!(said.chain().contains("has no size of the volume 'data'"), "{}", said.chain());
    for size in [(32 << 20) + 512, (33 << 20) + 512] {
        pod.ready_of(&vmi(json!(size), "pvc")).unwrap();
        assert_eq!((length().len(), length().blocks()), (size, 0));
    }
    // It is never made smaller: a guest may have it.
    pod.ready_of(&vmi(json!(1 << 20), "pvc")).unwrap();
    assert_eq!(length().len(), (33 << 20) + 512);
    // Before its guest has arrived, a PVC that the VM names loses the disk that it had. Another guest keeps its own.
    pod.receives = true;
    let used = fs::OpenOptions::new().write(true).open(&disk).unwrap();
    fcntl_lock(&used, FlockOperation::NonBlockingLockExclusive).unwrap();
    let said = pod.ready_of(&vmi(json!(1 << 20), "pvc")).unwrap_err().chain();
    assert!(said.contains("is the disk of another VMI on this node"), "{said}");
    assert_eq!(length().len(), (33 << 20) + 512);
    drop(used);
    pod.ready_of(&vmi(json!(1 << 20), "pvc")).unwrap();
    assert_eq!(length().len(), 1 << 20);
    pod.receives = false;
    // The disk of the source is its own.
    pod.ready_of(&vmi(json!(1 << 20), "another")).unwrap();
    assert!(length().len() > 34 << 20, "it grows with its claim");
}

/// Of a PVC whose access modes promise more than its storage keeps: the guest would go on over an empty disk.
#[test]
fn a_guest_that_migrates_here_finds_the_disk_of_its_source_or_does_not_come() {
    if !is_root() {
        return; // only root may give files away
    }
    let info = json!({"claimName": "pvc", "capacity": {"storage": "64Mi"}});
    let vmi = |size: Value| {
        let object = json!({
            "metadata": {"name": "a", "namespace": "test"},
            "spec": {
                "domain": {
                    "memory": {"guest": "128Mi"}, "firmware": {"uuid": UUID},
                    "devices": {"autoattachPodInterface": false, "disks": [{"name": "data", "disk": {"bus": "virtio"}}]},
                },
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "pvc"}}],
            },
            "status": {"volumeStatus": [
                {"name": "data", "target": "vda", "size": size, "persistentVolumeClaimInfo": info},
            ]},
        });
        api::wire::read::<VirtualMachineInstance>(object).unwrap()
    };
    let mut pod = Pod::new();
    pod.receives = true;
    let said = |pod: &Pod, size: Value| pod.ready_of(&vmi(size)).unwrap_err().chain();
    let refused = said(&pod, Value::Null);
    assert!(refused.contains("there is no disk.img: the claim pvc is not the same storage"), "{refused}");
    assert!(!pod.data().join("disk.img").exists(), "none is made");
    let file = fs::File::create(pod.data().join("disk.img")).unwrap();
    file.set_len(1 << 20).unwrap();
    let refused = said(&pod, json!(2 << 20));
    assert!(refused.contains("disk.img has 1048576 bytes, and 2097152 at the source"), "{refused}");
    for size in [Value::Null, json!(1 << 20)] {
        pod.ready_of(&vmi(size)).unwrap();
    }
    assert_eq!(file.metadata().unwrap().len(), 1 << 20, "it is not grown beside its source");
    pod.receives = false;
    pod.ready_of(&vmi(Value::Null)).unwrap();
    assert!(file.metadata().unwrap().len() > 1 << 20, "a start grows it");
}
