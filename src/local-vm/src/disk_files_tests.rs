//! Removals and starts in a home where VMs have disks in folders of ours, by their paths.

use super::*;
use crate::kept_disks;
use crate::raw_disks::StartOf;
use crate::vm_folder::{self, LeftFolder};
use api::launcher::{Format, Resolved, Sync};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};

struct Place {
    _folder: tempfile::TempDir,
    home: Home,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(folder.path().join("h")), |_| None).unwrap();
        Place { _folder: folder, home }
    }

    /// A file of the pool's disk `web`, which has its disk, too.
    fn in_pool(&self, name: &str) -> PathBuf {
        let folder = self.home.pool().join("web");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("disk.img"), "disk").unwrap();
        let record = r#"{"schema":"coracle.disk/v1","from":"blank","size":4,"created":"now"}"#;
        fs::write(folder.join("disk.json"), record).unwrap();
        write(&folder.join(name))
    }

    /// A stopped VM with this disk file of its user.
    fn vm(&self, name: &str, disk: &Path) -> Record {
        let source = Source::File { path: disk.to_owned(), format: Format::Raw, preallocated: false };
        let resolved = Resolved { volumes: [("root".to_owned(), source)].into(), ..Resolved::default() };
        let vmi = json!({"spec": {"volumes": [{"name": "root", "hostDisk": {"path": disk}}]}});
        let sync = Sync { vmi, generation: 1, resolved };
        let mut record = Record::new(name, "x", false, sync, Path::new("/launcher"));
        record.host_disks =
            crate::host_disks::recorded(&record, crate::host_file::files(&record.sync.vmi).unwrap());
        fs::create_dir_all(self.home.vm(name)).unwrap();
        record.save(&self.home).unwrap();
        record
    }

    fn forget(&self, name: &str) -> Result<()> {
        vm_folder::forget(&self.home, name, self.home.lock_vm(name).unwrap())
    }
}

fn write(path: &Path) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "of a guest").unwrap();
    path.to_owned()
}

/// They were removed with the disk of the pool, also while their VM ran.
#[test]
fn disks_beside_a_disk_of_the_pool_are_kept_for_their_vms() {
    for name in ["disk.img.partial", "mydisk.img", "deep/er.img", "disk.img.state/x.img"] {
        let place = Place::new();
        let path = place.in_pool(name);
        place.vm("other", &path);
        let e = kept_disks::remove(&place.home, "web", false).unwrap_err().to_string();
        assert!(e.contains("web is a disk of the stopped VM other"), "{name}: {e}");
        let running = File::open(&path).unwrap();
        running.lock_shared().unwrap();
        let e = kept_disks::remove(&place.home, "web", true).unwrap_err().to_string();
        assert!(e.contains("a disk of the VM other, is in use: it is locked"), "{name}: {e}");
        assert!(path.exists() && place.home.pool().join("web/disk.img").exists());
        running.unlock().unwrap();
    }
}

#[test]
fn a_removed_vms_unfinished_disk_is_removed_by_force_alone_and_other_files_never() {
    let place = Place::new();
    let (partial, own) = (place.in_pool("disk.img.partial"), place.in_pool("mine/notes.txt"));
    place.vm("other", &partial);
    place.forget("other").unwrap();
    let e = kept_disks::remove(&place.home, "web", false).unwrap_err().to_string();
    assert!(e.contains("disk.img.partial was a disk of a VM that is removed; move that file out"), "{e}");
    assert!(kept_disks::remove(&place.home, "web", true).unwrap() > 0);
    assert!(!partial.exists() && own.exists());
    assert_eq!(kept_disks::list(&place.home).unwrap(), [], "a folder with other files is no disk");
}

/// `rm A` removed the disk of B, which lay in the folder of A.
#[test]
fn the_folder_of_a_vm_with_the_disk_of_another_is_not_removed() {
    let place = Place::new();
    let overlay = write(&place.home.vm("a").join("root/disks/root.qcow2"));
    place.vm("a", Path::new("/none"));
    place.vm("b", &overlay);
    let e = place.forget("a").unwrap_err().to_string();
    assert!(e.contains("a is not removed: ") && e.contains("root.qcow2 is a disk of the VM b"), "{e}");
    assert!(overlay.exists() && Vm::find(&place.home, "a").unwrap().is_some());

    let (record, other) = (Vm::open(&place.home, "a").unwrap().record, place.home.vm("b"));
    let e = check_start(&place.home, &record).unwrap_err().to_string();
    assert!(e.contains("a is not started: it would replace ") && e.contains("a disk of the VM b"), "{e}");
    fs::remove_dir_all(other).unwrap();
    check_start(&place.home, &record).unwrap();
    // A VM of another home runs with it.
    let running = File::open(&overlay).unwrap();
    running.lock_shared().unwrap();
    let e = place.forget("a").unwrap_err().to_string();
    assert!(e.contains("root.qcow2 is in use: it is locked"), "{e}");
    running.unlock().unwrap();
    place.forget("a").unwrap();
    assert!(!place.home.vm("a").exists());
}

/// A removal and a start took the disk of a VM whose record is damaged, which lay among the disks of another one.
#[test]
fn a_disk_in_the_folder_of_another_vm_stays_while_a_record_cannot_be_read() {
    let place = Place::new();
    let disks = place.home.vm("a").join("root/disks");
    let [own, other] = ["root.qcow2", "other.img"].map(|name| write(&disks.join(name)));
    let record = place.vm("a", Path::new("/none"));
    place.vm("b", &own);
    fs::write(place.home.vm_record("b"), "").unwrap();
    for refused in [check_start(&place.home, &record), place.forget("a")] {
        let e = refused.unwrap_err().to_string();
        assert!(e.starts_with("a is not "), "{e}");
        assert!(e.contains("may be the disk of b: ") && e.contains("'coracle rm -f b'"), "{e}");
    }
    assert!(own.exists() && other.exists() && Vm::find(&place.home, "a").unwrap().is_some());
    // The damaged VM itself can be removed, and then the other one, but for a file that it has not made.
    write(&place.home.vm("b").join("root/disks/root.qcow2"));
    place.forget("b").unwrap();
    place.forget("a").unwrap();
    assert!(!own.exists() && other.exists() && Vm::find(&place.home, "a").unwrap().is_none());
}

/// A start made it anew, and a removal took it.
#[test]
fn a_disk_of_another_homes_vm_in_the_folder_of_a_vm_stays() {
    let place = Place::new();
    let overlay = write(&place.home.vm("a").join("root/disks/root.qcow2"));
    let record = place.vm("a", Path::new("/none"));
    let other =
        Place { home: place.home.with_vms(&place.home.vms().join("../../other/vms")), ..Place::new() };
    let of_other = other.vm("b", &overlay);
    raw_disks::keep(&other.home, Some(StartOf::within(&other.home.vms())), of_other.disks()).unwrap();
    for refused in [check_start(&place.home, &record), place.forget("a")] {
        let e = refused.unwrap_err().to_string();
        assert!(e.contains("root.qcow2") && e.contains("a disk of the VM b in "), "{e}");
    }
    fs::remove_dir_all(other.home.vms()).unwrap();
    let e = check_start(&place.home, &record).unwrap_err().to_string();
    assert!(e.contains("a disk of a VM that is removed") && overlay.exists(), "{e}");
    place.forget("a").unwrap();
}

/// An unfinished file with the number of a disk that is gone passed for that disk for ever.
#[test]
fn a_removed_disk_without_a_time_of_birth_is_kept_at_its_path_alone() {
    let place = Place::new();
    let path = place.in_pool("x.img.partial");
    let number = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
    let user = |disk: &Path| {
        let disk = json!({"path": disk, "file": {"id": {"ino": number}, "size": 10}, "is_writable": true});
        let list = json!({"schema": "coracle.raw-disks/v1", "disks": [disk]});
        fs::write(place.home.raw_disks(), list.to_string()).unwrap();
        DiskFiles::read_all(&place.home).unwrap().user_at(&path).unwrap()
    };
    assert_eq!(user(Path::new("/none/x.img")), None);
    assert_eq!(user(&path), Some(DiskUser::Gone));
}

/// It was kept as a file that is not ours, and the name was taken by it for ever.
#[test]
fn a_disk_that_an_earlier_run_of_a_vm_made_is_removed_with_it() {
    let place = Place::new();
    let earlier = write(&place.home.vm("a").join("root/disks/disk1.qcow2"));
    let mut record = place.vm("a", Path::new("/none"));
    record.sync.vmi["spec"]["volumes"][0]["name"] = json!("disk1");
    let before = record.all_volumes();
    record = place.vm("a", Path::new("/none"));
    record.earlier_volumes = before;
    record.save(&place.home).unwrap();
    assert_eq!(record.all_volumes().into_iter().collect::<Vec<_>>(), ["disk1", "root"]);
    place.forget("a").unwrap();
    assert!(!earlier.exists() && !place.home.vm("a").exists());
}

/// A full file system refused the removal that would have made room.
#[test]
fn a_removal_writes_no_list_where_the_start_has_noted_the_disks() {
    let place = Place::new();
    let disk = write(&place.home.vms().join("../disk.img"));
    let record = place.vm("a", &disk);
    raw_disks::keep(&place.home, Some(StartOf::within(&place.home.vms())), record.disks()).unwrap();
    fs::create_dir(beside(&place.home.raw_disks(), ".partial")).unwrap();
    place.forget("a").unwrap();
    let e = crate::host_disks::note_raw(&place.home, &place.in_pool("x.img")).unwrap_err().to_string();
    assert!(e.contains("raw-disks.json.partial"), "{e}");
}

/// The volumes of a record do not name a disk that the launcher has made.
#[test]
fn a_disk_in_the_pool_that_a_launcher_made_is_kept_for_its_vm() {
    let place = Place::new();
    let path = place.in_pool("made.img");
    let mut record = place.vm("other", &path);
    record.sync.resolved = Resolved::default();
    record.save(&place.home).unwrap();
    let e = kept_disks::remove(&place.home, "web", false).unwrap_err().to_string();
    assert!(e.contains("web is a disk of the stopped VM other") && path.exists(), "{e}");
}

/// The start removed the blank disk of a VM, since it held no data.
#[test]
fn an_unfinished_file_beside_a_new_disk_is_kept_for_its_vm() {
    let place = Place::new();
    let disk = place.home.vms().join("../new.img");
    for end in UNFINISHED {
        let blank = write(&beside(&disk, end));
        place.vm("other", &blank);
        let mut record = place.vm("new", &disk);
        record.sync.resolved = Resolved::default();
        for whose in ["a disk of the VM other", "a disk of a VM that is removed"] {
            let e = check_start(&place.home, &record).unwrap_err().to_string();
            assert!(e.contains(&format!("it would replace {}, {whose}", blank.display())), "{e}");
            if place.home.vm("other").exists() {
                place.forget("other").unwrap();
            }
        }
        fs::remove_file(blank).unwrap();
        check_start(&place.home, &record).unwrap();
    }
}

/// A listing removed them.
#[test]
fn a_folder_without_a_record_is_removed_only_if_a_start_left_it() {
    let place = Place::new();
    let vms = place.home.vms();
    let foreign = write(&vms.join("disks/a.img"));
    let state = write(&vms.join("lost/root/nvram/vars.fd"));
    let set_aside = write(&vms.join("aside/vm.json.bad"));
    write(&vms.join("killed/secrets/user-data"));
    write(&vms.join("starts/launcher.log"));
    let log = File::open(vms.join("starts/launcher.log")).unwrap();
    log.lock().unwrap();
    let of = |name: &str| LeftFolder::examine(&place.home, name).unwrap();
    assert_eq!(of("disks"), LeftFolder::Foreign(foreign.clone()));
    assert_eq!(of("lost"), LeftFolder::LostRecord(state.clone()));
    assert_eq!(of("aside"), LeftFolder::Foreign(set_aside.clone()));
    assert_eq!(of("killed"), LeftFolder::KilledStart);
    assert!(matches!(of("starts"), LeftFolder::Used(_)));
    for name in place.home.names().unwrap() {
        let lock = place.home.lock_vm(&name).unwrap();
        vm_folder::remove_left(&place.home, &name, &lock).unwrap();
    }
    assert!(foreign.exists() && state.exists() && set_aside.exists() && !vms.join("killed").exists());
    assert_eq!(crate::new_name::NewName::unused(&place.home, "lost").unwrap().as_str(), "lost-2");
    // A removal that the user asks for.
    place.forget("lost").unwrap();
    place.forget("disks").unwrap();
    assert!(!vms.join("lost").exists() && foreign.exists());
    drop(log);
}

/// Any folder whose name ended in `.gone` was removed.
#[test]
fn only_what_a_removal_set_aside_is_removed_later() {
    let place = Place::new();
    let vms = place.home.vms();
    let number = |folder: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(folder).unwrap());
    let kept = write(&vms.join(".disks.gone/a.img"));
    let other = write(&vms.join(".web.1.gone/a.img"));
    let [left, used] = ["web", "used"].map(|name| {
        write(&vms.join(name).join("root/disks/a.qcow2"));
        let folder = vms.join(name);
        let aside = vms.join(format!(".{name}.{}.gone", number(&folder)));
        fs::rename(folder, &aside).unwrap();
        aside
    });
    place.vm("b", &used.join("root/disks/a.qcow2"));
    vm_folder::clear_gone(&place.home);
    assert!(kept.exists() && other.exists() && used.exists() && !left.exists());
}

#[test]
fn a_vm_is_made_though_others_sweep_its_folder_away() {
    let Place { _folder, home } = Place::new();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if let Ok(lock) = home.lock_vm("a") {
                    vm_folder::clear(&home, "a").unwrap();
                    drop(lock);
                }
                // A sweep is over in a moment; one after the other without a pause would keep everybody out.
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        let made = || {
            let lock = home.claim_vm("a")?;
            fs::write(home.vm("a").join("launcher.log"), "mine").unwrap();
            drop(lock);
            Ok(())
        };
        let all: Result<()> = (0..200).try_for_each(|_| made());
        done.store(true, Ordering::Relaxed);
        all.unwrap();
    });
}
