//! On loop devices, where this host permits them.

use super::*;
use crate::ErrorKind;
use crate::journal::{Conversion, Mark, Mode, Position};
use crate::source::Identity;
use std::process::{Command, Stdio};

/// A loop device over a file full of 0xAA.
struct Loop {
    device: PathBuf,
    _folder: tempfile::TempDir,
}

const SIZE: u64 = 16 << 20;

impl Loop {
    /// `None`, with the reason printed, where loop devices are not to be had.
    fn new(flags: &[&str]) -> Option<Loop> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("backing");
        std::fs::write(&file, vec![0xAA; SIZE as usize]).unwrap();
        let output = Command::new("losetup").args(["--find", "--show"]).args(flags).arg(&file).output();
        match output {
            Ok(output) if output.status.success() => {
                let device = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
                Some(Loop { device, _folder: folder })
            }
            Ok(output) => {
                eprintln!("skipped: no loop device: {}", String::from_utf8_lossy(&output.stderr));
                None
            }
            Err(e) => {
                eprintln!("skipped: no loop device: losetup: {e}");
                None
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; SIZE as usize];
        File::open(&self.device).unwrap().read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    fn refusal(&self, size: u64) -> String {
        let e = BlockTarget::open(&self.device, Some(size)).err().unwrap().to_string();
        assert!(e.contains(self.device.to_str().unwrap()), "{e}");
        e
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["--detach", self.device.to_str().unwrap()]);
    }
}

/// True if a command succeeded; its output is printed as the reason of a skip.
fn run(program: &str, args: &[&str]) -> bool {
    match Command::new(program).args(args).stdout(Stdio::null()).output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            eprintln!("{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
            false
        }
        Err(e) => {
            eprintln!("{program}: {e}");
            false
        }
    }
}

/// Parts of a disk: begin, length, and the byte that fills it (0: passed as zeros).
const PIECES: [(u64, u64, u8); 9] = [
    (0, 4096, 1),
    (4096, 4096, 0),
    (8192, 1, 2),
    // Unaligned at both ends, longer than what is zeroed by a call.
    (8193, (1 << 20) + 7, 0),
    (8193 + (1 << 20) + 7, 500, 3),
    (8693 + (1 << 20) + 7, 511, 0),
    (9204 + (1 << 20) + 7, (1 << 20) + 3, 4),
    (9207 + (2 << 20) + 7, 8 << 20, 0),
    (9207 + (10 << 20) + 7, 1000, 0),
];
const END: u64 = PIECES[8].0 + PIECES[8].1;

#[test]
fn what_the_last_tenant_wrote_does_not_show_through() {
    for how in [PUNCH, ZERO, WRITE] {
        for backwards in [false, true] {
            let Some(device) = Loop::new(&[]) else { return };
            assert!(device.bytes().iter().all(|&b| b == 0xAA));
            let target = BlockTarget::open(&device.device, Some(END)).unwrap();
            assert_eq!((target.capacity(), target.order()), (SIZE, Order::Any));
            target.how.store(how, Ordering::Relaxed);
            let mut pieces = PIECES;
            if backwards {
                pieces.reverse();
            }
            for (at, len, byte) in pieces {
                match byte {
                    0 => target.zero(at, len).unwrap(),
                    byte => target.write(at, &vec![byte; len as usize]).unwrap(),
                }
            }
            target.sync().unwrap();
            let used = target.how.load(Ordering::Relaxed);
            assert!(used <= ZERO || how == WRITE, "the device fell back to writing zeros");
            (Box::new(target) as Box<dyn Target>).finish().unwrap();

            let mut want = vec![0xAA; SIZE as usize];
            for (at, len, byte) in PIECES {
                want[at as usize..(at + len) as usize].fill(byte);
            }
            let got = device.bytes();
            let wrong = got.iter().zip(&want).position(|(a, b)| a != b);
            assert_eq!(wrong, None, "by way {how}, backwards: {backwards}: wrong at this offset");
        }
    }
}

#[test]
fn many_threads_write_between_zeroed_ranges() {
    let Some(device) = Loop::new(&[]) else { return };
    let target = BlockTarget::open(&device.device, Some(SIZE)).unwrap();
    // Data of 1000 bytes, then zeros to the next 512 KiB and a bit: every edge lies inside a page.
    let step = (512 << 10) + 123;
    let starts: Vec<u64> = (0..SIZE / step).map(|i| i * step).collect();
    std::thread::scope(|s| {
        for lane in 0..4 {
            let (target, starts) = (&target, &starts);
            s.spawn(move || {
                for &at in starts.iter().skip(lane).step_by(4) {
                    target.write(at, &[at as u8 | 1; 1000]).unwrap();
                    target.zero(at + 1000, step - 1000).unwrap();
                }
            });
        }
    });
    let end = starts.last().unwrap() + step;
    target.zero(end, SIZE - end).unwrap();
    (Box::new(target) as Box<dyn Target>).finish().unwrap();
    let mut want = vec![0; SIZE as usize];
    for at in starts {
        want[at as usize..at as usize + 1000].fill(at as u8 | 1);
    }
    assert!(device.bytes() == want);
}

#[test]
fn a_device_that_is_too_small_is_refused_with_both_sizes() {
    let Some(device) = Loop::new(&[]) else { return };
    let e = BlockTarget::open(&device.device, Some(SIZE + 512)).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Refused);
    let e = e.to_string();
    assert!(e.contains("has 16777216 bytes (16 MiB)") && e.contains("needs 16777728"), "{e}");
    // The size comes late.
    let target = BlockTarget::open(&device.device, None).unwrap();
    target.set_size(SIZE).unwrap();
    assert_eq!(target.set_size(SIZE + 1).unwrap_err().kind(), ErrorKind::Refused);
    target.write(SIZE - 1, &[1, 2]).unwrap_err();
    target.zero(u64::MAX, 2).unwrap_err();
    assert!(device.bytes().iter().all(|&b| b == 0xAA), "nothing was written");
}

#[test]
fn a_mounted_device_is_refused_and_the_mount_named() {
    let Some(device) = Loop::new(&[]) else { return };
    let at = tempfile::tempdir().unwrap();
    let (name, place) = (device.device.to_str().unwrap(), at.path().to_str().unwrap());
    if !run("mkfs.ext4", &["-q", name]) || !run("mount", &[name, place]) {
        eprintln!("skipped: nothing can be mounted here");
        return;
    }
    let e = device.refusal(4096);
    assert!(run("umount", &[place]));
    assert!(e.contains("in use") && e.contains(&format!("{name} is mounted on {place}")), "{e}");
    BlockTarget::open(&device.device, Some(4096)).unwrap();
}

/// True if a disk that is read from this path would be overwritten.
fn is_read_from(target: &BlockTarget, source: &Path) -> bool {
    Storage::of_path(source).unwrap().shared_with(&target.storage().unwrap()).is_some()
}

#[test]
fn a_device_with_a_mounted_partition_is_refused() {
    let Some(device) = Loop::new(&["--partscan"]) else { return };
    let name = device.device.to_str().unwrap();
    let table =
        format!("printf ',8M\\n' | sfdisk -q {name} && udevadm settle 2>/dev/null; partx -u {name}; true");
    run("sh", &["-c", &table]);
    let (partition, at) = (format!("{name}p1"), tempfile::tempdir().unwrap());
    let place = at.path().to_str().unwrap();
    if !run("mkfs.ext4", &["-q", &partition]) || !run("mount", &[&partition, place]) {
        eprintln!("skipped: no partition of a loop device to be had");
        return;
    }
    let e = device.refusal(4096);
    assert!(run("umount", &[place]));
    let target = BlockTarget::open(Path::new(&partition), Some(4096)).unwrap();
    assert!(is_read_from(&target, &device.device));
    drop(target);
    let target = BlockTarget::open(&device.device, Some(4096)).unwrap();
    assert!(is_read_from(&target, Path::new(&partition)));
    assert!(e.contains(&format!("{partition} is mounted on {place}")), "{e}");
}

#[test]
fn a_device_that_somebody_else_has_is_refused() {
    let Some(device) = Loop::new(&[]) else { return };
    let first = BlockTarget::open(&device.device, Some(4096)).unwrap();
    let e = device.refusal(4096);
    assert!(e.contains("in use") && e.contains("another process"), "{e}");
    drop(first);

    // Through a link, as under /dev/disk.
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("by-id");
    std::os::unix::fs::symlink(&device.device, &link).unwrap();
    let linked = BlockTarget::open(&link, Some(4096)).unwrap();
    assert!(is_read_from(&linked, &device.device) && !is_read_from(&linked, Path::new("/dev/null")));
    drop(linked);

    let name = device.device.to_str().unwrap();
    if run("mkswap", &[name]) && run("swapon", &[name]) {
        let e = device.refusal(4096);
        assert!(run("swapoff", &[name]));
        assert!(e.contains("is swap space"), "{e}");
    } else {
        eprintln!("skipped the part with swap");
    }
}

/// As virt-launcher claims the device of its guest, and QEMU opens it beside the claim.
#[test]
fn a_device_of_a_guest_is_refused_by_the_locks_of_its_qemu_and_not_by_its_claim() {
    let Some(device) = Loop::new(&[]) else { return };
    let Claim::Taken(claim) = claim_device(&device.device, Access::GuestWrites).unwrap() else {
        panic!("a new loop device is in use")
    };
    let qemu = ::tests::qemu_lock::qemu_lock(&device.device, ::tests::qemu_lock::WRITES);
    let e = device.refusal(4096);
    assert!(e.contains("in use: a running QEMU writes to it"), "{e}");
    drop((qemu, claim));
    BlockTarget::open(&device.device, Some(4096)).unwrap();
}

#[test]
fn what_is_no_writable_device_is_refused() {
    let open = |path: &str| BlockTarget::open(Path::new(path), None).err().unwrap();
    assert_eq!(open("/dev/null").kind(), ErrorKind::Refused);
    assert_eq!(open("/dev/no-such-device").kind(), ErrorKind::NotFound);
    let Some(device) = Loop::new(&["--read-only"]) else { return };
    let e = device.refusal(1);
    assert!(e.contains("read-only"), "{e}");
}

#[test]
fn an_earlier_run_is_gone_on_with_for_its_owner_alone() {
    let Some(device) = Loop::new(&[]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let start = |owner: &str| {
        let identity = Some(Identity::of_content("sha256:00".into(), Some(SIZE)));
        let (source, plan, owner) = ("x".into(), "raw".into(), Some(owner.into()));
        let job = Conversion { source, identity, plan, owner };
        let target = BlockTarget::open(&device.device, Some(SIZE)).unwrap();
        target.start(folder.path(), &job, Mode::Auto).unwrap()
    };
    let begun = start("a");
    assert!(begun.mark.is_none() && begun.anew.is_none());
    let mark = Mark { position: Position::Table { window: 7, done: 0 }, written: 5, sum: None };
    begun.journal.mark(&begun.target, &mark).unwrap();
    drop(begun);
    assert_eq!(start("a").mark, Some(mark));
    let other = start("b");
    assert!(other.mark.is_none() && other.anew.unwrap().contains("another owner"));
    drop((other.target, other.journal));
    assert!(start("a").mark.is_none(), "the other one has written to it");
    forget(&device.device, folder.path()).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Written bytes wait in the page cache of the device until a sync. A loop device then writes them to its
/// file.
#[test]
fn bytes_are_on_the_device_when_a_sync_or_the_end_says_so() {
    let Some(device) = Loop::new(&[]) else { return };
    let target = BlockTarget::open(&device.device, Some(SIZE)).unwrap();
    let below = |at: u64| {
        let mut byte = [0];
        File::open(device._folder.path().join("backing")).unwrap().read_exact_at(&mut byte, at).unwrap();
        byte[0]
    };
    target.write(0, &[1; 4096]).unwrap();
    target.sync().unwrap();
    assert_eq!(below(0), 1, "a mark would speak of what is not there");
    target.write(8192, &[2; 4096]).unwrap();
    target.zero(16384, 4096).unwrap();
    let done = (Box::new(target) as Box<dyn Target>).finish().unwrap();
    assert_eq!((below(8192), below(16384)), (2, 0));
    assert_eq!(done.allocated, 3 * 4096);
}
