//! Two processes with a root and mount namespace of their own, like containers.

use super::*;
use crate::pod::played::{Container, may_mount};
use std::fs;

#[test]
fn a_file_of_one_container_is_seen_in_another_and_nowhere_else() {
    if !may_mount() {
        return; // namespaces of mounts are root's
    }
    let image = Container::new("");
    fs::create_dir(image.place.path().join("disk")).unwrap();
    fs::write(image.place.path().join("disk/os.img"), "the disk\n").unwrap();
    let compute = Container::new("");
    let root = compute.root();
    root.folder("disks").unwrap().create("disk_0.img").unwrap();

    let from = image.process();
    let source = from.image().unwrap().held("disk/os.img").unwrap();
    let target = root.held("disks/disk_0.img").unwrap();
    show(&source, &from, &target, &compute.process(), Access::Read).unwrap();
    assert_eq!(compute.run("/busybox cat /disks/disk_0.img"), "the disk\n");
    assert!(compute.run("echo x >/disks/disk_0.img").contains("Read-only file system"));
    assert!(root.held("disks/disk_0.img").unwrap().is(&source), "it is seen that it is there already");
    // The node sees the empty file, and no mount.
    assert_eq!(fs::read_to_string(compute.place.path().join("disks/disk_0.img")).unwrap(), "");
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains("disk_0.img"));
    // The image may be unmounted; readers of the disk continue.
    drop(image);
    assert_eq!(compute.run("/busybox cat /disks/disk_0.img"), "the disk\n");
}

#[test]
fn what_is_mounted_in_an_image_is_not_of_the_image() {
    if !may_mount() {
        return;
    }
    let image = Container::new("/busybox mount -t tmpfs none /disks && echo x >/disks/os.img &&");
    let root = image.process().image().unwrap();
    let said = root.held("disks/os.img").unwrap_err();
    assert!(said.to_string().contains("leads out"), "{said}");
    assert!(root.read("busybox").is_ok());
}

#[test]
fn a_target_in_another_container_than_said_is_not_mounted_on() {
    if !may_mount() {
        return;
    }
    let (image, compute, other) = (Container::new(""), Container::new(""), Container::new(""));
    let from = image.process();
    let source = from.image().unwrap().held("busybox").unwrap();
    compute.root().folder("disks").unwrap().create("disk_0.img").unwrap();
    let target = compute.root().held("disks/disk_0.img").unwrap();
    assert!(show(&source, &from, &target, &other.process(), Access::Read).is_err());
}
