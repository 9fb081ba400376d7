//! Disks of every kind, of sizes that are not a multiple of a block; a block device; the threads of disks.

use crate::vm::{Vm, ended, node_info, vmi};
use rustix::fs::OFlags;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{FileExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Not a multiple of any block size.
const ODD: u64 = 1_000_001;

#[test]
fn a_guest_writes_to_the_end_of_disks_of_any_size() {
    // A file system with a cache to pass by: the one for temporary files may have none.
    let here = tempfile::Builder::new().tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| here.path().join(name);
    for name in ["claim", "base"] {
        fs::File::create(at(name)).unwrap().set_len(ODD).unwrap();
    }
    let mut vmi = vmi("odd");
    let names = ["empty", "made", "claim", "base"];
    vmi["spec"]["domain"]["devices"]["disks"] =
        names.map(|name| json!({"name": name, "disk": {"bus": "virtio"}})).into_iter().collect();
    vmi["spec"]["volumes"] = json!([
        {"name": "empty", "emptyDisk": {"capacity": ODD.to_string()}},
        {"name": "made", "hostDisk": {"path": at("made"), "type": "DiskOrCreate", "capacity": ODD.to_string()}},
        {"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": "base", "containerDisk": {"image": "registry.example/odd:1"}},
    ]);
    let mut volumes = json!({
        "claim": {"kind": "file", "path": at("claim"), "format": "raw"},
        "base": {"kind": "image", "path": at("base"), "format": "raw"},
    });
    let devices = LoopDevice::new(&at("device")).zip(LoopDevice::new(&at("below")));
    if let Some((device, below)) = &devices {
        let disks = vmi["spec"]["domain"]["devices"]["disks"].as_array_mut().unwrap();
        disks.push(json!({"name": "device", "disk": {"bus": "virtio"}}));
        disks.push(json!({"name": "over", "disk": {"bus": "virtio"}}));
        disks.push(json!({"name": "tray", "cdrom": {"bus": "sata"}}));
        let claim = json!({"persistentVolumeClaim": {"claimName": "device"}});
        let over = json!({"ephemeral": {"persistentVolumeClaim": {"claimName": "below"}}});
        for (name, mut volume) in [("device", claim), ("over", over.clone()), ("tray", over)] {
            volume["name"] = json!(name);
            vmi["spec"]["volumes"].as_array_mut().unwrap().push(volume);
            let node = if name == "device" { &device.node } else { &below.node };
            volumes[name] = json!({"kind": "block", "path": node});
        }
    } else {
        eprintln!("without a block device: losetup does not make one here (it needs root)");
    }
    let mut vm = Vm::new();
    vm.launch();
    vm.boot_with(&vmi, &volumes);
    let mut console = vm.console();
    console.log_in();
    // The last sector of each, written past the guest's own cache, and read again.
    console.types(
        "for d in /dev/vd?; do n=$(($(blockdev --getsz $d) - 1)); \
         printf %-512s \"end of $d\" | dd of=$d bs=512 seek=$n oflag=direct 2>/dev/null; sync; \
         echo 3 >/proc/sys/vm/drop_caches; echo \"<$d $n $(dd if=$d bs=512 skip=$n 2>/dev/null | head -c 15)>\"; done",
    );
    console.says("</dev/vda 1959 end of /dev/vda>");
    console.says("</dev/vdb 1959 end of /dev/vdb>");
    console.says("</dev/vdc 1953 end of /dev/vdc>");
    console.says("</dev/vdd 1953 end of /dev/vdd>");
    if let Some((device, below)) = &devices {
        console.says("</dev/vde 16383 end of /dev/vde>");
        assert_eq!(&device.end(), b"end of /dev/vde");
        // The writes are the overlay's: the device below is only read.
        console.says("</dev/vdf 16383 end of /dev/vdf>");
        assert_eq!(below.end(), [0; 15]);
        assert_eq!(console.runs("blockdev --getsz /dev/sr0").trim(), "16384");
    }
}

/// Each disk has all threads of the pool, or one in turn where libvirt and QEMU are older.
#[test]
fn the_threads_of_a_pool_do_the_work_of_the_disks() {
    let mut vmi = vmi("pool");
    vmi["spec"]["domain"]["ioThreadsPolicy"] = json!("supplementalPool");
    vmi["spec"]["domain"]["ioThreads"] = json!({"supplementalPoolThreadCount": 3});
    vmi["spec"]["domain"]["devices"]["disks"] =
        ["one", "two"].map(|name| json!({"name": name, "disk": {"bus": "virtio"}})).into_iter().collect();
    vmi["spec"]["volumes"] = ["one", "two"]
        .map(|name| json!({"name": name, "emptyDisk": {"capacity": "8Mi"}}))
        .into_iter()
        .collect();
    let vm = Vm::running(&vmi);
    let line = fs::read(format!("/proc/{}/cmdline", vm.state()["qemu_pid"])).unwrap();
    let line = String::from_utf8(line).unwrap();
    // libvirt writes devices as JSON.
    let devices = line.split('\0').filter_map(|arg| serde_json::from_str::<Value>(arg).ok());
    let disks = devices
        .filter(|device| device["driver"].as_str().is_some_and(|driver| driver.starts_with("virtio-blk")));
    let node = node_info();
    let is_at_least = |program: &str, major: u32| {
        let version = node[program].as_str().unwrap();
        version.split('.').next().unwrap().parse::<u32>().unwrap() >= major
    };
    let thread = |number: usize| json!(format!("iothread{number}"));
    let has_mapping = is_at_least("libvirt", 10) && is_at_least("qemu", 9);
    let mut count = 0;
    for disk in disks {
        count += 1;
        let (all, own) = (&disk["iothread-vq-mapping"], &disk["iothread"]);
        match has_mapping {
            true => {
                let pool: Value = (1..=3).map(|number| json!({"iothread": thread(number)})).collect();
                assert_eq!((all, own), (&pool, &Value::Null), "{disk}");
            }
            false => assert_eq!((all, own), (&Value::Null, &thread(count)), "{disk}"),
        }
    }
    assert_eq!(count, 2, "{line}");
    if !has_mapping {
        eprintln!(
            "libvirt {} and QEMU {} give a disk one thread: several were not tried",
            node["libvirt"], node["qemu"]
        );
    }
    let mut console = vm.console();
    console.log_in();
    let copied = console.runs(
        "for d in /dev/vda /dev/vdb; do echo \"all of $d\" | dd of=$d conv=fsync 2>/dev/null; \
         echo 3 >/proc/sys/vm/drop_caches; head -c 15 $d; done",
    );
    assert_eq!(copied, "all of /dev/vdaall of /dev/vdb");
}

#[test]
fn a_device_is_claimed_as_long_as_qemu_runs_and_not_its_launcher() {
    let here = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
    let Some(device) = LoopDevice::new(&here.path().join("device")) else {
        return eprintln!("skipped: losetup does not make a block device here (it needs root)");
    };
    let node = Path::new(&device.node);
    let is_claimed = || {
        let exclusive = OFlags::EXCL.bits().cast_signed();
        match fs::File::options().read(true).custom_flags(exclusive).open(node) {
            Ok(_) => false,
            Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => true,
            Err(e) => panic!("{e}"),
        }
    };
    let mut vmi = vmi("claimed");
    vmi["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    let mut vm = Vm::new();
    vm.launch();
    vm.put(&vmi, &json!({"data": {"kind": "block", "path": node}}));
    let qemu = vm.until_runs()["qemu_pid"].clone();
    assert!(is_claimed(), "{}", vm.log());
    vm.kill();
    assert!(is_claimed(), "the claim has ended with the launcher");
    vm.launch();
    let state = vm.until("a take-over", |state| state["life"] == "Running" && state["doing"].is_null());
    assert_eq!(state["qemu_pid"], qemu);
    vm.request(&json!({"request": "pause"}));
    vm.until("a pause", |state| state["life"] == "Paused");
    assert!(is_claimed());
    vm.request(&json!({"request": "destroy"}));
    vm.until("an end", ended);
    let claim = storage::claim_device(node, storage::Access::Reads).unwrap();
    assert!(matches!(claim, storage::Claim::Taken(_)), "{claim:?}");
    assert!(!vm.log().contains("is not kept from other programs"), "{}", vm.log());
}

/// A block device of 8 MiB.
struct LoopDevice {
    node: String,
    file: PathBuf,
}

impl LoopDevice {
    /// `None` where this process may not make one.
    fn new(file: &Path) -> Option<LoopDevice> {
        fs::File::create(file).unwrap().set_len(8 << 20).unwrap();
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        let made = made.ok().filter(|made| made.status.success())?;
        let node = String::from_utf8(made.stdout).unwrap().trim().to_owned();
        Some(LoopDevice { node, file: file.to_owned() })
    }

    /// First bytes of the last sector.
    fn end(&self) -> [u8; 15] {
        let mut end = [0; 15];
        fs::File::open(&self.file).unwrap().read_exact_at(&mut end, (8 << 20) - 512).unwrap();
        end
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        // QEMU may still have it open; then it goes with QEMU.
        let _ = Command::new("losetup").args(["--detach", &self.node]).status();
    }
}
