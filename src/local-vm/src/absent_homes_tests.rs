//! Homes whose VMs have disks of the pool of another one.

use super::*;
use crate::home_entries::{MANY, NewEntry, add};
use crate::kept_disks;
use crate::start::note_disks;
use crate::start::tests::{raw, with_disk};

/// A disk of the pool of this home, complete.
fn pool_disk(home: &Home) -> PathBuf {
    let folder = home.pool().join("os");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("disk.img"), vec![1; 8192]).unwrap();
    let record = r#"{"schema":"coracle.disk/v1","from":"https://h/d.img","size":8192,"created":"now"}"#;
    std::fs::write(folder.join("disk.json"), record).unwrap();
    folder.join("disk.img")
}

/// `coracle --root A run B/data/pool/os/disk.img`: the pool gave the disk out, and removed it.
#[test]
fn a_vm_of_another_root_is_known_to_the_home_that_owns_its_disk() {
    for by_link in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let home = |name: &str| Home::from_env(Some(place.path().join(name)), |_| None).unwrap();
        let (own, other) = (home("b"), home("a"));
        let mut disk = pool_disk(&own);
        if by_link {
            let link = place.path().join("link.img");
            std::os::unix::fs::symlink(&disk, &link).unwrap();
            disk = link;
        }
        let vm = with_disk(&other, &disk, raw(&disk));
        note_disks(&other, &vm.record).unwrap();
        assert!(kept_disks::has_disk_of_other(&own, "os").unwrap());
        let e = kept_disks::remove(&own, "os", false).unwrap_err().to_string();
        assert!(e.starts_with("os is a disk of the VM vm in "), "{e}");
        let listed = kept_disks::list(&own).unwrap();
        assert_eq!(listed[0].vms_of_other_homes, [format!("vm in {}", other.vms().display())]);

        // Its storage is away.
        std::fs::rename(place.path().join("a"), place.path().join("away")).unwrap();
        for refused in [
            kept_disks::has_disk_of_other(&own, "os").map(drop),
            kept_disks::remove(&own, "os", false).map(drop),
        ] {
            let e = refused.unwrap_err().to_string();
            assert!(e.contains("a/state/vms") && e.contains("is not there"), "{e}");
        }
        assert!(own.pool().join("os/disk.img").exists());
        std::fs::rename(place.path().join("away"), place.path().join("a")).unwrap();
        std::fs::remove_dir_all(other.vm("vm")).unwrap();
        kept_disks::remove(&own, "os", false).unwrap();
    }
}

/// The disk is reached by a hard link, which says nothing of its home.
#[test]
fn a_home_that_the_environment_knows_is_asked_too() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path().to_owned();
    let home = |name: &str| {
        let user = top.join("user");
        Home::from_env(Some(top.join(name)), |name| (name == "HOME").then(|| user.clone().into())).unwrap()
    };
    let (own, other) = (home("b"), home("a"));
    let (disk, link) = (pool_disk(&own), top.join("link.img"));
    std::fs::hard_link(&disk, &link).unwrap();
    note_disks(&other, &with_disk(&other, &link, raw(&link)).record).unwrap();
    assert!(top.join("user/.local/share/coracle/raw-disks.json").exists());
    let e = kept_disks::remove(&own, "os", false).unwrap_err().to_string();
    assert!(e.starts_with("os is a disk of the VM vm in "), "{e}");
    std::fs::rename(top.join("a"), top.join("away")).unwrap();
    let e = kept_disks::remove(&own, "os", false).unwrap_err().to_string();
    assert!(
        e.contains("a/state/vms, and that folder is not there") && e.contains("'coracle pool forget "),
        "{e}"
    );
    // Another disk has no such user.
    std::fs::rename(own.pool().join("os"), own.pool().join("kept")).unwrap();
    pool_disk(&own);
    kept_disks::remove(&own, "os", false).unwrap();
    std::fs::rename(own.pool().join("kept"), own.pool().join("os")).unwrap();

    kept_disks::forget_home(&own, &top.join("none")).unwrap_err();
    kept_disks::forget_home(&own, &top.join("a")).unwrap();
    kept_disks::remove(&own, "os", false).unwrap();
    std::fs::rename(top.join("away"), top.join("a")).unwrap();
    kept_disks::forget_home(&own, &top.join("a")).unwrap_err();
}

#[test]
fn a_home_that_was_moved_knows_its_own_vms() {
    let place = tempfile::tempdir().unwrap();
    let xdg = |name: &str| {
        let user = place.path().join(name);
        Home::from_env(None, |name| (name == "HOME").then(|| user.clone().into())).unwrap()
    };
    let own = xdg("u");
    let disk = pool_disk(&own);
    note_disks(&own, &with_disk(&own, &disk, raw(&disk)).record).unwrap();
    std::fs::rename(place.path().join("u"), place.path().join("u2")).unwrap();
    let moved = xdg("u2");
    std::fs::remove_dir_all(moved.vm("vm")).unwrap();
    assert!(!kept_disks::has_disk_of_other(&moved, "os").unwrap());
    kept_disks::remove(&moved, "os", false).unwrap();
}

/// As earlier versions noted a home: without its files.
#[test]
fn a_home_without_noted_files_that_is_not_there_may_have_each_noted_disk() {
    let place = tempfile::tempdir().unwrap();
    let own = Home::from_env(Some(place.path().join("b")), |_| None).unwrap();
    let disk = pool_disk(&own);
    let file = HostFile::find(&disk).unwrap().unwrap();
    let gone = place.path().join("gone/vms");
    let list = |disks: serde_json::Value| {
        let list = serde_json::json!({"schema": "coracle.raw-disks/v1", "disks": disks, "homes": [gone]});
        std::fs::write(own.raw_disks(), list.to_string()).unwrap();
    };
    list(serde_json::json!([{"path": "/elsewhere", "file": file, "is_writable": true}]));
    let e = kept_disks::remove(&own, "os", false).unwrap_err().to_string();
    assert!(e.contains("gone/vms, and that folder is not there"), "{e}");
    list(serde_json::json!([]));
    kept_disks::remove(&own, "os", false).unwrap();
}

/// In `/tmp` another user can make the folder of a home that is gone.
#[test]
fn a_folder_of_another_user_at_the_path_of_a_home_says_nothing_of_its_vms() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make what belongs to another user");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let home = |name: &str| Home::from_env(Some(place.path().join(name)), |_| None).unwrap();
    let (own, other) = (home("b"), home("a"));
    let disk = pool_disk(&own);
    note_disks(&other, &with_disk(&other, &disk, raw(&disk)).record).unwrap();
    std::fs::remove_dir_all(place.path().join("a")).unwrap();
    std::fs::create_dir_all(other.vms()).unwrap();
    std::os::unix::fs::chown(other.vms(), Some(65534), None).unwrap();
    let e = kept_disks::remove(&own, "os", false).unwrap_err().to_string();
    assert!(e.contains("a/state/vms, and that folder is not there"), "{e}");
}

#[test]
fn a_long_list_drops_no_home_with_files() {
    let (mut homes, mut noted) = (vec![], vec![]);
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("disk.img");
    std::fs::write(&file, "x").unwrap();
    let list = Home::from_env(Some(place.path().join("b")), |_| None).unwrap();
    let new = |i: usize, files: Vec<PathBuf>| {
        NewEntry::new(&list, &PathBuf::from(format!("/nowhere/{i}/vms")), files, None).unwrap()
    };
    assert!(add(&mut homes, &mut noted, new(0, vec![file.clone()])).unwrap());
    assert!(!add(&mut homes, &mut noted, new(0, vec![file.clone()])).unwrap());
    for i in 1..=MANY {
        assert!(add(&mut homes, &mut noted, new(i, vec![])).unwrap());
    }
    assert_eq!(homes.len(), 2, "the first one and the last");
    assert!(noted.len() == 2 && noted[0].may_have(&file, None));
}

/// The whole home counted as moved, and the pool gave out the disks of its other VMs.
#[test]
fn a_vm_that_left_an_absent_home_counts_for_its_own_files_alone() {
    let place = tempfile::tempdir().unwrap();
    let home = |name: &str| Home::from_env(Some(place.path().join(name)), |_| None).unwrap();
    let (own, other) = (home("b"), home("a"));
    let os = pool_disk(&own);
    std::fs::rename(own.pool().join("os"), own.pool().join("web")).unwrap();
    let web = own.pool().join("web/disk.img");
    pool_disk(&own);
    note_disks(&other, &with_disk(&home("scratch"), &web, raw(&web)).record).unwrap();
    note_disks(&other, &with_disk(&other, &os, raw(&os)).record).unwrap();
    std::fs::create_dir_all(own.vms()).unwrap();
    std::fs::rename(other.vm("vm"), own.vm("vm")).unwrap();
    std::fs::rename(place.path().join("a"), place.path().join("away")).unwrap();
    let e = kept_disks::remove(&own, "web", false).unwrap_err().to_string();
    assert!(e.contains("a/state/vms, and that folder is not there"), "{e}");
    kept_disks::has_disk_of_other(&own, "os").unwrap();
}

/// The storage of `~/.local/state` is away, and that of the disks is not.
#[test]
fn a_home_whose_own_vms_are_away_gives_out_none_of_their_disks() {
    let place = tempfile::tempdir().unwrap();
    let user = place.path().to_owned();
    let own = Home::from_env(None, |name| (name == "HOME").then(|| user.clone().into())).unwrap();
    let disk = pool_disk(&own);
    note_disks(&own, &with_disk(&own, &disk, raw(&disk)).record).unwrap();
    let away = place.path().join("away");
    std::fs::rename(own.vms(), &away).unwrap();
    let refused = |why: &str| {
        for refused in [
            kept_disks::has_disk_of_other(&own, "os").map(drop),
            kept_disks::remove(&own, "os", false).map(drop),
        ] {
            let e = refused.unwrap_err().to_string();
            assert!(e.contains(&format!("vms, and {why}")) && e.contains("'coracle pool forget "), "{e}");
        }
    };
    refused("that folder is not there");
    // Another VM was started meanwhile.
    std::fs::create_dir_all(own.vms()).unwrap();
    refused("another folder is there now");
    let other = place.path().join("other.img");
    std::fs::write(&other, "x").unwrap();
    note_disks(&own, &with_disk(&own, &other, raw(&other)).record).unwrap();
    refused("another folder is there now");
    // The storage is back.
    std::fs::rename(own.vms(), place.path().join("meanwhile")).unwrap();
    std::fs::rename(&away, own.vms()).unwrap();
    assert!(!kept_disks::has_disk_of_other(&own, "none").unwrap());
    let e = kept_disks::remove(&own, "os", false).unwrap_err().to_string();
    assert!(e.contains("os is a disk of the stopped VM vm"), "{e}");
    kept_disks::forget_home(&own, &own.vms()).unwrap();
    kept_disks::forget_home(&own, &own.vms()).unwrap_err();
    std::fs::remove_dir_all(own.vm("vm")).unwrap();
    kept_disks::remove(&own, "os", false).unwrap();
}

#[test]
fn a_home_behind_an_empty_mount_point_is_forgotten_by_its_root() {
    let place = tempfile::tempdir().unwrap();
    let home = |name: &str| Home::from_env(Some(place.path().join(name)), |_| None).unwrap();
    let (own, other) = (home("b"), home("a"));
    let disk = pool_disk(&own);
    note_disks(&other, &with_disk(&other, &disk, raw(&disk)).record).unwrap();
    kept_disks::forget_home(&own, &place.path().join("a")).unwrap_err();
    std::fs::remove_dir_all(place.path().join("a")).unwrap();
    std::fs::create_dir(place.path().join("a")).unwrap();
    kept_disks::remove(&own, "os", false).unwrap_err();
    kept_disks::forget_home(&own, &place.path().join("a")).unwrap();
    kept_disks::remove(&own, "os", false).unwrap();
}

/// A pool that others can write to, or a squatted runtime folder: the list of disks was not written, and `convert` took a guest's header
/// for that of an image.
#[test]
fn disks_are_noted_for_conversions_whatever_the_other_folders_of_the_environment_are() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let user = place.path().join("user");
    let of = |root: Option<PathBuf>| {
        Home::from_env(root, |name| (name == "HOME").then(|| user.clone().into())).unwrap()
    };
    let environment = of(None);
    environment.make(&environment.pool()).unwrap();
    std::fs::set_permissions(environment.pool(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let other = of(Some(place.path().join("a")));
    let disk = place.path().join("disk.img");
    std::fs::write(&disk, "x").unwrap();
    note_disks(&other, &with_disk(&other, &disk, raw(&disk)).record).unwrap();
    assert!(crate::host_disks::is_written_raw(&environment, &disk).unwrap());
    assert!(other.environment().is_some());
    // A list that others can replace is not believed.
    let data = environment.raw_disks().parent().unwrap().to_owned();
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(other.environment().is_none());
    note_disks(&other, &with_disk(&other, &disk, raw(&disk)).record).unwrap();
}

/// Their pools are links to one folder, or mounts of it.
#[test]
fn homes_that_share_a_pool_know_the_vms_of_each_other() {
    let place = tempfile::tempdir().unwrap();
    let home = |name: &str| Home::from_env(Some(place.path().join(name)), |_| None).unwrap();
    let (own, other) = (home("b"), home("a"));
    let big = place.path().join("big");
    std::fs::create_dir(&big).unwrap();
    for home in [&own, &other] {
        home.make(home.raw_disks().parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&big, home.pool()).unwrap();
    }
    pool_disk(&own);
    for from in [&own, &other] {
        // Each has a list beside its pool.
        let disk = from.pool().join("os/disk.img");
        note_disks(from, &with_disk(from, &disk, raw(&disk)).record).unwrap();
        std::fs::remove_dir_all(from.vm("vm")).unwrap();
    }
    let disk = other.pool().join("os/disk.img");
    note_disks(&other, &with_disk(&other, &disk, raw(&disk)).record).unwrap();
    let e = kept_disks::remove(&own, "os", false).unwrap_err().to_string();
    assert!(e.starts_with("os is a disk of the VM vm in "), "{e}");
    assert_eq!(kept_disks::list(&own).unwrap().len(), 1, "the list of the pool is no disk");
}

/// In CI: the pool disks of the next home of that path were refused.
#[test]
fn the_files_of_a_root_that_is_removed_go_with_it() {
    let place = tempfile::tempdir().unwrap();
    let user = place.path().join("user");
    let home = || {
        let root = place.path().join("ci");
        Home::from_env(Some(root), |name| (name == "HOME").then(|| user.clone().into())).unwrap()
    };
    for _ in 0..2 {
        let own = home();
        let disk = pool_disk(&own);
        note_disks(&own, &with_disk(&own, &disk, raw(&disk)).record).unwrap();
        std::fs::remove_dir_all(own.vm("vm")).unwrap();
        assert!(!kept_disks::has_disk_of_other(&own, "os").unwrap());
        kept_disks::remove(&own, "os", false).unwrap();
        std::fs::remove_dir_all(place.path().join("ci")).unwrap();
    }
}

/// Started in its new home, removed, and then its disk was still that of the old home.
#[test]
fn a_vm_that_left_an_absent_home_takes_its_files_along() {
    let place = tempfile::tempdir().unwrap();
    let home = |name: &str| Home::from_env(Some(place.path().join(name)), |_| None).unwrap();
    let (own, other) = (home("b"), home("a"));
    let disk = pool_disk(&own);
    note_disks(&other, &with_disk(&other, &disk, raw(&disk)).record).unwrap();
    std::fs::create_dir_all(own.vms()).unwrap();
    std::fs::rename(other.vm("vm"), own.vm("vm")).unwrap();
    std::fs::remove_dir_all(place.path().join("a")).unwrap();
    let vm = Vm::open(&own, "vm").unwrap();
    note_disks(&own, &vm.record).unwrap();
    vm.record.save(&own).unwrap();
    std::fs::remove_dir_all(own.vm("vm")).unwrap();
    kept_disks::remove(&own, "os", false).unwrap();
}

/// The file system gave the folder the inode of the one before.
#[test]
fn a_folder_with_another_mark_is_another_home() {
    let place = tempfile::tempdir().unwrap();
    let user = place.path().to_owned();
    let own = Home::from_env(None, |name| (name == "HOME").then(|| user.clone().into())).unwrap();
    let disk = pool_disk(&own);
    note_disks(&own, &with_disk(&own, &disk, raw(&disk)).record).unwrap();
    std::fs::remove_dir_all(own.vm("vm")).unwrap();
    assert!(!kept_disks::has_disk_of_other(&own, "os").unwrap());
    let mark = own.vms().join(".home");
    let before = std::fs::read(&mark).unwrap();
    std::fs::write(&mark, "another").unwrap();
    let e = kept_disks::remove(&own, "os", false).unwrap_err().to_string();
    assert!(e.contains("vms, and another folder is there now"), "{e}");
    // A backup that was restored has the mark.
    let copy = place.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    std::fs::write(copy.join(".home"), before).unwrap();
    std::fs::remove_dir_all(own.vms()).unwrap();
    std::fs::rename(copy, own.vms()).unwrap();
    kept_disks::remove(&own, "os", false).unwrap();
}
