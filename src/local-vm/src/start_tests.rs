//! Starts of VMs, with launchers that answer as a test says.

use super::*;
use crate::fake_launcher::FakeLauncher;
use api::launcher::{Resolved, StatePlace};

/// The guest of an earlier request passed for the new one, with the disk of the earlier one.
#[test]
fn a_guest_of_another_request_is_ended_and_is_not_the_one_that_was_to_start() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
    let sync = Sync { vmi: serde_json::json!({}), generation: 2, resolved: Resolved::default() };
    let vm = Vm { home: home.clone(), record: Record::new("vm", "x", false, sync, Path::new("/launcher")) };
    let launcher = FakeLauncher::start(&home, Life::Running, 1);
    let e = wait_for_start(&vm, &FakeLauncher::client(&home), &vm.record.sync).unwrap_err().to_string();
    assert!(e.contains("its launcher ran request 1 in place of 2"), "{e}");
    assert!(launcher.asked().last().unwrap().contains("destroy"), "{:?}", launcher.asked());
    assert_eq!(launcher.state().life, Life::Failed);
}

#[test]
fn a_guest_of_the_request_is_the_one_that_was_to_start() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
    let sync = Sync { vmi: serde_json::json!({}), generation: 2, resolved: Resolved::default() };
    let vm = Vm { home: home.clone(), record: Record::new("vm", "x", false, sync, Path::new("/launcher")) };
    let launcher = FakeLauncher::start(&home, Life::Running, 2);
    let state = wait_for_start(&vm, &FakeLauncher::client(&home), &vm.record.sync).unwrap();
    assert_eq!((state.life, state.generation), (Life::Running, 2));
    assert_eq!(launcher.state().life, Life::Running);
}

/// A VM with this file as its hostDisk, in this place of its request.
pub(crate) fn with_disk(home: &Home, path: &Path, source: Option<api::launcher::Source>) -> Vm {
    let volumes = serde_json::json!([{"name": "root", "hostDisk": {"path": path, "type": "DiskOrCreate"}}]);
    let volumes = serde_json::json!({"spec": {"volumes": volumes}});
    let resolved = Resolved {
        volumes: source.into_iter().map(|source| ("root".to_owned(), source)).collect(),
        ..Resolved::default()
    };
    let sync = Sync { vmi: volumes, generation: 1, resolved };
    std::fs::create_dir_all(home.vm("vm")).unwrap();
    let mut record = Record::new("vm", "x", false, sync, Path::new("/launcher"));
    record.host_disks = host_disks::recorded(&record, host_file::files(&record.sync.vmi).unwrap());
    record.save(home).unwrap();
    Vm::open(home, "vm").unwrap()
}

pub(crate) fn raw(path: &Path) -> Option<api::launcher::Source> {
    Some(api::launcher::Source::File { path: path.to_owned(), format: Format::Raw, preallocated: false })
}

/// It was recorded as a raw disk: a conversion copied a qcow2 image byte for byte, and the next `run` booted it so.
#[test]
fn a_file_that_a_failed_start_found_in_the_place_of_its_new_disk_is_no_raw_disk() {
    let place = tempfile::tempdir().unwrap();
    let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
    let disk = place.path().join("new.img");
    let mut vm = with_disk(&home, &disk, None);
    new_disk::make_disk(&mut vm.record, "root", &disk, 8192).unwrap();
    note_disks(&home, &vm.record).unwrap();
    vm.record.save(&home).unwrap();
    let made = place.path().join("made.img");
    std::fs::rename(&disk, &made).unwrap();
    std::fs::write(&disk, b"QFI\xfb\0\0\0\x03").unwrap();
    let e = host_disks::check_unchanged(&vm.record).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Refused);
    clean(&home, "vm", home.lock_vm("vm").unwrap());
    let told = |path: &Path| host_disks::format_of_host_disk(&home, path, |_| Ok(Format::Qcow2)).unwrap();
    assert_eq!(told(&disk), Format::Qcow2);
    assert!(!host_disks::is_written_raw(&home, &disk).unwrap());
    // The file that was made is raw, whatever is written into it.
    std::fs::write(&made, [&b"QFI\xfb\0\0\0\x03"[..], &[0; 8184]].concat()).unwrap();
    assert_eq!(told(&made), Format::Raw);
    assert!(host_disks::is_written_raw(&home, &made).unwrap());
}

/// The launcher of a VM without a TPM begins with the removal of the one that is there.
#[test]
fn a_vm_whose_place_another_one_could_not_take_has_its_efi_variables_and_its_tpm() {
    for fails in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
        let disk = place.path().join("disk.img");
        std::fs::write(&disk, vec![0; 8192]).unwrap();
        let vm = with_disk(&home, &disk, raw(&disk));
        let root = launch::root(&home, "vm");
        let state = ["nvram/vars.fd", "lib/swtpm/uuid/tpm2/permall"].map(|file| root.join(file));
        for file in &state {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "before").unwrap();
        }
        let earlier = EarlierState::copy(&home, "vm").unwrap();
        std::fs::remove_dir_all(root.join("lib/swtpm/uuid")).unwrap();
        std::fs::write(&state[0], "new").unwrap();
        let (before, lock) = (vm.record.clone(), home.lock_vm("vm").unwrap());
        let mut new = vm.record.clone();
        new.sync.generation = 2;
        new.save(&home).unwrap();
        if fails {
            bring_back(&home, before, &earlier, &lock);
            assert!(state.iter().all(|file| std::fs::read(file).unwrap() == b"before"));
        } else {
            earlier.remove().unwrap();
            assert!(std::fs::read(&state[0]).unwrap() == b"new" && !state[1].exists());
        }
        assert!(!root.join("earlier").exists());
    }
}

/// Its EFI variables were those that another user had put there.
#[test]
fn a_vm_is_not_started_again_with_state_that_others_can_change() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let home = Home::from_env(Some(place.path().join("h")), |_| None).unwrap();
    let folder = place.path().join("d.img.state");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let state = StatePlace { variables: folder.join("efi-vars.fd"), tpm: folder.join("tpm2") };
    let resolved = Resolved { state: Some(state), ..Resolved::default() };
    let sync = Sync { vmi: serde_json::json!({}), generation: 1, resolved };
    std::fs::create_dir_all(home.vm("vm")).unwrap();
    Record::new("vm", "x", false, sync, Path::new("/launcher")).save(&home).unwrap();
    let vm = Vm::open(&home, "vm").unwrap();
    for refused in [again(&vm, |_| {}).map(drop), check_again(&vm)] {
        let e = refused.unwrap_err().to_string();
        assert!(e.contains("d.img.state can be written to by others (mode 0777)"), "{e}");
    }
}
