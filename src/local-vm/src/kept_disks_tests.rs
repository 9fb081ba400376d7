//! Disks of the pool with their VMs: listed, removed, and used by a start.

use super::*;
use crate::raw_disks::{self, StartOf};
use crate::resolve::image::Images;
use crate::resolve::pool::HeldDisks;
use crate::start::{again, check_again};
use api::launcher::{Format, Resolved, Sync};

fn home(root: &Path) -> Home {
    Home::from_env(Some(root.join("h")), |_| None).unwrap()
}

fn disk(home: &Home, name: &str) -> PathBuf {
    let folder = home.pool().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("disk.img"), vec![1; 8192]).unwrap();
    let record =
        r#"{"schema":"coracle.disk/v1","from":"https://u:p@h/d.img?x=y","size":8192,"created":"now"}"#;
    fs::write(folder.join("disk.json"), record).unwrap();
    folder.join("disk.img")
}

#[test]
fn a_disk_says_its_source_and_its_vms() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    assert_eq!(list(&home).unwrap(), []);
    let path = disk(&home, "web");
    disk(&home, "free");
    fs::create_dir_all(home.pool().join("half")).unwrap();
    let volume = Source::File { path, format: Format::Raw, preallocated: false };
    let resolved = Resolved { volumes: [("root".to_owned(), volume)].into(), ..Resolved::default() };
    let sync = Sync { vmi: serde_json::Value::Null, generation: 1, resolved };
    fs::create_dir_all(home.vm("vm")).unwrap();
    Record::new("vm", "x", false, sync, Path::new("/launcher")).save(&home).unwrap();
    let listed = list(&home).unwrap();
    let names: Vec<&str> = listed.iter().map(|disk| disk.name.as_str()).collect();
    assert_eq!(names, ["free", "half", "web"]);
    assert_eq!((listed[1].size, listed[2].size), (None, Some(8192)));
    assert_eq!(listed[2].from.as_deref(), Some("https://h/d.img?…"));
    assert_eq!((listed[0].vms.len(), listed[2].vms.as_slice()), (0, &["vm".to_owned()][..]));

    let e = remove(&home, "web", false).unwrap_err();
    assert!(e.to_string().contains("a disk of the stopped VM vm; 'coracle rm vm'"), "{e}");
    assert!(home.pool().join("web/disk.img").exists());
    assert!(remove(&home, "web", true).unwrap() >= 8192);
    assert!(remove(&home, "free", false).unwrap() >= 8192);
    assert_eq!(remove(&home, "free", false).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(remove(&home, "../vms", false).is_err());
    assert_eq!(list(&home).unwrap().len(), 1);
}

/// Two users' settings of XDG_STATE_HOME have one pool.
#[test]
fn the_disk_of_another_homes_stopped_vm_is_removed_with_force_alone() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let other = home.with_vms(&place.path().join("other/vms"));
    let path = disk(&home, "web");
    let record = fs::read_to_string(home.pool().join("web/disk.json")).unwrap();
    let made_by = format!(r#","vms":{}}}"#, serde_json::to_string(&other.vms()).unwrap());
    fs::write(home.pool().join("web/disk.json"), record.replace('}', &made_by)).unwrap();
    let volume = Source::File { path, format: Format::Raw, preallocated: false };
    let resolved = Resolved { volumes: [("root".to_owned(), volume)].into(), ..Resolved::default() };
    let sync = Sync { vmi: serde_json::Value::Null, generation: 1, resolved };
    fs::create_dir_all(other.vm("vm")).unwrap();
    Record::new("vm", "x", false, sync, Path::new("/launcher")).save(&other).unwrap();
    let e = remove(&home, "web", false).unwrap_err();
    assert!(e.to_string().starts_with("web is a disk of the VM vm in "), "{e}");
    assert!(home.pool().join("web/disk.img").exists());
    // The VM is removed, or the user means it.
    fs::remove_dir_all(other.vm("vm")).unwrap();
    remove(&home, "web", false).unwrap();
}

/// The result once no lock is in the way: a program that another test starts has those of an earlier call until it
/// runs.
fn settled<T>(act: impl Fn() -> Result<T>) -> Result<T> {
    let mut patience = 200;
    loop {
        match act() {
            Err(e) if patience > 0 && e.to_string().contains("another coracle works on") => {
                patience -= 1;
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            other => return other,
        }
    }
}

/// A VM that has stopped, with the disk at this path.
fn stopped(home: &Home, path: PathBuf, vmi: serde_json::Value) -> Vm {
    let volume = Source::File { path, format: Format::Raw, preallocated: false };
    let resolved = Resolved { volumes: [("root".to_owned(), volume)].into(), ..Resolved::default() };
    fs::create_dir_all(home.vm("vm")).unwrap();
    let sync = Sync { vmi, generation: 1, resolved };
    Record::new("vm", "x", false, sync, Path::new("/launcher")).save(home).unwrap();
    Vm::open(home, "vm").unwrap()
}

/// The VM ran with it, and the next `run` imported it anew, over the data of the guest.
#[test]
fn a_vm_is_not_started_with_a_disk_whose_removal_was_interrupted() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let path = disk(&home, "web");
    let folder = home.pool().join("web");
    let vm = stopped(&home, path.clone(), serde_json::Value::Null);
    check_again(&vm).unwrap();
    for mark in ["removing", "importing"] {
        fs::rename(folder.join("disk.json"), folder.join(mark)).unwrap();
        for refused in [settled(|| again(&vm, |_| {})).map(drop), check_again(&vm)] {
            let e = refused.unwrap_err().to_string();
            assert!(e.contains("interrupted; 'coracle pool rm -f web' ends it; 'mv "), "{e}");
        }
        assert!(list(&home).unwrap()[0].fault.is_some());
        fs::rename(folder.join(mark), folder.join("disk.json")).unwrap();
    }
    check_again(&vm).unwrap();

    fs::rename(folder.join("disk.json"), folder.join("removing")).unwrap();
    assert!(settled(|| remove(&home, "web", true)).unwrap() >= 8192);
    for refused in [settled(|| again(&vm, |_| {})).map(drop), check_again(&vm)] {
        let e = refused.unwrap_err();
        assert_eq!(e.kind(), ErrorKind::NotFound);
        assert!(e.to_string().contains("its disk web is no longer in the pool; 'coracle run'"), "{e}");
    }
    assert!(!folder.exists(), "a start makes no folder of a disk");
}

#[test]
fn a_vm_is_not_started_with_an_unfinished_import() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let path = disk(&home, "web");
    fs::remove_file(path.with_file_name("disk.json")).unwrap();
    fs::write(path.with_file_name("importing"), "").unwrap();
    let vm = stopped(&home, path.clone(), serde_json::Value::Null);
    let e = again(&vm, |_| {}).unwrap_err().to_string();
    assert!(e.contains("the import of its disk web has not ended; 'coracle run'"), "{e}");
    // The disk as a file of the user, which the error of a lost record names as the way out.
    let vmi = serde_json::json!({"spec": {"volumes": [{"name": "root", "hostDisk": {"path": path}}]}});
    assert!(of_vm(&home, &stopped(&home, path, vmi).record).unwrap().is_empty());
}

#[test]
fn the_disks_of_a_vm_are_those_of_the_pool_by_any_path() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let path = disk(&home, "web");
    std::os::unix::fs::symlink(home.pool(), place.path().join("link")).unwrap();
    fs::create_dir_all(place.path().join("other/web")).unwrap();
    let of = |path| of_vm(&home, &stopped(&home, path, serde_json::Value::Null).record).unwrap();
    assert_eq!(of(path), BTreeSet::from(["web".to_owned()]));
    assert_eq!(of(place.path().join("link/web/disk.img")), BTreeSet::from(["web".to_owned()]));
    assert!(of(place.path().join("other/web/disk.img")).is_empty());
    assert!(of(place.path().join("missing/web/disk.img")).is_empty());
}

/// Its launcher opened a disk that was gone a moment later.
#[test]
fn the_disk_of_a_vm_that_another_process_starts_stays() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let path = disk(&home, "web");
    let vm = stopped(&home, path.clone(), serde_json::Value::Null);
    let starts = home.lock_vm("vm").unwrap();
    let e = remove(&home, "web", true).unwrap_err().to_string();
    assert!(e.contains("another coracle works on the VM vm"), "{e}");
    drop(starts);
    assert!(path.exists() && home.pool().join("web/disk.json").exists());
    let held = hold(&vm, |_| {}).unwrap();
    assert_eq!(held.len(), 1);
    let e = Lock::take(&home.pool().join("web").join(LOCK), "the disk web").unwrap_err().to_string();
    assert!(e.contains("another coracle works on the disk web"), "{e}");
}

/// Its record names it in a moment.
#[test]
fn the_disk_of_a_run_that_has_no_record_yet_stays() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let path = disk(&home, "web");
    let images = Images::new(None, home.clone(), true, |_| {});
    let held = HeldDisks::lock(&images, ["web", "data", "web"]).unwrap();
    let e = remove(&home, "web", true).unwrap_err().to_string();
    assert!(e.contains("another coracle works on the disk web"), "{e}");
    assert!(path.exists());
    drop(held);
}

#[test]
fn a_disk_with_a_damaged_record_is_listed_and_can_be_removed() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    disk(&home, "web");
    fs::write(home.pool().join("web/disk.json"), "").unwrap();
    let listed = list(&home).unwrap();
    let fault = listed[0].fault.as_deref().unwrap();
    assert!(listed[0].size.is_none() && fault.contains("web/disk.json is not what coracle wrote"), "{fault}");
    assert!(remove(&home, "web", true).unwrap() >= 8192);
    assert_eq!(list(&home).unwrap(), []);
}

/// A VM whose disk could not be looked at passed for one without it.
#[test]
fn a_disk_that_cannot_be_looked_at_has_no_unknown_users() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let path = disk(&home, "web");
    let looped = place.path().join("loop");
    std::os::unix::fs::symlink("loop", &looped).unwrap();
    let volume = Source::File { path: looped, format: Format::Raw, preallocated: false };
    let resolved = Resolved { volumes: [("root".to_owned(), volume)].into(), ..Resolved::default() };
    let sync = Sync { vmi: serde_json::Value::Null, generation: 1, resolved };
    fs::create_dir_all(home.vm("vm")).unwrap();
    Record::new("vm", "x", false, sync, Path::new("/launcher")).save(&home).unwrap();
    let e = remove(&home, "web", false).unwrap_err().to_string();
    assert!(e.contains("cannot read") && e.contains("/loop"), "{e}");
    assert!(path.exists());
}

/// A stopped VM has the disk, which is on storage that is away.
#[test]
fn a_disk_that_leads_nowhere_is_removed_by_force_alone() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let path = disk(&home, "web");
    let away = place.path().join("volume.img");
    fs::rename(&path, &away).unwrap();
    std::os::unix::fs::symlink(&away, &path).unwrap();
    stopped(&home, path.clone(), serde_json::Value::Null);
    fs::rename(&away, place.path().join("unmounted")).unwrap();
    let e = settled(|| remove(&home, "web", false)).unwrap_err().to_string();
    assert!(e.contains("disk.img is a link that leads nowhere"), "{e}");
    assert!(path.is_symlink() && home.pool().join("web/disk.json").exists());
    settled(|| remove(&home, "web", true)).unwrap();
    assert!(!home.pool().join("web").exists());
}

/// It was left where the launcher was killed between the record and the end of the import.
#[test]
fn a_start_removes_the_mark_of_an_import_that_ended() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let path = disk(&home, "web");
    fs::write(path.with_file_name("importing"), "").unwrap();
    let vm = stopped(&home, path.clone(), serde_json::Value::Null);
    drop(hold(&vm, |_| {}).unwrap());
    assert!(!path.with_file_name("importing").exists());
}

#[test]
fn a_disk_in_use_stays() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let file = File::open(disk(&home, "web")).unwrap();
    file.lock_shared().unwrap();
    let e = remove(&home, "web", true).unwrap_err();
    let e = e.to_string();
    assert!(e.contains("web is not removed: ") && e.contains("disk.img is in use: it is locked"), "{e}");
    drop(file);
    settled(|| remove(&home, "web", true)).unwrap();
}

/// A VM of another home that has this pool, with this disk, as its start notes it.
fn of_other_home(home: &Home, folder: &Path, disk: &Path, is_by_path: bool) -> Home {
    let other = home.with_vms(&folder.join("other/vms"));
    let vmi = match is_by_path {
        true => serde_json::json!({"spec": {"volumes": [{"name": "root", "hostDisk": {"path": disk}}]}}),
        false => serde_json::Value::Null,
    };
    let vm = stopped(&other, disk.to_owned(), vmi);
    raw_disks::keep(&other, Some(StartOf::within(&other.vms())), vm.record.disks()).unwrap();
    other
}

/// The home that made a disk was asked, and not the one that used it then.
#[test]
fn the_disk_of_a_vm_of_a_home_that_has_not_made_it_is_removed_with_force_alone() {
    for is_by_path in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let home = home(place.path());
        let path = disk(&home, "web");
        let other = of_other_home(&home, place.path(), &path, is_by_path);
        let e = remove(&home, "web", false).unwrap_err().to_string();
        assert!(e.starts_with("web is a disk of the VM vm in ") && e.contains("XDG_STATE_HOME"), "{e}");
        // Its record does not say which disks it has.
        fs::write(other.vm_record("vm"), "").unwrap();
        let e = remove(&home, "web", false).unwrap_err().to_string();
        assert!(e.contains("other/vms/vm/vm.json is not what coracle wrote") && path.exists(), "{e}");
        settled(|| remove(&home, "web", true)).unwrap();
    }
}

/// It booted the disk of another namespace, which `run` refuses.
#[test]
fn a_vm_is_not_started_with_another_disk_of_the_name() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let path = disk(&home, "web");
    let record = path.with_file_name("disk.json");
    let told = |from: &str, more: &str| {
        let text =
            format!(r#"{{"schema":"coracle.disk/v1","from":"{from}","size":8192,"created":"now"{more}}}"#);
        fs::write(&record, text).unwrap();
    };
    told("https://h/d.img", r#","namespace":"one","address":"a""#);
    let mut vm = stopped(&home, path, serde_json::Value::Null);
    vm.record.pool_disks = pool_disks(&home, &vm.record).unwrap();
    vm.record.save(&home).unwrap();
    check_again(&vm).unwrap();
    for (from, more, says) in [
        ("https://h/d.img", r#","namespace":"two","address":"a""#, "is one of the namespace two, and was"),
        ("https://h/e.img", r#","namespace":"one","address":"b""#, "is made from https://h/e.img, and was"),
        ("https://h/d.img", r#","namespace":"one","address":"b""#, "with another query or user"),
    ] {
        told(from, more);
        for refused in [settled(|| again(&vm, |_| {})).map(drop), check_again(&vm)] {
            let e = refused.unwrap_err().to_string();
            assert!(e.contains("its disk web is ") && e.contains(says), "{e}");
        }
    }
    // A record of an earlier version says nothing.
    vm.record.pool_disks.clear();
    check_again(&vm).unwrap();
}

/// It started with the disk of a home that was made at the old path, and `pool rm` removed its own.
#[test]
fn a_vm_of_a_moved_home_has_the_disks_that_moved_with_it() {
    let place = tempfile::tempdir().unwrap();
    let own = home(place.path());
    stopped(&own, disk(&own, "web"), serde_json::Value::Null);
    fs::rename(place.path().join("h"), place.path().join("h.old")).unwrap();
    let moved = Home::from_env(Some(place.path().join("h.old")), |_| None).unwrap();
    let new = disk(&home(place.path()), "web");
    let vm = Vm::open(&moved, "vm").unwrap();
    assert_eq!(vm.record.files(), [moved.pool().join("web/disk.img")]);
    assert_eq!(list(&moved).unwrap()[0].vms, ["vm"]);
    let e = remove(&moved, "web", false).unwrap_err().to_string();
    assert!(e.contains("web is a disk of the stopped VM vm"), "{e}");
    assert_eq!(list(&home(place.path())).unwrap()[0].vms, [""; 0]);
    check_again(&vm).unwrap();
    drop(hold(&vm, |_| {}).unwrap());

    // Another VM of the name at the old path.
    stopped(&home(place.path()), new, serde_json::Value::Null);
    for refused in [settled(|| again(&vm, |_| {})).map(drop), check_again(&vm)] {
        let e = refused.unwrap_err().to_string();
        let says = "h/state/vms/vm, where another VM is now; 'coracle run'";
        assert!(e.starts_with("vm is not started: its folder was moved from ") && e.contains(says), "{e}");
    }
    assert_eq!(list(&moved).unwrap()[0].vms, ["vm"]);
}

/// An earlier version noted no folder; and another `XDG_DATA_HOME` has another pool.
#[test]
fn a_vm_is_not_started_with_the_disk_of_another_home() {
    let place = tempfile::tempdir().unwrap();
    let own = home(place.path());
    let vm = stopped(&own, disk(&own, "web"), serde_json::Value::Null);
    let record = own.vm_record("vm");
    let mut text: serde_json::Value = serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
    assert!(text.as_object_mut().unwrap().remove("folder").is_some());
    fs::write(&record, text.to_string()).unwrap();
    check_again(&vm).unwrap();
    fs::rename(place.path().join("h"), place.path().join("h.old")).unwrap();
    let moved = Home::from_env(Some(place.path().join("h.old")), |_| None).unwrap();
    disk(&own, "web");
    let xdg = |data: &str| {
        let (state, data) = (place.path().join("s"), place.path().join(data));
        Home::from_env(None, |name| match name {
            "XDG_STATE_HOME" => Some(state.clone().into()),
            "XDG_DATA_HOME" => Some(data.clone().into()),
            _ => Some(place.path().into()),
        })
        .unwrap()
    };
    let (before, after) = (xdg("d"), xdg("d2"));
    check_again(&stopped(&before, disk(&before, "web"), serde_json::Value::Null)).unwrap();
    for home in [moved, after] {
        let vm = Vm::open(&home, "vm").unwrap();
        for refused in [settled(|| again(&vm, |_| {})).map(drop), check_again(&vm)] {
            let e = refused.unwrap_err().to_string();
            let is_told = e.starts_with("vm is not started: its disk ")
                && e.contains("/web/disk.img is one of another home");
            assert!(is_told, "{e}");
        }
    }
    let by_link = place.path().join("link");
    std::os::unix::fs::symlink(place.path().join("d"), &by_link).unwrap();
    check_again(&Vm::open(&xdg("link"), "vm").unwrap()).unwrap();
}

/// A disk of the same source had come under the name.
#[test]
fn a_vm_is_not_started_with_a_disk_that_was_made_anew() {
    let place = tempfile::tempdir().unwrap();
    let home = home(place.path());
    let path = disk(&home, "web");
    let record = path.with_file_name("disk.json");
    let plain = fs::read_to_string(&record).unwrap();
    let with = |id: &str| fs::write(&record, plain.replace('}', &format!(r#","id":"{id}"}}"#))).unwrap();
    with("one");
    let mut vm = stopped(&home, path, serde_json::Value::Null);
    vm.record.pool_disks = pool_disks(&home, &vm.record).unwrap();
    vm.record.save(&home).unwrap();
    check_again(&vm).unwrap();
    with("two");
    for refused in [settled(|| again(&vm, |_| {})).map(drop), check_again(&vm)] {
        let e = refused.unwrap_err().to_string();
        assert!(
            e.contains("its disk web was made anew, and is not the one that it had at the last start"),
            "{e}"
        );
    }
    // A disk of an earlier version has no number.
    fs::write(&record, &plain).unwrap();
    check_again(&vm).unwrap();
}
