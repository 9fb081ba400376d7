//! The users of a device, and mounts, found in the kernel's lists, as text for errors. Users of a file are found
//! by [`crate::file_in_use`].

use crate::processes::lineage_files;
use rustix::fs::{major, minor};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// Files and folders of the kernel that are read here, but for those of processes.
const FACTS: [&str; 6] =
    ["/proc/locks", "/proc/swaps", "/proc/self/mountinfo", DEVICES, NAMED_DEVICES, "/sys/devices"];
/// Folder with a link for each block device, by its number.
const DEVICES: &str = "/sys/dev/block";
/// Folder with a link for each block device, by the name that the kernel has given it.
const NAMED_DEVICES: &str = "/sys/class/block";
/// States in which an array writes nothing, not even that it runs.
const PASSIVE_ARRAYS: [&str; 4] = ["clear", "inactive", "readonly", "read-auto"];
/// End of the listed path of a file whose name was deleted.
const DELETED: &[u8] = b" (deleted)";

/// Files and folders of the kernel from which this package tells the users of a disk. A program that confines itself keeps the
/// right to read them.
pub fn facts() -> Vec<PathBuf> {
    FACTS.into_iter().map(PathBuf::from).chain(lineage_files()).collect()
}

/// True if something is mounted on exactly this path (a file that a container runtime bound there).
pub fn is_mount_point(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    mounts().iter().any(|m| m.at == path)
}

/// The type of the file system on this device, if it shows all files as those of the user who mounted it,
/// the processes that created them on the server.
pub fn shows_one_owner(dev: u64) -> Option<String> {
    one_owner_of(&mounts(), (major(dev), minor(dev)))
}

fn one_owner_of(mounts: &[Mount], dev: (u32, u32)) -> Option<String> {
    let kind = &mounts.iter().find(|m| m.dev == dev)?.kind;
    ["cifs", "smb3", "smbfs", "fuse.sshfs"].contains(&kind.as_str()).then(|| kind.clone())
}

/// The users of a block device and of its partitions: mounts, swap, device mapper, RAID.
pub fn device_holders(rdev: u64) -> Vec<String> {
    let users = |rdev: u64| {
        let uppers = upper_devices(rdev).into_iter().map(move |upper| belongs(rdev, upper));
        mounts_and_swap(rdev).into_iter().chain(uppers)
    };
    with_partitions(rdev).into_iter().flat_map(users).collect()
}

/// Places where a device is mounted, and its use as swap space, as sentences.
pub(crate) fn mounts_and_swap(rdev: u64) -> Vec<String> {
    let name = name(rdev);
    let is_mount = |mount: &&Mount| mount.device() == Some(rdev);
    let mounts = mounts();
    let mounted = mounts.iter().filter(is_mount).map(|m| format!("{name} is mounted on {}", m.at.display()));
    let swap = swaps().into_iter().filter(|&swap| swap == rdev).map(|_| format!("{name} is swap space"));
    mounted.chain(swap).collect()
}

/// "/dev/sda1 belongs to /dev/md0".
pub(crate) fn belongs(rdev: u64, upper: u64) -> String {
    let mapped = std::fs::read_to_string(sys_block(upper).join("dm/name")).unwrap_or_default();
    match mapped.trim() {
        "" => format!("{} belongs to {}", name(rdev), name(upper)),
        mapped => format!("{} belongs to /dev/mapper/{mapped}", name(rdev)),
    }
}

/// The devices that the kernel has made of this one: device mapper, RAID.
pub(crate) fn upper_devices(rdev: u64) -> Vec<u64> {
    let holders = std::fs::read_dir(sys_block(rdev).join("holders"));
    holders.into_iter().flatten().flatten().filter_map(|holder| number(&holder.path())).collect()
}

/// True for a device that writes nothing below it until it is used: a map of the device mapper, and an array that waits for its
/// first write, as udev starts each one that it finds, or does not run.
pub(crate) fn is_mapped(rdev: u64) -> bool {
    is_passive(&sys_block(rdev))
}

/// `folder`: that of the device in /sys.
fn is_passive(folder: &Path) -> bool {
    let array = std::fs::read_to_string(folder.join("md/array_state")).unwrap_or_default();
    folder.join("dm").exists() || PASSIVE_ARRAYS.contains(&array.trim())
}

/// The folder of a block device in /sys.
pub fn sys_block(rdev: u64) -> PathBuf {
    Path::new(DEVICES).join(format!("{}:{}", major(rdev), minor(rdev)))
}

/// The path of a device, as the kernel names it; its number if it is not known here.
pub(crate) fn name(rdev: u64) -> String {
    let folder = std::fs::canonicalize(sys_block(rdev)).ok();
    let name = folder.as_deref().and_then(Path::file_name);
    name.map_or_else(
        || format!("device {}:{}", major(rdev), minor(rdev)),
        // A slash in the name of a device is a '!' in that of its folder.
        |name| format!("/dev/{}", name.to_string_lossy().replace('!', "/")),
    )
}

/// The number of the device with this folder in /sys.
pub(crate) fn number(folder: &Path) -> Option<u64> {
    let (major, minor) = pair(&std::fs::read_to_string(folder.join("dev")).ok()?)?;
    Some(rustix::fs::makedev(major, minor))
}

/// The number of the device that a list of the kernel has by this path. Nodes of this /dev are not looked at: those of a
/// container have names of their own.
fn listed_device(path: &Path) -> Option<u64> {
    let named = |path: &Path| device_named(path, Path::new(NAMED_DEVICES));
    // A link, as /dev/vg/lv is one, leads to a name of the kernel.
    named(path).or_else(|| named(&path.canonicalize().ok()?))
}

/// The number of the device with this name in the /dev of the host. `devices`: the folder of devices by their names.
fn device_named(path: &Path, devices: &Path) -> Option<u64> {
    let name = path.strip_prefix("/dev").ok()?.to_str()?;
    let Some(map) = name.strip_prefix("mapper/") else {
        // A slash in the name of a device is a '!' in that of its folder.
        return number(&devices.join(name.replace('/', "!")));
    };
    let mut folders = std::fs::read_dir(devices).ok()?.flatten().map(|entry| entry.path());
    let is_map =
        |folder: &PathBuf| std::fs::read_to_string(folder.join("dm/name")).is_ok_and(|n| n.trim_end() == map);
    number(&folders.find(is_map)?)
}

/// A device and its partitions.
pub(crate) fn with_partitions(rdev: u64) -> Vec<u64> {
    let entries = std::fs::read_dir(sys_block(rdev)).into_iter().flatten().flatten();
    let partitions = entries.map(|entry| entry.path()).filter(|folder| folder.join("partition").exists());
    std::iter::once(rdev).chain(partitions.filter_map(|folder| number(&folder))).collect()
}

/// The numbers of all block devices.
pub(crate) fn block_devices() -> Vec<u64> {
    let devices = std::fs::read_dir(DEVICES).into_iter().flatten().flatten();
    let numbers = devices.filter_map(|device| pair(device.file_name().to_str()?));
    numbers.map(|(major, minor)| rustix::fs::makedev(major, minor)).collect()
}

/// The listed path without the end that the kernel adds to that of a file whose name was deleted. `None` if it has no such end.
pub(crate) fn without_deleted(path: &[u8]) -> Option<&[u8]> {
    path.strip_suffix(DELETED)
}

/// Parses "259:3" as two numbers.
pub(crate) fn pair(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

pub(crate) struct Mount {
    id: u64,
    /// Number of the file system, as the list of locks has it.
    pub(crate) dev: (u32, u32),
    at: PathBuf,
    kind: String,
    source: PathBuf,
}

impl Mount {
    /// The device that was mounted. A file system has its number, or one of its own with the major number 0, as btrfs has: then
    /// the source names the device.
    pub(crate) fn device(&self) -> Option<u64> {
        match self.dev {
            (0, _) => listed_device(&self.source),
            (major, minor) => Some(rustix::fs::makedev(major, minor)),
        }
    }
}

fn mounts() -> Vec<Mount> {
    parse_mounts(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
}

/// Parses lines like `36 35 98:0 /root /at rw,noatime shared:1 - ext3 /dev/root rw`; spaces in paths are
/// octal.
fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    let line = |line: &[u8]| {
        let mut words = line.split(|&b| b == b' ');
        let id = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let dev = pair(std::str::from_utf8(words.nth(1)?).ok()?)?;
        let at = PathBuf::from(unescape(words.nth(1)?));
        // The next fields follow any number of optional ones and a dash.
        let mut words = words.skip_while(|&word| word != b"-").skip(1);
        let kind = String::from_utf8_lossy(words.next()?).into_owned();
        let source = PathBuf::from(unescape(words.next()?));
        Some(Mount { id, dev, at, kind, source })
    };
    text.split(|&b| b == b'\n').filter_map(line).collect()
}

/// The mount with this ID.
pub(crate) fn mount(id: u64) -> Option<Mount> {
    mounts().into_iter().find(|mount| mount.id == id)
}

fn swaps() -> Vec<u64> {
    let paths = parse_swaps(&std::fs::read("/proc/swaps").unwrap_or_default());
    paths.iter().filter_map(|path| listed_device(path)).collect()
}

/// Parses lines like `/dev/sda2 partition 1048572 0 -2`, after a line of titles. A device whose node was deleted keeps its name.
fn parse_swaps(text: &[u8]) -> Vec<PathBuf> {
    let lines = text.split(|&b| b == b'\n').skip(1);
    let paths = lines.filter_map(|line| line.split(u8::is_ascii_whitespace).next());
    let path = |path| {
        let path = unescape(path).into_vec();
        let path = without_deleted(&path).map(<[u8]>::to_vec).unwrap_or(path);
        PathBuf::from(OsString::from_vec(path))
    };
    paths.filter(|path| !path.is_empty()).map(path).collect()
}

/// Undoes the kernel's `\040` for a space.
fn unescape(text: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u8::from_str_radix(d, 8).ok());
        match (first, octal) {
            (b'\\', Some(byte)) => {
                out.push(byte);
                rest = &tail[3..];
            }
            _ => {
                out.push(first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn reads_what_the_kernel_writes() {
        let text = b"36 35 98:0 / /a\\040b\\134c rw,noatime shared:1 - ext3 /dev/root rw\nnonsense\n40 1 0:5 / /dev rw - x y z\n";
        let mounts = parse_mounts(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!((mounts[0].dev, mounts[0].at.as_path()), ((98, 0), Path::new("/a b\\c")));
        assert_eq!((mounts[0].id, mounts[0].source.as_path()), (36, Path::new("/dev/root")));
        assert_eq!((mounts[1].dev, mounts[1].at.as_path()), ((0, 5), Path::new("/dev")));

        let text = b"50 35 0:51 / /share rw - cifs //server/share rw,uid=1000\n51 35 0:52 / /far rw shared:3 master:1 - fuse.sshfs host: rw\n52 35 0:53 / /glass rw - fuse.glusterfs volume rw\n";
        let mounts = parse_mounts(text);
        let kinds = [51, 52, 53, 54].map(|minor| one_owner_of(&mounts, (0, minor)));
        assert_eq!(kinds, [Some("cifs".into()), Some("fuse.sshfs".into()), None, None]);
    }

    #[test]
    fn swap_space_is_listed_by_the_name_that_its_device_had() {
        let text = b"Filename Type Size Used Priority\n\
            /dev/sda2 partition 8 0 -2\n\
            /dev/sdb\\040(deleted) partition 8 0 -3\n\
            /a\\040b\\040(deleted) file 8 0 -4\n";
        assert_eq!(parse_swaps(text), ["/dev/sda2", "/dev/sdb", "/a b"].map(PathBuf::from));
        assert_eq!(parse_swaps(b""), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_device_is_found_by_the_name_that_the_kernel_has_for_it() {
        let folder = tempfile::tempdir().unwrap();
        for (device, file, text) in [
            ("sda1", "dev", "8:1\n"),
            ("cciss!c0d0", "dev", "104:0\n"),
            ("dm-0", "dev", "253:0\n"),
            ("dm-3", "dev", "253:3\n"),
            ("dm-0/dm", "name", "vg-root\n"),
            ("dm-3/dm", "name", "vg-home\n"),
        ] {
            let place = folder.path().join(device);
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join(file), text).unwrap();
        }
        let found =
            |path: &str| device_named(Path::new(path), folder.path()).map(|rdev| (major(rdev), minor(rdev)));
        for (path, device) in [
            ("/dev/sda1", Some((8, 1))),
            ("/dev/cciss/c0d0", Some((104, 0))),
            ("/dev/dm-3", Some((253, 3))),
            ("/dev/mapper/vg-home", Some((253, 3))),
            ("/dev/mapper/vg", None),
            ("/dev/root", None),
            ("/dev", None),
            ("sda1", None),
            ("/sda1", None),
            ("tmpfs", None),
        ] {
            assert_eq!(found(path), device, "{path}");
        }
    }

    #[test]
    fn a_map_and_an_array_that_waits_for_its_first_write_write_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert!(!is_passive(folder), "a device of neither kind");
        std::fs::create_dir(folder.join("md")).unwrap();
        assert!(!is_passive(folder), "an array of unknown state");
        for (state, passive) in [
            ("clear", true),
            ("inactive", true),
            ("readonly", true),
            ("read-auto", true),
            ("suspended", false),
            ("clean", false),
            ("active", false),
            ("write-pending", false),
            ("active-idle", false),
            ("broken", false),
        ] {
            std::fs::write(folder.join("md/array_state"), format!("{state}\n")).unwrap();
            assert_eq!(is_passive(folder), passive, "{state}");
        }
        std::fs::create_dir(folder.join("dm")).unwrap();
        assert!(is_passive(folder), "a map");
    }

    #[test]
    fn the_root_file_system_is_held() {
        let root = std::fs::metadata("/").unwrap().dev();
        if major(root) == 0 || !sys_block(root).exists() {
            eprintln!("skipped: / is not on a block device here");
            return;
        }
        let held = device_holders(root);
        assert!(held.iter().any(|h| h.ends_with("is mounted on /")), "{held:?}");
        assert!(is_mount_point(Path::new("/proc")) && !is_mount_point(Path::new("/proc/self")));
    }

    #[test]
    fn a_mount_has_its_source_by_its_number() {
        let mounts = mounts();
        for one in &mounts {
            assert_eq!(mount(one.id).map(|found| found.source), Some(one.source.clone()));
        }
        let last = mounts.iter().map(|mount| mount.id).max().unwrap_or(0);
        assert!(mount(last + 1).is_none());
    }
}
