//! On loop devices, where this host permits them.

use super::*;
use ::tests::loop_device::Loop;
use std::path::PathBuf;
use std::process::Command;

fn run(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

/// A file of 16 MiB in a new folder.
fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    File::create(&path).unwrap().set_len(16 << 20).unwrap();
    (folder, path)
}

fn shared(source: &Path, target: &Path) -> Option<String> {
    let open = |path: &Path| Storage::of(File::open(path).unwrap(), &path.display().to_string()).unwrap();
    let said = open(source).shared_with(&open(target));
    assert_eq!(Storage::of_path(source).unwrap().shared_with(&Storage::of_path(target).unwrap()), said);
    said
}

#[test]
fn a_file_below_a_device_is_found_through_any_number_of_devices() {
    let (folder, path) = file();
    let Some(first) = Loop::over(&path, &[]) else { return };
    let Some(second) = Loop::over(&first.0, &[]) else { return };
    for target in [&first.0, &second.0] {
        let said = shared(&path, target).unwrap();
        assert!(said.contains("the target lies on") && said.contains(path.to_str().unwrap()), "{said}");
        // A layout is a folder.
        assert!(
            Storage::of_path(folder.path())
                .unwrap()
                .shared_with(&Storage::of_path(target).unwrap())
                .is_some()
        );
    }
    let said = shared(&second.0, &first.0).unwrap();
    assert!(said.contains("what is to be read lies on the target"), "{said}");
    assert!(shared(&first.0, &second.0).is_some() && shared(&first.0, &first.0).is_some());
    // By another name of the file.
    let linked = folder.path().join("linked");
    fs::hard_link(&path, &linked).unwrap();
    assert!(shared(&linked, &second.0).is_some());

    let (_other_folder, other) = file();
    assert_eq!(shared(&other, &second.0), None, "files of one file system");
    assert_eq!(shared(&other, &path), None);
    let Some(beside) = Loop::over(&other, &[]) else { return };
    assert_eq!(shared(&first.0, &beside.0), None);
}

#[test]
fn devices_over_one_file_share_only_the_bytes_that_both_have() {
    let (_folder, path) = file();
    let over = |offset: &str, size: &str| Loop::over(&path, &["--offset", offset, "--sizelimit", size]);
    let Some(low) = over("0", "8388608") else { return };
    let (Some(high), Some(middle)) = (over("8388608", "8388608"), over("4194304", "8388608")) else { return };
    assert_eq!(shared(&low.0, &high.0), None);
    let said = shared(&low.0, &middle.0).unwrap();
    assert!(said.contains("both lie in the same bytes of"), "{said}");
    assert!(shared(&middle.0, &high.0).is_some());
    // Each again in a device of its own.
    let (Some(above_low), Some(above_high)) = (Loop::over(&low.0, &[]), Loop::over(&high.0, &[])) else {
        return;
    };
    assert_eq!(shared(&above_low.0, &above_high.0), None);
    assert!(shared(&above_low.0, &middle.0).is_some());
}

#[test]
fn partitions_lie_beside_one_another_and_in_their_disk() {
    let (_folder, path) = file();
    let Some(disk) = Loop::over(&path, &["--partscan"]) else { return };
    let name = disk.0.to_str().unwrap();
    let table = format!(
        "printf ',4M\\n,4M\\n' | sfdisk -q {name} && udevadm settle 2>/dev/null; partx -u {name}; true"
    );
    run("sh", &["-c", &table]);
    let [one, two] = [1, 2].map(|number| PathBuf::from(format!("{name}p{number}")));
    if !one.exists() || !two.exists() {
        eprintln!("skipped: no partition of a loop device to be had");
        return;
    }
    assert_eq!(shared(&one, &two), None);
    assert!(shared(&one, &disk.0).is_some() && shared(&disk.0, &one).is_some());
    assert!(shared(&path, &one).is_some());
    let Some(above) = Loop::over(&one, &[]) else { return };
    assert!(shared(&path, &above.0).is_some() && shared(&one, &above.0).is_some());
    assert_eq!(shared(&two, &above.0), None);
}

#[test]
fn a_new_file_lies_on_the_disk_of_its_folder() {
    let (folder, path) = file();
    let at = folder.path().join("mounted");
    fs::create_dir(&at).unwrap();
    let (file, place) = (path.to_str().unwrap(), at.to_str().unwrap());
    if !run("mkfs.ext4", &["-q", file]) || !run("mount", &["-o", "loop", file, place]) {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let new = Storage::of_new_file(&at).unwrap();
    let below = Storage::of_path(&path).unwrap().shared_with(&new);
    fs::write(at.join("image"), b"x").unwrap();
    let beside = Storage::of_path(&at.join("image")).unwrap().shared_with(&new);
    assert!(run("umount", &[place]));
    assert!(below.unwrap().contains("the target lies on"));
    assert_eq!(beside, None, "a file of the same file system");
}

/// An image in a folder is read by its names, and a new one changes no byte of it.
#[test]
fn a_new_file_may_lie_in_the_folder_that_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (read, new) = (Storage::of_path(folder.path()), Storage::of_new_file(folder.path()));
    assert_eq!(read.unwrap().shared_with(&new.unwrap()), None);
}

#[test]
fn slaves_are_storage_of_which_the_bytes_are_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let slave = folder.path().join("slaves/sda");
    fs::create_dir_all(&slave).unwrap();
    fs::write(slave.join("dev"), "8:0\n").unwrap();
    let part = |minor, span| {
        let location = Location::Device(rustix::fs::makedev(8, minor));
        Part { location, span, is_itself: true, is_around: false, mount: None, name: String::new() }
    };
    let beneath = part(7, Some(0..u64::MAX)).beneath_device(rustix::fs::makedev(8, 7), folder.path());
    let [slave] = &beneath[..] else { panic!("{beneath:?}") };
    assert_eq!((slave.location, &slave.span, slave.is_itself), (part(0, None).location, &None, false));
    assert!(slave.overlaps(&part(0, Some(0..u64::MAX))), "the slave itself is read");
    assert!(!slave.overlaps(slave), "two volumes of one group");
}

#[test]
fn slaves_of_a_mapped_device_are_its_storage() {
    let (_folder, path) = file();
    let Some(device) = Loop::over(&path, &[]) else { return };
    let name = format!("storage-test-{}", std::process::id());
    let table = format!("0 8192 linear {} 0", device.0.display());
    if !run("dmsetup", &["create", &name, "--table", &table]) {
        eprintln!("skipped: no device mapper here");
        return;
    }
    let mapped = PathBuf::from(format!("/dev/mapper/{name}"));
    let said = mapped.exists().then(|| (shared(&path, &mapped), shared(&mapped, &device.0)));
    assert!(run("dmsetup", &["remove", "--retry", &name]));
    assert!(said.is_none_or(|(file, device)| file.is_some() && device.is_some()));
}
