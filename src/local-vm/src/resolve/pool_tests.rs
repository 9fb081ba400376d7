//! Disks of the pool that are there already, and what is asked for now.

use super::*;
use crate::from_image::Drive;
use crate::manifest::made;
use crate::new_name::{NewName, VmSource};
use crate::place::Home;
use crate::record::{Record, Vm};
use api::launcher::{Resolved, Sync};
use api::wire::Wire as _;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fs;

thread_local! {
    static SAID: RefCell<Vec<String>> = const { RefCell::new(vec![]) };
}

/// What the user was told since the last call.
fn said() -> Vec<String> {
    SAID.with(RefCell::take)
}

struct Place {
    images: Images,
    _folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(folder.path().join("h")), |_| None).unwrap();
        let notify = |text: &str| SAID.with_borrow_mut(|said| said.push(text.to_owned()));
        Place { images: Images::new(None, home, true, notify), _folder: folder }
    }

    /// A complete disk of this name, whose record has these fields, too.
    fn disk(&self, name: &str, more: &Value) {
        let folder = self.folder(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(DISK), [1; 8192]).unwrap();
        let mut record =
            json!({"schema": "coracle.disk/v1", "from": "nothing", "size": 8192, "created": "now"});
        record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fs::write(folder.join("disk.json"), record.to_string()).unwrap();
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.images.home.pool().join(name)
    }

    fn record(&self, name: &str) -> DiskRecord {
        DiskRecord::find(&self.folder(name)).unwrap().unwrap()
    }

    /// The pool for the first VM of these objects.
    fn pool<'a>(&'a self, namespace: &'a str, objects: &'a Objects) -> Pool<'a> {
        let vmi = objects.vmis.first().and_then(|vmi| vmi.object.metadata.name.as_deref());
        Pool { images: &self.images, objects, namespace, vm: vmi.unwrap_or("vm") }
    }

    /// Makes a stopped VM with the disk at this path.
    fn stopped(&self, home: &Home, vm: &str, path: PathBuf) {
        let volume = Source::File { path, format: Format::Raw, preallocated: false };
        let resolved = Resolved { volumes: [("root".to_owned(), volume)].into(), ..Resolved::default() };
        let sync = Sync { vmi: Value::Null, generation: 1, resolved };
        fs::create_dir_all(home.vm(vm)).unwrap();
        Record::new(vm, "x", false, sync, Path::new("/launcher")).save(home).unwrap();
    }

    fn forget(&self, vm: &str) {
        let home = &self.images.home;
        crate::vm_folder::forget(home, vm, home.lock_vm(vm).unwrap()).unwrap();
    }

    /// Checks and opens the disk of a PVC, as the start of a VM of this namespace does.
    fn open(&self, name: &str, namespace: &str, objects: &Objects) -> Result<Source> {
        let pool = self.pool(namespace, objects);
        let held = HeldDisks::lock(&self.images, [name]).unwrap();
        let (checked, opened) =
            (pool.check(name, DiskUse::Written), pool.disk(name, &held, DiskUse::Written));
        assert_eq!(
            checked.as_ref().err().map(ToString::to_string),
            opened.as_ref().err().map(ToString::to_string)
        );
        opened
    }

    #[track_caller]
    fn is_refused(&self, name: &str, namespace: &str, objects: &Objects, why: &str) {
        let e = self.open(name, namespace, objects).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains(why), "{e}");
    }
}

/// The record of a disk from this address.
fn from(address: &str) -> Value {
    let origin = Origin::of(Some(&volume(address)));
    json!({"from": origin.shown, "address": origin.address, "namespace": "default"})
}

fn volume(address: &str) -> DataVolume {
    let objects = arguments("web", "web", address);
    objects.data_volumes["web"].object.clone()
}

/// Objects of `coracle run ADDRESS --name VM`, with the disk under this name.
fn arguments(vm: &str, name: &str, address: &str) -> Objects {
    let objects = made(
        address,
        vec![
            json!({
                "apiVersion": "cdi.kubevirt.io/v1beta1",
                "kind": "DataVolume",
                "metadata": {"name": name},
                "spec": {"storage": {}, "source": {"http": {"url": address}}},
            }),
            json!({
                "apiVersion": "kubevirt.io/v1",
                "kind": "VirtualMachineInstance",
                "metadata": {"name": vm},
                "spec": {"domain": {"devices": {}}},
            }),
        ],
    );
    assert!(objects.faults.is_empty(), "{:?}", objects.faults);
    objects
}

fn manifest(name: &str, address: &str) -> Objects {
    let mut objects = arguments("vm", name, address);
    objects.is_of_arguments = false;
    objects
}

const A: &str = "http://h/image?os=a";

/// The address is shown without them, and the VM booted the disk of the other one.
#[test]
fn an_address_with_another_query_or_user_is_another_disk() {
    let place = Place::new();
    place.disk("web", &from(A));
    for same in [A, "HTTP://h:80/image?os=a", "http://h/image?os=a#part"] {
        place.open("web", "default", &arguments("web", "web", same)).unwrap();
        place.open("web", "default", &manifest("web", same)).unwrap();
    }
    assert_eq!(said(), [""; 0]);
    let hidden = "made from http://h/image?… with another query or user";
    for other in ["http://h/image?os=b", "http://u:p@h/image?os=a"] {
        place.is_refused("web", "default", &arguments("web", "web", other), hidden);
        place.open("web", "default", &manifest("web", other)).unwrap();
        assert_eq!(said(), [format!("coracle: web keeps the disk that it has, which was {hidden}")]);
    }
    let differs = "made from http://h/image?…, not from http://h/image; give the new VM another --name";
    place.is_refused("web", "default", &arguments("web", "web", "http://h/image"), differs);
    place.disk("web", &from("http://u:p@h/image"));
    let hidden = "made from http://h/image with another query or user";
    place.is_refused("web", "default", &arguments("web", "web", "http://h/image"), hidden);
    let record = fs::read_to_string(place.folder("web").join("disk.json")).unwrap();
    assert!(!record.contains("u:p"), "{record}");
}

/// The command that made the disk was refused after an upgrade.
#[test]
fn a_disk_of_an_earlier_version_gets_the_query_and_user_that_ask_for_it_first() {
    for own in [arguments("web", "web", A), manifest("web", A)] {
        let place = Place::new();
        place.disk("web", &json!({"from": "http://h/image?…", "namespace": "default"}));
        let mut record = place.record("web");
        record.address = Origin::of(Some(&volume(A))).address;
        assert!(record.address.is_some());
        place.open("web", "default", &own).unwrap();
        let told = "coracle: the disk web of an earlier version counts as one from http://h/image?… with this query and user \
                    from now on";
        assert_eq!(said(), [told]);
        assert_eq!(place.record("web"), record);
        place.open("web", "default", &own).unwrap();
        assert_eq!(said(), [""; 0], "once");
        let other = arguments("web", "web", "http://h/image?os=b");
        place.is_refused("web", "default", &other, "with another query or user");
    }

    let place = Place::new();
    place.disk("web", &json!({"from": "http://h/image", "namespace": "default"}));
    place.open("web", "default", &arguments("web", "web", "http://h/image")).unwrap();
    assert_eq!(said(), [""; 0], "nothing of it is hidden");
    place.is_refused("web", "default", &arguments("web", "web", "http://u@h/image"), "another query or user");
    place.disk("web", &json!({"from": "http://h/image", "namespace": "default"}));
    place.open("web", "default", &Objects::default()).unwrap();
    assert_eq!(place.record("web").address, None, "no source is asked for");
}

/// The signature in an address is another one each day.
#[test]
fn the_data_of_a_refused_disk_is_reached() {
    let place = Place::new();
    place.disk("web", &from(A));
    let disk = place.folder("web").join(DISK);
    let run = format!("'coracle run {}' boots that disk with all its data; 'coracle pool rm", disk.display());
    let other = arguments("web", "web", "http://h/image?os=b");
    place.is_refused("web", "default", &other, &run);
    place.is_refused("web", "test", &Objects::default(), &run);

    place.stopped(&place.images.home, "of-yaml", disk);
    let start = "'coracle start of-yaml' starts the VM with that disk; 'coracle pool rm";
    place.is_refused("web", "default", &other, start);
    place.is_refused("web", "test", &Objects::default(), start);
}

/// A test of the manifest of another VM wrote to its disk: the user of a disk was looked for by its path, in this home alone.
#[test]
fn a_test_takes_no_disk_that_it_has_not_imported() {
    let place = Place::new();
    let home = &place.images.home;
    place.disk("web", &from(A));
    let path = place.folder("web").join(DISK);
    let mut test = manifest("web", A);
    test.is_for_test = true;
    let why =
        "web is a disk of the VM own, and the test would write to it; give the DataVolume or PVC of the test";
    let link = home.pool().with_file_name("link");
    std::os::unix::fs::symlink(home.pool(), &link).unwrap();
    for path in [&path, &link.join("web").join(DISK)] {
        place.stopped(home, "own", path.clone());
        place.is_refused("web", "default", &test, why);
    }
    fs::write(home.vm_record("own"), "").unwrap();
    place.is_refused("web", "default", &test, "own/vm.json is not what coracle wrote");
    place.forget("own");
    let other = home.with_vms(&home.pool().with_file_name("other/vms"));
    place.stopped(&other, "away", path);
    let noted = Vm::open(&other, "away").unwrap().record;
    crate::raw_disks::keep(&other, Some(crate::raw_disks::StartOf::within(&other.vms())), noted.disks())
        .unwrap();
    place.is_refused("web", "default", &test, "web is a disk of the VM away in ");
    fs::remove_dir_all(other.vm("away")).unwrap();
    // The VM was removed, and its data was kept.
    place.is_refused("web", "default", &test, "web was there before, and the test would write to it; give");
    place.pool("default", &test).check("web", DiskUse::BelowOverlay).unwrap();
    test.imported.add("web");
    place.open("web", "default", &test).unwrap();
}

/// `run` booted the disk of a VM that a manifest had made.
#[test]
fn a_disk_of_arguments_is_not_that_of_another_vm_of_the_home() {
    let place = Place::new();
    let home = &place.images.home;
    let (own, path) = (arguments("web", "web", A), place.folder("web").join(DISK));
    let source = VmSource {
        name: "web".into(),
        made_from: "url 00".into(),
        is_image: false,
        drives: vec![Drive::Web(A.into())],
    };
    let derived = || NewName::derived(home, &source, false).unwrap().as_str().to_owned();
    place.disk("web", &from(A));
    place.stopped(home, "web", path.clone());
    place.open("web", "default", &own).unwrap();
    place.forget("web");
    assert_eq!(derived(), "web", "a disk of an earlier version");
    let link = home.pool().with_file_name("link");
    std::os::unix::fs::symlink(home.pool(), &link).unwrap();
    for path in [path, link.join("web").join(DISK)] {
        place.stopped(home, "db1", path);
        place.is_refused(
            "web",
            "default",
            &own,
            "web is a disk of the VM db1; give the new VM another --name",
        );
        assert_eq!(derived(), "web-2");
    }
    fs::write(home.vm_record("db1"), "").unwrap();
    place.is_refused("web", "default", &own, "db1/vm.json is not what coracle wrote");
    assert_eq!(derived(), "web-2", "it may be the disk of that VM");
    place.forget("db1");
    assert_eq!(derived(), "web");
}

/// The disk stays when its VM is removed, and has its data.
#[test]
fn a_kept_disk_of_a_manifest_is_not_that_of_arguments() {
    let place = Place::new();
    let home = &place.images.home;
    let mut kept = from(A);
    kept["vms"] = json!(home.vms());
    place.disk("web", &kept);
    let why = "web is a disk of a manifest; give the new VM another --name; 'coracle run ";
    place.is_refused("web", "default", &arguments("web", "web", A), why);
    place.open("web", "default", &manifest("web", A)).unwrap();
    let source = VmSource {
        name: "web".into(),
        made_from: "url 00".into(),
        is_image: false,
        drives: vec![Drive::Web(A.into())],
    };
    assert_eq!(NewName::derived(home, &source, false).unwrap().as_str(), "web-2");
    kept["vm"] = "web".into();
    place.disk("web", &kept);
    place.open("web", "default", &arguments("web", "web", A)).unwrap();
    assert_eq!(NewName::derived(home, &source, false).unwrap().as_str(), "web");
}

/// Objects of a manifest with a VM whose DataVolume `web` is a template of it.
fn with_template() -> Objects {
    let mut objects = made(
        A,
        vec![json!({
            "apiVersion": "kubevirt.io/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": "vm"},
            "spec": {
                "runStrategy": "Always",
                "dataVolumeTemplates": [{
                    "metadata": {"name": "web"},
                    "spec": {"storage": {}, "source": {"http": {"url": A}}},
                }],
                "template": {"spec": {"domain": {"devices": {}}}},
            },
        })],
    );
    assert!(objects.faults.is_empty(), "{:?}", objects.faults);
    objects.is_of_arguments = false;
    objects
}

/// The same manifest with another `--name` booted the disk of the first VM without a word.
#[test]
fn a_disk_of_a_manifest_that_another_vm_has_is_told_or_refused() {
    let place = Place::new();
    let home = &place.images.home;
    place.disk("web", &from(A));
    let path = place.folder("web").join(DISK);
    place.stopped(home, "vm", path.clone());
    place.open("web", "default", &with_template()).unwrap();
    place.open("web", "default", &manifest("web", A)).unwrap();
    assert_eq!(said(), [""; 0], "its own disk");
    place.stopped(home, "first", path);
    place.open("web", "default", &manifest("web", A)).unwrap();
    assert_eq!(said(), ["coracle: web is a disk of the VM first, too"]);
    let why = "web is a disk of the VM first, and the VM vm would write to it; give the DataVolume";
    place.is_refused("web", "default", &with_template(), why);
}

/// It grew under the guest of another VM.
#[test]
fn a_disk_in_use_does_not_grow() {
    let place = Place::new();
    place.disk("web", &from(A));
    let mut larger = manifest("web", A);
    let storage = json!({"storage": {"resources": {"requests": {"storage": "1Mi"}}}});
    let mut value = larger.data_volumes["web"].object.write();
    value["spec"].as_object_mut().unwrap().extend(storage.as_object().unwrap().clone());
    let located = larger.data_volumes.get_mut("web").unwrap();
    located.object = api::wire::read_in_part(value, &mut vec![]).unwrap();
    let path = place.folder("web").join(DISK);
    let file = fs::File::open(&path).unwrap();
    file.lock_shared().unwrap();
    place.open("web", "default", &larger).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 8192);
    drop(file);
    place.open("web", "default", &larger).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
}

/// A PVC of another namespace had the same disk.
#[test]
fn a_disk_is_one_of_its_namespace() {
    let place = Place::new();
    place.disk("data", &json!({"namespace": "prod"}));
    let none = Objects::default();
    place.open("data", "prod", &none).unwrap();
    let why = "the disk data is one of the namespace prod, and the VM is of the namespace test; give the PVC";
    place.is_refused("data", "test", &none, why);
    place.is_refused("data", "default", &arguments("data", "data", A), "of the namespace prod");
    assert_eq!(place.record("data").namespace.as_deref(), Some("prod"));
}

#[test]
fn a_disk_of_an_earlier_version_becomes_one_of_the_namespace_that_uses_it_first() {
    let place = Place::new();
    place.disk("data", &json!({"preallocated": true}));
    let mut record = place.record("data");
    record.namespace = Some("prod".into());
    place.open("data", "prod", &Objects::default()).unwrap();
    let told = "coracle: the disk data of an earlier version is one of the namespace prod from now on";
    assert_eq!(said(), [told]);
    assert_eq!(place.record("data"), record);
    place.open("data", "prod", &Objects::default()).unwrap();
    assert_eq!(said(), [""; 0], "once");
    place.is_refused("data", "test", &Objects::default(), "of the namespace prod");
}

/// `web-disk1` is the second disk of the VM `web`, and the first of the VM `web-disk1`.
#[test]
fn a_disk_of_arguments_is_that_of_one_vm() {
    let place = Place::new();
    place.disk("web-disk1", &from(A));
    let other = arguments("web-disk1", "web-disk1", A);
    place.open("web-disk1", "default", &other).unwrap();
    let mut owned = from(A);
    owned["vm"] = "web".into();
    place.disk("web-disk1", &owned);
    place.open("web-disk1", "default", &arguments("web", "web-disk1", A)).unwrap();
    place.is_refused("web-disk1", "default", &other, "web-disk1 is a disk of the VM web; give the new VM");
    place.open("web-disk1", "default", &manifest("web-disk1", A)).unwrap();
}

/// `run` of another home booted the disk of a stopped VM.
#[test]
fn a_disk_of_arguments_is_that_of_one_home() {
    let place = Place::new();
    let home = &place.images.home;
    let other = home.with_vms(&home.pool().with_file_name("other/vms"));
    let mut owned = from(A);
    owned["vm"] = "web".into();
    owned["vms"] = json!(other.vms());
    place.disk("web", &owned);
    let own = arguments("web", "web", A);
    place.open("web", "default", &own).unwrap();
    place.stopped(&other, "web", place.folder("web").join(DISK));
    let why =
        format!("web is a disk of the VM web in {}; give the new VM another --name", other.vms().display());
    place.is_refused("web", "default", &own, &why);
    place.open("web", "default", &manifest("web", A)).unwrap();
    let source = VmSource {
        name: "web".into(),
        made_from: "url 00".into(),
        is_image: false,
        drives: vec![Drive::Web(A.into())],
    };
    assert_eq!(NewName::derived(home, &source, false).unwrap().as_str(), "web-2");
    let images = Images::new(None, other, true, |_| {});
    let maker = Pool { images: &images, objects: &own, namespace: "default", vm: "web" };
    maker.check("web", DiskUse::Written).unwrap();
}

#[test]
fn a_disk_whose_removal_was_interrupted_is_not_imported_anew() {
    let place = Place::new();
    place.disk("web", &from(A));
    fs::rename(place.folder("web").join("disk.json"), place.folder("web").join("removing")).unwrap();
    let why = "its removal was interrupted; 'coracle pool rm -f web' ends it";
    place.is_refused("web", "default", &arguments("web", "web", A), why);
    place.is_refused("web", "default", &manifest("web", A), why);
    assert_eq!(fs::read(place.folder("web").join(DISK)).unwrap(), [1; 8192]);
}

#[test]
fn a_name_that_leads_out_of_the_pool_is_refused() {
    let place = Place::new();
    let none = Objects::default();
    let pool = place.pool("default", &none);
    for name in ["../web", "", "Web"] {
        assert_eq!(pool.check(name, DiskUse::Written).unwrap_err().kind(), ErrorKind::Usage, "{name}");
        HeldDisks::lock(&place.images, [name]).unwrap_err();
        assert!(!Pool::has(&place.images, name).unwrap());
    }
    assert!(!place.images.home.pool().join("../web").exists());
}

/// A VM that ran with it by its path lost its data to the next import.
#[test]
fn a_disk_of_an_unfinished_import_that_a_guest_has_written_to_is_not_imported_again() {
    let place = Place::new();
    let folder = place.folder("web");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("importing"), "").unwrap();
    let disk = folder.join(DISK);
    fs::write(&disk, [1; 8192]).unwrap();
    let home = &place.images.home;
    let volume = Source::File { path: disk.clone(), format: Format::Raw, preallocated: false };
    let resolved = Resolved { volumes: [("root".to_owned(), volume)].into(), ..Resolved::default() };
    let vmi = json!({"spec": {"volumes": [{"name": "root", "hostDisk": {"path": disk}}]}});
    let sync = Sync { vmi, generation: 1, resolved };
    fs::create_dir_all(home.vm("other")).unwrap();
    let mut record = Record::new("other", "x", false, sync, Path::new("/launcher"));
    let files = crate::host_file::files(&record.sync.vmi).unwrap();
    record.host_disks = host_disks::recorded(&record, files);
    record.save(home).unwrap();
    let why =
        "disk.img is left of an import that did not end, and a VM has run with it since; move that file away";
    for own in [arguments("web", "web", A), manifest("web", A)] {
        place.is_refused("web", "default", &own, why);
    }
    assert_eq!(fs::read(&disk).unwrap(), [1; 8192]);
    // Nor when that VM is removed.
    let record = Vm::open(home, "other").unwrap().record;
    crate::raw_disks::keep(home, Some(crate::raw_disks::StartOf::within(&home.vms())), record.disks())
        .unwrap();
    fs::remove_dir_all(home.vm("other")).unwrap();
    place.is_refused("web", "default", &manifest("web", A), why);
}
