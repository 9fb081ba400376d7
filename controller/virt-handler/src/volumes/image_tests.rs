use super::*;
use std::fs;
use std::os::unix::fs::symlink;

/// The check of the VMI refuses such paths; this tests a path that was not checked.
#[test]
fn a_path_that_leads_out_of_an_image_opens_nothing() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("mnt/image");
    fs::create_dir_all(root.join("disk")).unwrap();
    fs::write(place.path().join("victim"), "of the host").unwrap();
    fs::write(root.join("disk/os.img"), [0; 4096]).unwrap();
    symlink("../../../victim", root.join("disk/link.img")).unwrap();
    symlink("/", root.join("all")).unwrap();
    let image = Folder::open(&root).unwrap();
    let found = |path: Option<&str>| disk(&image, "registry.example/os:1", path, &[]);
    for path in [
        "/disk/../../../victim",
        "../../victim",
        "/disk/x/../../../../victim",
        "/disk/link.img",
        "/all/etc/passwd",
        "/disk/./../disk/os.img",
    ] {
        assert!(found(Some(path)).is_err(), "{path}");
    }
    fs::remove_file(root.join("disk/link.img")).unwrap();
    assert_eq!(found(None).unwrap().path, "disk/os.img");
}
