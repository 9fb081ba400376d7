//! Sources of a VM's disks, and the disks that are kept between its runs.

use super::Laptop;
use tests::nginx::{Nginx, Serve};

/// A VM with a disk of each kind; the guest prints the names of those that it finds.
fn manifest(url: &str, claim: &str) -> String {
    format!(
        "apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {{name: all}}
spec:
  runStrategy: Always
  template:
    spec:
      domain:
        memory: {{guest: 256Mi}}
        firmware:
          kernelBoot:
            kernelArgs: console=ttyS0 quiet
            container: {{image: \"tiny:1\", kernelPath: /boot/vmlinux, initrdPath: /boot/initrd}}
        devices:
          disks:
          - {{name: web, disk: {{bus: virtio}}}}
          - {{name: claim, disk: {{bus: virtio}}}}
          - {{name: blank, disk: {{bus: virtio}}}}
          - {{name: image, disk: {{bus: virtio}}}}
          - {{name: map, cdrom: {{bus: sata}}}}
          - {{name: seed, disk: {{bus: virtio}}}}
      volumes:
      - name: web
        dataVolume: {{name: all-web}}
      - name: claim
        persistentVolumeClaim: {{claimName: all-claim}}
      - name: blank
        dataVolume: {{name: all-blank}}
      - name: image
        containerDisk: {{image: \"os:1\"}}
      - name: map
        configMap: {{name: all-map}}
      - name: seed
        cloudInitNoCloud: {{secretRef: {{name: all-seed}}}}
  dataVolumeTemplates:
  - metadata: {{name: all-web}}
    spec:
      storage: {{resources: {{requests: {{storage: 16Mi}}}}}}
      source: {{http: {{url: '{url}'}}}}
  - metadata: {{name: all-blank}}
    spec:
      pvc: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 10M}}}}}}
      source: {{blank: {{}}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: all-claim}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: {claim}}}}}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: all-seed}}
stringData: {{userdata: \"#!/bin/sh\\necho the seed was run >/dev/console\\n\"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: all-map}}
data: {{a.conf: x=1}}
"
    )
}

#[test]
fn disks_come_from_everywhere_and_those_of_claims_are_kept() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let place = &laptop.place;
    tests::disk::raw_disk(&place.path("disk.raw"), 9 << 20, 7);
    place.qcow2("disk.qcow2", "");
    laptop.run(&["build", "-q", "-t", "os:1", "disk.qcow2"]).ok();
    let server = Nginx::start(&Serve::default());
    let url = server.link("disk.qcow2", &place.path("disk.qcow2"));
    std::fs::write(place.path("vm.yaml"), manifest(&url, "8Mi")).unwrap();
    let run = ["run", "-d", "-q", "vm.yaml", "--accel", "emulation"];
    laptop.run(&run).ok();
    laptop.says("all", "the seed was run");
    assert!(holds(&laptop, "all", "map", "x=1"));

    let pool = |claim: &str| place.path(&format!("h/data/pool/{claim}/disk.img"));
    let size = |claim: &str| std::fs::metadata(pool(claim)).unwrap().len();
    assert_eq!((size("all-web"), size("all-claim"), size("all-blank")), (16 << 20, 8 << 20, 10_002_432));
    let mut disk = std::fs::read(pool("all-web")).unwrap();
    disk.truncate(9 << 20);
    assert!(disk == place.bytes("disk.raw"), "the disk is not what the server has");

    // Another VM cannot have the same disks.
    let other = [&run[..], &["--name", "other"]].concat();
    laptop.run(&other).refused(3, "all-web is a disk of the VM all, and the VM other would write to it");
    laptop.run(&["rm", "-f", "all"]).ok();

    // Without the server: the existing disks are used again, and the PVC has grown.
    drop(server);
    std::fs::write(place.path("vm.yaml"), manifest(&url, "12Mi")).unwrap();
    laptop.run(&run).ok();
    assert_eq!(size("all-claim"), 12 << 20);
    laptop.run(&["rm", "-f", "all"]).ok();
    laptop.is_empty();
}

#[test]
fn a_disk_that_cannot_be_had_is_told_and_leaves_no_vm() {
    let Some(laptop) = Laptop::with_guest() else { return };
    std::fs::write(laptop.place.path("vm.yaml"), manifest("http://127.0.0.1:1/disk.qcow2", "8Mi")).unwrap();
    let ran = laptop.run(&["run", "-d", "-q", "vm.yaml", "--accel", "emulation"]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("http://127.0.0.1:1/disk.qcow2"), "{}", ran.err);
    laptop.is_empty();
}

#[test]
fn a_secret_is_for_nobody_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(laptop) = Laptop::with_guest() else { return };
    let long = format!("#!/bin/sh\n# {}\necho from a long seed >/dev/console\n", "x".repeat(3000));
    std::fs::write(laptop.place.path("seed"), long).unwrap();
    laptop.start("mine", &["--cloud-init", "seed"]);
    laptop.says("mine", "from a long seed");
    let mode = |path: &str| std::fs::metadata(laptop.place.path(path)).unwrap().permissions().mode() & 0o777;
    let secret = "h/state/vms/mine/secrets/secret-mine-cloudinit";
    assert_eq!((mode(secret), mode(&format!("{secret}/userdata"))), (0o700, 0o600));
    assert_eq!((mode("h/state/vms/mine/vm.json"), mode("h/run")), (0o600, 0o700));
}

/// True if an ISO image of a VM contains this text.
fn holds(laptop: &Laptop, vm: &str, image: &str, text: &str) -> bool {
    let bytes = laptop.place.bytes(&format!("h/state/vms/{vm}/root/seeds/{image}.iso"));
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Unpacked files of an image stay for the next run, and are removed when neither a VM nor the store needs
/// them.
#[test]
fn unpacked_disks_go_when_nobody_needs_them() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let place = &laptop.place;
    tests::disk::raw_disk(&place.path("disk.raw"), 3 << 20, 7);
    laptop.run(&["build", "-q", "-t", "os:1", "disk.raw"]).ok();
    laptop.start("kernel", &[]);
    let run = ["run", "-d", "-q", "os:1", "--memory", "128M", "--accel", "emulation", "--name", "disk"];
    laptop.run(&run).ok();
    let unpacked = || {
        let found = place.shell("find h/data/disks -type f ! -perm /222");
        String::from_utf8(found).unwrap().lines().count()
    };
    let before = unpacked();
    assert!(before >= 3, "{before}: a disk, a kernel, an initrd");
    laptop.run(&["rmi", "os:1", "tiny:1"]).ok();
    let pruned = laptop.run(&["prune", "--json"]).ok().json();
    assert_eq!(pruned["disks"], 0, "two VMs need them: {pruned}");
    assert_eq!(unpacked(), before);

    laptop.run(&["rm", "-f", "disk"]).ok();
    let pruned = laptop.run(&["prune", "--json"]).ok().json();
    assert!(pruned["disks"] == 1 && pruned["freed"].as_u64().unwrap() >= 1 << 20, "{pruned}");
    laptop.run(&["restart", "kernel"]).ok();
    laptop.run(&["rm", "-f", "kernel"]).ok();
    let pruned = laptop.run(&["prune"]).ok();
    assert!(String::from_utf8_lossy(&pruned.out).contains(" 2 disks removed"), "{pruned:?}");
    assert_eq!(unpacked(), 0);

    // Files of an image that the store has are kept.
    laptop.run(&["build", "-q", "-t", "os:1", "disk.raw"]).ok();
    laptop.run(&run).ok();
    laptop.run(&["rm", "-f", "disk"]).ok();
    assert_eq!(laptop.run(&["prune", "--json"]).ok().json()["disks"], 0);
    laptop.is_empty();
}

/// `restart` opened it as raw once: the guest saw the header of the image, and could write over it.
#[test]
fn an_image_in_the_place_of_a_raw_disk_is_for_a_new_run() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let place = &laptop.place;
    tests::disk::raw_disk(&place.path("disk.img"), 1 << 20, 7);
    tests::disk::raw_disk(&place.path("new.raw"), 1 << 20, 8);
    let more = ["--disk", "disk.img"];
    laptop.start("m", &more);
    laptop.run(&["kill", "m"]).ok();
    laptop.run(&["convert", "-q", "-O", "qcow2", "new.raw", "new.img"]).ok();
    std::fs::rename(place.path("new.img"), place.path("disk.img")).unwrap();
    for verb in ["start", "restart"] {
        laptop.run(&[verb, "m"]).refused(3, "disk.img was a raw disk at the last start of this VM");
    }
    laptop.start("m", &more);
    for verb in ["restart", "kill", "start"] {
        laptop.run(&[verb, "m"]).ok();
    }
    let record = std::fs::read_to_string(place.path("h/state/vms/m/vm.json")).unwrap();
    assert!(record.contains("\"format\": \"qcow2\""), "{record}");
    laptop.run(&["rm", "-f", "m"]).ok();
    laptop.is_empty();
}

/// `start` gave the guest a new empty disk once, where the storage of its own was away.
#[test]
fn a_start_makes_no_disk_in_the_place_of_a_missing_one() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let place = &laptop.place;
    laptop.start("m", &["--disk", "data.img:8M"]);
    laptop.run(&["kill", "m"]).ok();
    std::fs::rename(place.path("data.img"), place.path("away.img")).unwrap();
    for verb in ["start", "restart"] {
        laptop.run(&[verb, "m"]).refused(4, "data.img of this VM is not there");
    }
    assert!(!place.path("data.img").exists());
    std::fs::rename(place.path("away.img"), place.path("data.img")).unwrap();
    laptop.run(&["start", "m"]).ok();
    laptop.run(&["rm", "-f", "m"]).ok();
    laptop.is_empty();
}
