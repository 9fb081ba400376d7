//! On loop devices and partitions, where this host permits them.

use super::*;
use ::tests::loop_device::{Loop, Partitions};
use ::tests::qemu_lock::{FORBIDS_WRITES, READS, WRITES, qemu_lock};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SIZE: u64 = 16 << 20;

/// A file in a new folder.
fn file() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
    (folder, path)
}

fn user(path: &Path, access: Access) -> Option<String> {
    Storage::of_path(path).unwrap().user(access)
}

fn users(path: &Path) -> [Option<String>; 2] {
    [user(path, Access::Reads), user(path, Access::Writes)]
}

/// Asserts that both a reader and a writer of one name are told of a guest that writes to another.
fn is_told(path: &Path, guest: &Path, place: &str) {
    assert_eq!(user(path, Access::Reads), None, "{path:?} is not used");
    let lock = qemu_lock(guest, WRITES);
    for said in users(path) {
        let said = said.unwrap_or_default();
        assert_eq!(said, format!("a running QEMU writes to {}{place}", guest.display()), "{path:?}");
    }
    drop(lock);
    let lock = qemu_lock(guest, READS);
    assert_eq!(user(path, Access::Reads), None, "a reader beside a reader");
    let said = user(path, Access::Writes).unwrap();
    assert!(said.contains("a running QEMU or another process has opened and locked"), "{said}");
    drop(lock);
}

fn run(program: &str, args: &[&Path]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

#[test]
fn a_guest_is_found_above_and_below_through_any_number_of_devices() {
    let (_folder, path) = file();
    let Some(first) = Loop::over(&path, &[]) else { return };
    let Some(second) = Loop::over(&first.0, &[]) else { return };
    let [below, above] = [", on which it lies", ", which lies on it"];
    for (one, guest, place) in [
        (&first.0, &path, below),
        (&second.0, &path, below),
        (&second.0, &first.0, below),
        (&first.0, &second.0, above),
    ] {
        is_told(one, guest, place);
    }
    // The file itself: a writer is told of the device over it anyway.
    let lock = qemu_lock(&second.0, WRITES);
    let said = user(&path, Access::Reads).unwrap();
    assert_eq!(said, format!("a running QEMU writes to {}, which lies on it", second.0.display()));
    drop(lock);
    assert_eq!(user(&path, Access::Reads), None);
    let said = user(&path, Access::Writes).unwrap();
    assert_eq!(said, format!("the loop device {} is attached to it", first.0.display()));
    drop((first, second));
}

#[test]
fn a_guest_is_found_in_partitions_of_a_disk_and_in_the_disk_of_a_partition() {
    let (_folder, path) = file();
    let Some(disk) = Loop::over(&path, &[]) else { return };
    let Some(partitions) = Partitions::of(&disk, 4 << 20) else { return };
    let [one, two] = &partitions.nodes;
    is_told(&disk.0, one, ", which lies on it");
    is_told(one, &disk.0, ", on which it lies");
    is_told(one, &path, ", on which it lies");
    // Two users of two partitions.
    let lock = qemu_lock(one, WRITES);
    assert_eq!(users(two), [None, None]);
    let Some(over) = Loop::over(two, &[]) else { return };
    assert_eq!(users(&over.0), [None, None]);
    drop(lock);
    is_told(&disk.0, &over.0, ", which lies on it");
    drop(over);
}

#[test]
fn a_guest_beside_a_storage_is_not_its_user() {
    let (folder, path) = file();
    let other = folder.path().join("other");
    fs::File::create(&other).unwrap().set_len(SIZE).unwrap();
    let over = |offset: &str| Loop::over(&path, &["--offset", offset, "--sizelimit", "8388608"]);
    let (Some(low), Some(high), Some(middle)) = (over("0"), over("8388608"), over("4194304")) else { return };
    let lock = qemu_lock(&low.0, WRITES);
    assert_eq!(users(&high.0), [None, None], "each has its own half of the file");
    assert_eq!(users(&other), [None, None], "files of one file system");
    let shared = format!("a running QEMU writes to {}, which has bytes in common with it", low.0.display());
    assert_eq!(users(&middle.0), [Some(shared.clone()), Some(shared)]);
    drop(lock);
    let lock = qemu_lock(&other, WRITES);
    assert_eq!(users(&low.0), [None, None]);
    assert_eq!(user(&path, Access::Reads), None);
    drop(lock);
}

#[test]
fn a_guest_that_writes_is_stopped_by_the_locks_that_stop_its_qemu_and_by_other_programs() {
    let (_folder, path) = file();
    let reads = qemu_lock(&path, READS);
    assert_eq!(user(&path, Access::GuestWrites), None, "a reader that permits writers");
    assert!(user(&path, Access::Writes).is_some(), "a conversion");
    let [writes, forbids, locked] =
        ["writes to", "permits no other program to write to", "or another process has opened and locked"];
    for (byte, why) in [
        (WRITES, Some(writes)),
        (103, Some(writes)),
        (FORBIDS_WRITES, Some(forbids)),
        (0, Some(locked)),
        (99, Some(locked)),
        (105, Some(locked)),
        (199, Some(locked)),
        (205, Some(locked)),
        (104, None),
        (203, None),
    ] {
        let lock = qemu_lock(&path, byte);
        let said = user(&path, Access::GuestWrites);
        assert_eq!(said, why.map(|why| format!("a running QEMU {why} it")), "byte {byte}");
        drop(lock);
    }
    drop(reads);
}

#[test]
fn a_guest_that_writes_is_judged_as_its_qemu_judges_it() {
    if qemu().arg("--version").output().is_err() {
        return eprintln!("skipped: no {QEMU}");
    }
    let (_folder, path) = file();
    let storage = Storage::of_path(&path).unwrap();
    for (reads_only, shares) in [(true, true), (true, false), (false, true), (false, false)] {
        let first = Qemu::with(&path, reads_only, shares).unwrap();
        let user = storage.user(Access::GuestWrites);
        let guest = storage.guest(Access::GuestWrites, "another");
        let starts = Qemu::with(&path, false, false).is_some();
        let case = format!("read-only: {reads_only}, shared: {shares}: {user:?}, {guest:?}");
        assert_eq!(starts, reads_only && shares, "QEMU itself: {case}");
        assert_eq!([user.is_none(), guest.is_none()], [starts; 2], "{case}");
        assert!(storage.guest(Access::Writes, "another").is_some(), "{case}");
        drop(first);
    }
}

const QEMU: &str = match cfg!(target_arch = "x86_64") {
    true => "qemu-system-x86_64",
    false => "qemu-system-aarch64",
};
const MACHINE: &str = if cfg!(target_arch = "x86_64") { "q35" } else { "virt" };

fn qemu() -> Command {
    Command::new(QEMU)
}

/// A QEMU with a disk, whose guest does not run. It ends with the value.
struct Qemu(Child);

impl Qemu {
    /// `None` if it refuses the disk.
    fn with(path: &Path, reads_only: bool, shares: bool) -> Option<Qemu> {
        let on = |on: bool| if on { "on" } else { "off" };
        let disk =
            format!("driver=file,filename={},node-name=disk,read-only={}", path.display(), on(reads_only));
        let device = format!("virtio-blk-pci,drive=disk,share-rw={}", on(shares));
        let mut command = qemu();
        command.args(["-machine", MACHINE, "-S", "-nodefaults", "-display", "none", "-qmp", "stdio"]);
        command.args(["-blockdev", &disk, "-device", &device]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut qemu = Qemu(command.spawn().unwrap());
        // One that refuses the disk has ended.
        let _ = writeln!(qemu.0.stdin.as_mut().unwrap(), r#"{{"execute": "qmp_capabilities"}}"#);
        let answers = BufReader::new(qemu.0.stdout.take().unwrap()).lines();
        // It answers when it has its devices.
        answers.map_while(Result::ok).any(|line| line.contains(r#""return""#)).then_some(qemu)
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The kubelet attaches a loop device to each block volume, to hold it.
#[test]
fn a_loop_device_over_a_device_is_not_its_user_and_its_mount_is() {
    let (folder, path) = file();
    let Some(device) = Loop::over(&path, &[]) else { return };
    let Some(holder) = Loop::over(&device.0, &[]) else { return };
    assert_eq!(users(&device.0), [None, None]);
    let at = folder.path().join("mounted");
    fs::create_dir(&at).unwrap();
    if !run("mkfs.ext4", &[Path::new("-q"), &holder.0]) || !run("mount", &[&holder.0, &at]) {
        return eprintln!("skipped: nothing can be mounted here");
    }
    let said = users(&device.0);
    // A file on that file system lies on a mounted device by nature.
    fs::write(at.join("disk"), "x").unwrap();
    let of_file = users(&at.join("disk"));
    assert!(run("umount", &[&at]));
    let mounted = format!("{} is mounted on {}", holder.0.display(), at.display());
    assert_eq!((said, of_file), ([None, Some(mounted)], [None, None]));
}

/// A second name of the file stays, and another file gets the path that the kernel lists.
#[test]
fn a_file_is_used_by_the_loop_device_that_got_it_by_a_name_that_is_gone() {
    let (folder, path) = file();
    let [kept, other, planted] = ["kept", "other", "disk (deleted)"].map(|name| folder.path().join(name));
    fs::hard_link(&path, &kept).unwrap();
    fs::write(&other, "of others").unwrap();
    let Some(device) = Loop::over(&path, &[]) else { return };
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&other, &planted).unwrap();
    let attached = format!("the loop device {} is attached to it", device.0.display());
    assert_eq!(users(&kept), [None, Some(attached.clone())]);
    assert_eq!(crate::file_in_use(&fs::File::open(&kept).unwrap()).unwrap(), Some(attached));
    assert_eq!(users(&other), [None, None]);
    assert_eq!(crate::file_in_use(&fs::File::open(&other).unwrap()).unwrap(), None);
    let lock = qemu_lock(&kept, WRITES);
    let said = user(&device.0, Access::Reads).unwrap();
    assert!(said.ends_with("/disk (deleted), on which it lies"), "{said}");
    drop(lock);
    let lock = qemu_lock(&other, WRITES);
    assert_eq!(users(&device.0), [None, None]);
    drop(lock);
}

/// A container has nodes of its own: that of another device may have the name by which the host has mounted one.
#[test]
fn a_node_here_with_the_name_of_a_device_that_the_host_uses_is_another_device() {
    let (folder, path) = file();
    let (_other, back) = file();
    let (Some(disk), Some(used)) = (Loop::over(&path, &[]), Loop::over(&back, &[])) else { return };
    let (node, at) = (folder.path().join("root"), folder.path().join("mounted"));
    fs::create_dir(&at).unwrap();
    let name = |device: &Loop| {
        let rdev = fs::metadata(&device.0).unwrap().rdev();
        let [major, minor] = [major(rdev), minor(rdev)].map(|number| PathBuf::from(number.to_string()));
        let _ = fs::remove_file(&node);
        run("mknod", &[&node, Path::new("b"), &major, &minor])
    };
    // Asserts the users of both while one is used, after the node of the other has taken the name.
    let are_used = |begin: &[&[&Path]], end: &[&Path], user: Option<String>| {
        if !name(&used) || !begin.iter().all(|args| run(args[0].to_str().unwrap(), &args[1..])) {
            return eprintln!("skipped: {begin:?} is not permitted here");
        }
        let named = name(&disk);
        let found = (users(&disk.0), users(&used.0));
        // The list has the path of the node.
        assert!(name(&used) && run(end[0].to_str().unwrap(), &end[1..]) && named);
        assert_eq!(found, ([None, None], [None, user]), "{begin:?}");
    };
    let [mount, mkfs, quiet, umount] = ["mount", "mkfs.ext4", "-q", "umount"].map(Path::new);
    let [kind, tmpfs, mkswap, swapon, swapoff] =
        ["-t", "tmpfs", "mkswap", "swapon", "swapoff"].map(Path::new);
    let mounted = format!("{} is mounted on {}", used.0.display(), at.display());
    let swap = format!("{} is swap space", used.0.display());
    are_used(&[&[mkfs, quiet, &node], &[mount, &node, &at]], &[umount, &at], Some(mounted.clone()));
    // A file system with a number of its own, as btrfs has, is known by its source alone.
    are_used(&[&[mount, kind, tmpfs, &node, &at]], &[umount, &at], None);
    are_used(&[&[mount, kind, tmpfs, &used.0, &at]], &[umount, &at], Some(mounted));
    are_used(&[&[mkswap, &node], &[swapon, &node]], &[swapoff, &node], None);
    are_used(&[&[mkswap, &used.0], &[swapon, &used.0]], &[swapoff, &used.0], Some(swap));
}

#[test]
fn a_lock_of_this_process_and_one_that_goes_at_once_do_not_count() {
    let (_folder, path) = file();
    let own = fs::File::open(&path).unwrap();
    own.lock().unwrap();
    assert_eq!(users(&path), [None, None]);
    drop(own);
    let lock = qemu_lock(&path, WRITES);
    let ends = std::thread::spawn(move || {
        std::thread::sleep(LINGERS / 10);
        drop(lock);
    });
    assert_eq!(user(&path, Access::Writes), None);
    ends.join().unwrap();
}

#[test]
fn a_program_that_has_locked_a_disk_for_itself_is_named() {
    let (_folder, path) = file();
    let hold = |kind: &str| {
        let mut command = Command::new("flock");
        command.args([kind, "--no-fork"]).arg(&path).args(["sleep", "60"]);
        command.spawn().ok()
    };
    for (kind, is_told) in [("--exclusive", true), ("--shared", false)] {
        let Some(mut program) = hold(kind) else { return eprintln!("skipped: no program flock") };
        let file = fs::File::open(&path).unwrap();
        while file.try_lock().is_ok() {
            file.unlock().unwrap();
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = users(&path);
        let locked = format!("another program (process {}) has locked it", program.id());
        program.kill().unwrap();
        program.wait().unwrap();
        let locked = is_told.then_some(locked);
        assert_eq!(said, [locked.clone(), locked], "{kind}");
    }
}
