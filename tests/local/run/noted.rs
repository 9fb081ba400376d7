//! Disks that VMs have run with, where no record of this home says so.

use super::Laptop;
use std::os::unix::fs::FileExt as _;

/// First bytes of a qcow2 image of 1 MiB, as a guest may write them.
fn write_header(laptop: &Laptop, disk: &str) {
    laptop.place.shell("qemu-img create -q -f qcow2 header.qcow2 1M");
    let header = laptop.place.bytes("header.qcow2");
    let file = std::fs::File::options().write(true).open(laptop.place.path(disk)).unwrap();
    file.write_all_at(&header, 0).unwrap();
}

/// A conversion believed the header, and made a disk of 1 MiB.
#[test]
fn a_disk_is_raw_though_the_record_of_its_vm_is_damaged_or_in_another_home() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let place = &laptop.place;
    for disk in ["damaged.img", "elsewhere.img"] {
        tests::disk::raw_disk(&place.path(disk), 8 << 20, 7);
    }
    laptop.start("damaged", &["--disk", "damaged.img"]);
    laptop.run(&["kill", "damaged"]).ok();
    std::fs::write(place.path("h/state/vms/damaged/vm.json"), "").unwrap();
    let root = place.path("other").display().to_string();
    laptop.start("elsewhere", &["--disk", "elsewhere.img", "--root", &root]);
    laptop.run(&["kill", "elsewhere", "--root", &root]).ok();
    std::fs::remove_dir_all(place.path("other/state/vms/elsewhere")).unwrap();
    for disk in ["damaged.img", "elsewhere.img"] {
        write_header(&laptop, disk);
        laptop.run(&["convert", "-q", disk, "out.raw"]).ok();
        assert!(place.bytes("out.raw") == place.bytes(disk), "{disk}");
        std::fs::remove_file(place.path("out.raw")).unwrap();
    }
    laptop.run(&["rm", "-f", "damaged"]).ok();
    laptop.is_empty();
}

/// The first write of QEMU gave the disk another time of birth, and a conversion believed the header.
#[test]
fn a_disk_in_a_lower_layer_of_overlayfs_stays_known() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let place = &laptop.place;
    let mount = "mkdir -p lower ov up && mount -t tmpfs none up 2>/dev/null && mkdir up/upper up/work && \
                 mount -t overlay -o lowerdir=lower,upperdir=up/upper,workdir=up/work none ov 2>/dev/null \
                 && echo mounted || true";
    std::fs::create_dir(place.path("lower")).unwrap();
    tests::disk::raw_disk(&place.path("lower/disk.img"), 8 << 20, 7);
    let has_overlay = String::from_utf8(place.shell(mount)).unwrap().contains("mounted");
    if has_overlay {
        laptop.start("m", &["--disk", "ov/disk.img"]);
        laptop.run(&["kill", "m"]).ok();
        write_header(&laptop, "ov/disk.img");
        let ran = laptop.run(&["convert", "-q", "ov/disk.img", "out.raw"]);
        let (whole, out) = (place.bytes("ov/disk.img"), std::fs::read(place.path("out.raw")));
        laptop.run(&["rm", "-f", "m"]).ok();
        place.shell("umount ov; umount up");
        ran.ok();
        assert!(out.unwrap() == whole, "it was converted by the header");
    } else {
        eprintln!("skipped: overlayfs cannot be mounted here");
        place.shell("umount ov up 2>/dev/null || true");
    }
    laptop.is_empty();
}
