//! Names of new VMs: neither `run` nor `test` takes that of a VM that is another one.

use super::Laptop;
use tests::nginx::{Nginx, Serve};

const FLAGS: [&str; 5] = ["-q", "--memory", "128M", "--accel", "emulation"];

/// Runs a disk or an image under its derived name, which is returned.
fn run(laptop: &Laptop, args: &[&str]) -> String {
    let ran = laptop.run(&[&["run", "-d"], args, &FLAGS].concat()).ok();
    String::from_utf8(ran.out).unwrap().trim().to_owned()
}

/// A test that fails within two seconds.
fn test(laptop: &Laptop, args: &[&str]) {
    let expect = ["--expect", "no such words", "--timeout", "2"];
    laptop.run(&[&["test"], args, &expect, &FLAGS].concat()).refused(1, "no \"no such words\"");
}

/// Its record was replaced.
#[test]
fn a_derived_name_takes_the_stopped_vm_of_the_same_disk_alone() {
    let Some(laptop) = Laptop::with_guest() else { return };
    for folder in ["p1", "p2"] {
        std::fs::create_dir(laptop.place.path(folder)).unwrap();
        tests::disk::raw_disk(&laptop.place.path(&format!("{folder}/deb.img")), 1 << 20, 7);
    }
    for (disk, name) in [("p1/deb.img", "deb"), ("p2/deb.img", "deb-2"), ("p1/deb.img", "deb")] {
        assert_eq!(run(&laptop, &[disk]), name);
        laptop.run(&["kill", name]).ok();
    }
    assert_eq!(run(&laptop, &["p1/deb.img", "--rm"]), "deb-3", "the VM would be removed");
    laptop.run(&["kill", "deb-3"]).ok();
    assert_eq!(laptop.names(&["-a"]), ["deb", "deb-2"]);
    laptop.run(&["rm", "deb", "deb-2"]).ok();
    laptop.is_empty();
}

/// They were powered off and removed at the end of the test.
#[test]
fn a_test_leaves_other_vms_alone() {
    let Some(laptop) = Laptop::with_guest() else { return };
    laptop.start("tiny-test", &[]);
    laptop.run(&["kill", "tiny-test"]).ok();
    laptop.start("tiny-test-2", &[]);
    let tests = || test(&laptop, &["tiny:1", "--artifacts", "failed"]);
    std::thread::scope(|scope| {
        let all = [(); 3].map(|()| scope.spawn(tests));
        all.into_iter().for_each(|one| one.join().unwrap());
    });
    assert_eq!(laptop.names(&["-a"]), ["tiny-test", "tiny-test-2"]);
    assert_eq!(laptop.status("tiny-test-2")["state"], "Running");
    laptop.run(&["rm", "-f", "tiny-test", "tiny-test-2"]).ok();
    laptop.is_empty();
}

/// It ran with the disk of the user's VM, and the next one with what the guest of the last one had written.
#[test]
fn a_test_of_a_url_has_a_disk_of_its_own_which_goes_with_it() {
    let Some(laptop) = Laptop::with_guest() else { return };
    let place = &laptop.place;
    tests::disk::raw_disk(&place.path("disk.raw"), 1 << 20, 5);
    let server = Nginx::start(&Serve::default());
    let url = server.link("disk.raw", &place.path("disk.raw"));
    assert_eq!(run(&laptop, &[&url]), "disk");
    laptop.run(&["kill", "disk"]).ok();
    let kept = place.path("h/data/pool/disk/disk.img");
    let before = std::fs::metadata(&kept).unwrap().modified().unwrap();
    test(&laptop, &[&url]);
    assert_eq!(std::fs::metadata(&kept).unwrap().modified().unwrap(), before);
    let disks = laptop.run(&["pool", "ls", "--json"]).ok().json();
    assert_eq!(
        disks["disks"].as_array().unwrap().iter().map(|disk| &disk["name"]).collect::<Vec<_>>(),
        ["disk"]
    );
    laptop.run(&["rm", "disk"]).ok();
    laptop.is_empty();
}

/// The record of the stopped VM was replaced, and its next start was that of the other disk.
#[test]
fn a_vm_stays_where_a_new_one_of_its_name_cannot_start() {
    let Some(laptop) = Laptop::with_guest() else { return };
    for disk in ["own.img", "used.img"] {
        tests::disk::raw_disk(&laptop.place.path(disk), 1 << 20, 7);
    }
    run(&laptop, &["own.img", "--name", "vm"]);
    laptop.run(&["kill", "vm"]).ok();
    run(&laptop, &["used.img"]);
    let again = |args: &[&str]| laptop.run(&[&["run", "-d", "--name", "vm"], args, &FLAGS].concat());
    again(&["used.img"]).refused(1, "used.img");
    let document = "{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {name: vm, namespace: other}, \
                    spec: {domain: {memory: {guest: 64Mi}, devices: {}}}}";
    std::fs::write(laptop.place.path("vm.yaml"), document).unwrap();
    laptop
        .run(&["run", "-d", "-q", "vm.yaml", "--accel", "emulation"])
        .refused(3, "vm is a VM of the namespace default, and the new one is of the namespace other");
    laptop.run(&["start", "vm"]).ok();
    let record = std::fs::read_to_string(laptop.place.path("h/state/vms/vm/vm.json")).unwrap();
    assert!(record.contains("own.img") && !record.contains("used.img"), "{record}");
    let open = laptop.place.shell("ls -l /proc/[0-9]*/fd/* 2>/dev/null | grep -c '/own.img$' || true");
    assert_ne!(String::from_utf8(open).unwrap().trim(), "0");
    laptop.run(&["rm", "-f", "vm", "used"]).ok();
    laptop.is_empty();
}

/// Its launcher, which had nothing to do any more, kept the new VM in the folder that was moved.
#[test]
fn a_name_is_free_once_its_folder_was_moved_away() {
    let Some(laptop) = Laptop::with_guest() else { return };
    laptop.start("vm", &[]);
    laptop.run(&["kill", "vm"]).ok();
    let vms = laptop.place.path("h/state/vms");
    std::fs::rename(vms.join("vm"), vms.join("moved")).unwrap();
    for verb in ["start", "kill", "rm"] {
        laptop.run(&[verb, "moved"]).refused(3, "is the record of the VM \"vm\", and not of moved");
    }
    laptop.start("vm", &[]);
    assert_eq!(laptop.status("vm")["state"], "Running");
    laptop.run(&["rm", "-f", "vm", "moved"]).ok();
    laptop.is_empty();
}
