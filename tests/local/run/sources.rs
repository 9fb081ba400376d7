//! Disks out of a registry, out of the web, under an overlay; datagrams through a forward; a seed that really runs.

use super::{Laptop, free_port, until};
use std::net::UdpSocket;
use tests::nginx::{Nginx, Serve};
use tests::registry::Registry;

/// A VM with a disk from a registry and a PVC under an overlay. Its seed adds up the one, writes to the other,
/// and says on the console that datagrams came.
fn manifest(image: &str) -> String {
    format!(
        "apiVersion: kubevirt.io/v1
kind: VirtualMachine
metadata: {{name: disks}}
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
          - {{name: registry, disk: {{bus: virtio}}}}
          - {{name: over, disk: {{bus: virtio}}}}
          - {{name: seed, cdrom: {{bus: sata}}}}
          interfaces: [{{name: default, masquerade: {{}}}}]
      networks: [{{name: default, pod: {{}}}}]
      volumes:
      - name: registry
        dataVolume: {{name: disks-registry}}
      - name: over
        ephemeral: {{persistentVolumeClaim: {{claimName: disks-claim}}}}
      - name: seed
        cloudInitConfigDrive:
          userData: |
            #!/bin/sh
            head -c 9437184 /dev/vda | sha256sum
            echo \"before: $(head -c 7 /dev/vdb | tr -d '\\0')\"
            echo written >/dev/vdb && sync
            echo \"after: $(head -c 7 /dev/vdb)\"
            echo waiting
            refused() {{ grep '^Udp: [0-9]' /proc/net/snmp | cut -d' ' -f3; }}
            while [ $(refused) -lt 5 ]; do sleep 1; done
            echo datagrams came
  dataVolumeTemplates:
  - metadata: {{name: disks-registry}}
    spec:
      storage: {{resources: {{requests: {{storage: 16Mi}}}}}}
      source: {{registry: {{url: '{image}'}}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: disks-claim}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Mi}}}}}}
"
    )
}

#[test]
fn a_guest_finds_its_disks_and_its_seed_and_hears_datagrams() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let (place, registry) = (&laptop.place, Registry::start());
    tests::disk::raw_disk(&place.path("disk.raw"), 9 << 20, 11);
    place.qcow2("disk.qcow2", "");
    let image = format!("docker://{}/group/os:1", registry.address());
    laptop.run(&["build", "-q", "-t", &image, "disk.qcow2"]).ok();
    std::fs::write(place.path("vm.yaml"), manifest(&image)).unwrap();
    let port = free_port();
    let forward = format!("{port}:9/udp");
    let run = ["run", "-d", "-q", "vm.yaml", "--accel", "emulation", "-p", &forward];
    laptop.run(&run).ok();
    laptop.says("disks", "waiting");
    let sum = String::from_utf8(place.shell("sha256sum <disk.raw")).unwrap();
    let log = laptop.log("disks");
    for line in [sum.split(' ').next().unwrap(), "before: \r\n", "after: written"] {
        assert!(log.contains(line), "{line:?} is not in: {log}");
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let heard = || {
        // No program listens in the guest, but its kernel counts the refused datagrams.
        socket.send_to(b"a datagram\n", ("127.0.0.1", port)).unwrap();
        laptop.log("disks").contains("datagrams came")
    };
    until(heard, || laptop.log("disks"));
    laptop.run(&["rm", "-f", "disks"]).ok();

    // Writes to the overlay are lost; the disk of the registry is kept, and used without the registry.
    let claim = std::fs::read(place.path("h/data/pool/disks-claim/disk.img")).unwrap();
    assert!(claim.iter().all(|byte| *byte == 0), "the claim was written to");
    drop(registry);
    laptop.run(&run).ok();
    laptop.says("disks", "waiting");
    assert!(laptop.log("disks").contains("before: \r\n"), "{}", laptop.log("disks"));
    laptop.run(&["rm", "-f", "disks"]).ok();
    laptop.is_empty();
}

#[test]
fn a_disk_from_the_web_is_brought_once() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let place = &laptop.place;
    tests::disk::raw_disk(&place.path("disk.raw"), 3 << 20, 5);
    place.qcow2("disk.qcow2", "");
    let server = Nginx::start(&Serve::default());
    let url = server.link("disk.qcow2", &place.path("disk.qcow2"));
    let run = ["run", "-d", "-q", &url, "--memory", "128M", "--accel", "emulation"];
    let name = String::from_utf8(laptop.run(&run).ok().out).unwrap();
    assert_eq!(name, "disk\n");
    assert_eq!(laptop.status("disk")["state"], "Running");
    laptop.run(&["rm", "-f", "disk"]).ok();
    let kept = place.shell("find h/data/pool -name disk.img");
    let kept = String::from_utf8(kept).unwrap();
    assert_eq!(kept.lines().count(), 1, "{kept}");
    let mut disk = place.bytes(kept.trim());
    disk.truncate(3 << 20);
    assert!(disk == place.bytes("disk.raw"), "the disk is not what the server has");
    drop(server);
    laptop.run(&run).ok();
    laptop.run(&["rm", "-f", "disk"]).ok();
    laptop.is_empty();
}
