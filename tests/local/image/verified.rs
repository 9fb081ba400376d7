//! `coracle verify`: each claim, of an image and of a disk.

use super::*;

#[test]
fn a_good_image_passes_and_a_changed_byte_is_found() {
    let place = place(1);
    place.run(&["build", "-t", "oci:good", "--layer", "none", "disk.qcow2"]).ok();
    let report = place.run(&["verify", "--json", "oci:good"]).ok().json();
    assert_eq!(
        (report["schema"].as_str(), report["passed"].as_bool()),
        (Some("coracle.verify/v1"), Some(true))
    );
    let names: Vec<&str> =
        report["checks"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    for part in
        ["manifest", "blob", "diff-id", "media type", "one disk in its place", "owner", "mode", "format"]
    {
        assert!(names.iter().any(|name| name.contains(part)), "{part} is not in {names:?}");
    }
    place.shell("f=$(ls -S good/blobs/sha256/* | head -1); chmod u+w $f; printf Changed | dd of=$f bs=1 seek=1000000 conv=notrunc status=none");
    let bad = place.run(&["verify", "oci:good"]);
    let text = String::from_utf8(bad.out.clone()).unwrap();
    assert_eq!(bad.code, 3, "{text}");
    bad.refused(3, "claims are wrong");
    assert!(text.contains("failed") && text.contains("blob"), "{text}");
    place.run(&["convert", "oci:good", "out.img"]).refused(3, "digest");
    assert!(!place.path("out.img").exists());
    place.run(&["pull", "oci:good", "taken:1"]).refused(3, "digest");
    assert!(place.run(&["images", "-q"]).ok().out.is_empty());
}

#[test]
fn a_disk_is_read_to_its_last_byte() {
    let place = place(2);
    place.qcow2("packed.qcow2", "-c");
    for name in ["disk.raw", "disk.qcow2", "packed.qcow2"] {
        let report = place.run(&["verify", "--json", name]).ok().json();
        assert_eq!(report["passed"], true, "{name}");
    }
    let told = place.run(&["verify", "packed.qcow2"]).ok().err;
    assert!(
        told.starts_with("packed.qcow2: verified: a qcow2 disk of ") && told.ends_with(" read\n"),
        "{told}"
    );
    place.run(&["build", "-q", "-t", "os", "disk.raw"]).ok();
    let told = place.run(&["verify", "os"]).ok().err;
    assert!(told.starts_with("os: verified: ") && told.ends_with(" claims of the image\n"), "{told}");
    assert_eq!(place.run(&["verify", "-q", "os"]).ok().err, "");
    place.shell("truncate -s -100K packed.qcow2");
    place.run(&["verify", "packed.qcow2"]).refused(3, "packed.qcow2");
    place.shell("qemu-img create -q -f qcow2 -b disk.raw -F raw over.qcow2");
    place.run(&["verify", "over.qcow2"]).refused(3, "over.qcow2");
    place.run(&["verify", "nothing"]).refused(4, "nothing");
}

/// The format was looked for in the records of VMs, which the confined program may not read.
#[test]
fn a_disk_is_verified_beside_vms() {
    let place = place(3);
    let vm = place.path(".local/state/coracle/vms/web");
    std::fs::create_dir_all(&vm).unwrap();
    place.shell("chmod -R go-w .local; echo '{}' >.local/state/coracle/vms/web/vm.json");
    for name in ["disk.raw", "disk.qcow2"] {
        place.run(&["verify", name]).ok();
    }
}
