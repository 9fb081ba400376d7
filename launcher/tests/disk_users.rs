//! A disk that another program uses, by whichever name: the launcher gives it to no guest, and keeps it for its own guest as long
//! as that runs. On loop devices, where this host permits them.

#![allow(clippy::unwrap_used)]

use api::launcher::{Format, Resolved, Source};
use api::machine::Machine;
use launcher::domain::host::Host;
use launcher::error::{Error, ErrorKind};
use launcher::hooks::Hooks;
use launcher::root::Root;
use launcher::vm::claims::Claims;
use launcher::vm::prepare::{PrepareMode, check_alone, prepare};
use rustix::fs::OFlags;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tests::disk::copy_program;
use tests::loop_device::{Loop, Partitions};
use tests::qemu_lock::{FORBIDS_WRITES, READS, WRITES, qemu_lock};

const SIZE: u64 = 16 << 20;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        File::create(&path).unwrap().set_len(SIZE).unwrap();
        path
    }

    /// Prepares the start of a VM with this disk.
    fn start(&self, name: &str, disk: &Value, source: Source) -> Result<Claims, Error> {
        self.prepare(name, disk, source, PrepareMode::Start(&Hooks::default()))
    }

    fn prepare(
        &self,
        name: &str,
        disk: &Value,
        source: Source,
        how: PrepareMode<'_>,
    ) -> Result<Claims, Error> {
        self.prepared(name, disk, source, how).map(|(_, _, claims)| claims)
    }

    fn prepared(
        &self,
        name: &str,
        disk: &Value,
        source: Source,
        how: PrepareMode<'_>,
    ) -> Result<(Machine, Host, Claims), Error> {
        let mut data = json!({"name": "data", "disk": {"bus": "virtio"}});
        data.as_object_mut().unwrap().extend(disk.as_object().unwrap().clone());
        let vmi = json!({
            "metadata": {"name": name, "namespace": "test"},
            "spec": {
                "domain": {
                    "memory": {"guest": "128Mi"},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": {"disks": [data]},
                },
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
        });
        let machine = Machine::check_again(&api::wire::read(vmi).unwrap()).unwrap();
        let root = Root::open(&self.0.path().join("root").join(name), self.0.path()).unwrap();
        let resolved = Resolved { volumes: [("data".to_owned(), source)].into(), ..Resolved::default() };
        let (host, claims) = prepare(&machine, &resolved, &root, how)?;
        Ok((machine, host, claims))
    }

    fn is_busy(&self, disk: &Value, source: Source, why: &str) {
        let said = self.start("other", disk, source).expect_err(why);
        assert_eq!(said.kind(), ErrorKind::Busy, "{}", said.chain());
        assert!(said.chain().contains("'data'") && said.chain().contains(why), "{}: not {why}", said.chain());
    }
}

fn block(device: &Path) -> Source {
    Source::Block { path: device.to_owned() }
}

fn raw(path: &Path) -> Source {
    Source::File { path: path.to_owned(), format: Format::Raw, preallocated: false }
}

/// A disk that the guest writes to.
fn own() -> Value {
    json!({})
}

fn read_only() -> Value {
    json!({"disk": {"bus": "virtio", "readonly": true}})
}

fn shareable() -> Value {
    json!({"shareable": true})
}

#[test]
fn a_device_is_kept_for_its_guest_as_long_as_it_runs() {
    let place = Place::new();
    let Some(disk) = Loop::over(&place.file("back"), &[]) else { return };
    let Some(partitions) = Partitions::of(&disk, 4 << 20) else { return };
    let [one, two] = &partitions.nodes;
    let claims = place.start("first", &own(), block(one)).unwrap();
    let held = "another process has it open for itself";
    place.is_busy(&own(), block(&disk.0), held);
    place.is_busy(&own(), block(one), held);
    // As a conversion opens its target.
    let exclusive = OFlags::EXCL.bits() as i32;
    let convert = || File::options().read(true).write(true).custom_flags(exclusive).open(one);
    assert_eq!(convert().unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
    let beside = place.start("second", &own(), block(two)).unwrap();
    place.start("third", &shareable(), block(one)).unwrap();
    place.start("third", &read_only(), block(one)).unwrap();
    // QEMU opens it beside the claim.
    File::options().read(true).write(true).open(one).unwrap();
    drop((claims, beside));
    place.start("other", &own(), block(&disk.0)).unwrap();
    drop(convert().unwrap());
}

/// Calls `check` while the device is mounted. False where nothing can be mounted.
fn while_mounted(place: &Place, device: &Loop, check: impl FnOnce(&Path) + std::panic::UnwindSafe) -> bool {
    let at = place.0.path().join("mounted");
    fs::create_dir(&at).unwrap();
    let run = |program: &str, args: &[&Path]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    if !run("mkfs.ext4", &[Path::new("-q"), &device.0]) || !run("mount", &[&device.0, &at]) {
        return false;
    }
    let checked = std::panic::catch_unwind(|| check(&at));
    assert!(run("umount", &[&at]));
    checked.unwrap();
    true
}

#[test]
fn a_device_that_is_mounted_is_given_to_no_guest_that_writes() {
    let place = Place::new();
    let Some(device) = Loop::over(&place.file("back"), &[]) else { return };
    let is_checked = while_mounted(&place, &device, |at| {
        place.is_busy(&own(), block(&device.0), &format!("is mounted on {}", at.display()));
        place.start("other", &read_only(), block(&device.0)).unwrap();
        // A VM that runs goes on.
        place.prepare("other", &own(), block(&device.0), PrepareMode::TakeOver).unwrap();
    });
    if !is_checked {
        return eprintln!("skipped: nothing can be mounted here");
    }
    place.start("other", &own(), block(&device.0)).unwrap();
}

#[test]
fn a_guest_that_has_the_bytes_under_another_name_is_in_the_way() {
    let place = Place::new();
    let file = place.file("back");
    let Some(device) = Loop::over(&file, &[]) else { return };
    // As the kubelet holds a block volume.
    let Some(holder) = Loop::over(&device.0, &[]) else { return };
    place.start("first", &own(), block(&device.0)).unwrap();
    place.start("first", &read_only(), raw(&file)).unwrap();
    place.is_busy(&own(), raw(&file), "is attached to it");
    let guest = qemu_lock(&file, WRITES);
    for disk in [own(), read_only()] {
        place.is_busy(&disk, block(&device.0), "a running QEMU writes to");
    }
    place.start("first", &shareable(), block(&device.0)).unwrap();
    drop(guest);
    let guest = qemu_lock(&holder.0, WRITES);
    place.is_busy(&own(), block(&device.0), "which lies on it");
    place.is_busy(&read_only(), raw(&file), "which lies on it");
    drop(guest);
    place.start("first", &own(), block(&device.0)).unwrap();
    drop((holder, device));
    place.start("first", &own(), raw(&file)).unwrap();
}

/// Its VM has the disk read-only and shareable.
#[test]
fn a_guest_that_reads_and_permits_writers_is_in_the_way_of_none() {
    let place = Place::new();
    let file = place.file("disk.img");
    let guest = qemu_lock(&file, READS);
    place.start("first", &own(), raw(&file)).unwrap();
    let forbids = qemu_lock(&file, FORBIDS_WRITES);
    place.is_busy(&own(), raw(&file), "a running QEMU permits no other program to write to it");
    place.start("first", &read_only(), raw(&file)).unwrap();
    drop((guest, forbids));
}

/// A guest that shares its disk was given a disk that another guest has for itself, or that the host has mounted.
#[test]
fn a_disk_that_is_shared_on_one_side_is_in_use_all_the_same() {
    let place = Place::new();
    let file = place.file("disk.img");
    let shares = qemu_lock(&file, WRITES);
    place.start("first", &shareable(), raw(&file)).unwrap();
    place.is_busy(&own(), raw(&file), "a running QEMU writes to it");
    let forbids = qemu_lock(&file, FORBIDS_WRITES);
    place.is_busy(&shareable(), raw(&file), "a running QEMU permits no other program to write to it");
    drop((shares, forbids));
    let Some(device) = Loop::over(&file, &[]) else { return };
    place.is_busy(&shareable(), raw(&file), "is attached to it");
    place.start("first", &shareable(), block(&device.0)).unwrap();
    let is_checked = while_mounted(&place, &device, |at| {
        place.is_busy(&shareable(), block(&device.0), &format!("is mounted on {}", at.display()));
    });
    if !is_checked {
        eprintln!("skipped: nothing can be mounted here");
    }
}

#[test]
fn a_file_that_another_program_writes_is_given_to_no_guest() {
    let place = Place::new();
    let file = place.file("disk.img");
    let program =
        Command::new("flock").args(["--exclusive", "--no-fork"]).arg(&file).args(["sleep", "60"]).spawn();
    let Ok(mut program) = program else { return eprintln!("skipped: no program flock") };
    let here = File::open(&file).unwrap();
    while here.try_lock().is_ok() {
        here.unlock().unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
    let locked = format!("another program (process {}) has locked it", program.id());
    place.is_busy(&own(), raw(&file), &locked);
    place.is_busy(&read_only(), raw(&file), &locked);
    place.is_busy(&shareable(), raw(&file), &locked);
    program.kill().unwrap();
    program.wait().unwrap();
    place.start("other", &own(), raw(&file)).unwrap();
}

/// Both were prepared before one of them had its QEMU.
#[test]
fn a_guest_that_starts_at_the_same_moment_is_seen_by_the_other_one() {
    let place = Place::new();
    let Some(device) = Loop::over(&place.file("back"), &[]) else { return };
    let start = PrepareMode::Start(&Hooks::default());
    let (machine, host, _claims) = place.prepared("first", &own(), block(&device.0), start).unwrap();
    check_alone(&machine, &host).unwrap();
    let qemu = place.0.path().join("qemu-system-x");
    copy_program("/bin/sleep", &qemu);
    let disk = File::options().read(true).write(true).open(place.0.path().join("back")).unwrap();
    let mut other = Command::new(&qemu).arg("60").stdin(disk).spawn().unwrap();
    // A new program has its name a moment after its parent goes on.
    while fs::read_to_string(format!("/proc/{}/comm", other.id())).unwrap().trim() != "qemu-system-x" {
        std::thread::yield_now();
    }
    let said = check_alone(&machine, &host).unwrap_err();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(said.kind(), ErrorKind::Busy);
    let whole = said.chain();
    assert!(whole.contains(&format!("used by the QEMU process {}", other.id())), "{whole}");
    check_alone(&machine, &host).unwrap();
}
