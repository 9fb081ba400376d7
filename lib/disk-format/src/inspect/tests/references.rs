//! References in qcow2 headers that `qemu-img` writes.

use super::kit::{Folder, run};
use crate::inspect::{Reference, ReferenceKind, outside};
use std::fs;

fn head(folder: &Folder, args: &[&dyn AsRef<std::path::Path>]) -> Vec<u8> {
    let image = folder.path("image");
    let mut all: Vec<&dyn AsRef<std::path::Path>> = vec![&"create", &"-q"];
    all.extend(args);
    all.extend([&image as &dyn AsRef<std::path::Path>, &"16M"]);
    run("qemu-img", &all, "");
    let mut bytes = fs::read(image).unwrap();
    bytes.truncate(64 << 10);
    bytes
}

#[test]
fn a_backing_file_is_named_with_its_format() {
    let folder = Folder::new();
    for compat in ["0.10", "1.1"] {
        let options = format!("compat={compat},backing_file=/no/such base.raw,backing_fmt=raw");
        let head = head(&folder, &[&"-u", &"-f", &"qcow2", &"-o", &options]);
        let expected = Reference {
            kind: ReferenceKind::BackingFile,
            name: Some("/no/such base.raw".into()),
            format: Some("raw".into()),
        };
        assert_eq!(outside(&head), [expected], "{compat}");
    }
}

#[test]
fn a_data_file_is_named() {
    let folder = Folder::new();
    let data = folder.path("data.raw");
    let options = format!("data_file={}", data.display());
    let head = head(&folder, &[&"-f", &"qcow2", &"-o", &options]);
    let found = outside(&head);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind, ReferenceKind::DataFile);
    assert_eq!(found[0].name.as_deref(), Some(data.to_str().unwrap()));
}

#[test]
fn a_plain_image_refers_to_nothing() {
    let folder = Folder::new();
    assert_eq!(outside(&head(&folder, &[&"-f", &"qcow2"])), []);
    assert_eq!(outside(b"not an image"), []);
    assert_eq!(outside(b""), []);
}

#[test]
fn other_overlays_are_named_too() {
    let folder = Folder::new();
    for format in ["qed", "qcow"] {
        let head = head(&folder, &[&"-u", &"-f", &format, &"-b", &"below.img", &"-F", &"raw"]);
        let found = outside(&head);
        assert_eq!(found.len(), 1, "{format}");
        assert_eq!(found[0].name.as_deref(), Some("below.img"), "{format}");
    }
}

#[test]
fn a_name_that_is_out_of_reach_or_hostile_is_still_a_reference() {
    let folder = Folder::new();
    let mut head = head(&folder, &[&"-u", &"-f", &"qcow2", &"-b", &"x\x1b]0;owned\x07y", &"-F", &"raw"]);
    assert_eq!(outside(&head)[0].name.as_deref(), Some("x ]0;owned y"));
    for at in [u64::MAX, 1 << 40, (64 << 10) - 1] {
        head[8..16].copy_from_slice(&at.to_be_bytes());
        assert_eq!(outside(&head)[0].name, None, "{at}");
    }
}
