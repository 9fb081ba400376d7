//! The users of a device, and mounts, found in the kernel's lists, as text for errors. Users of a file are found
//! by [`crate::file_in_use`].

use rustix::fs::{major, minor};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
    let mut found = Vec::new();
    for (name, rdev) in with_partitions(rdev) {
        let id = (major(rdev), minor(rdev));
        found.extend(
            mounts()
                .iter()
                .filter(|m| m.dev == id)
                .map(|m| format!("{name} is mounted on {}", m.at.display())),
        );
        found.extend(swaps().into_iter().filter(|&d| d == rdev).map(|_| format!("{name} is swap space")));
        let holders = std::fs::read_dir(sys_block(rdev).join("holders"));
        found.extend(holders.into_iter().flatten().flatten().map(|h| {
            let holder = h.file_name().to_string_lossy().into_owned();
            let mapped = std::fs::read_to_string(h.path().join("dm/name")).unwrap_or_default();
            match mapped.trim() {
                "" => format!("{name} belongs to /dev/{holder}"),
                mapped => format!("{name} belongs to /dev/mapper/{mapped}"),
            }
        }));
    }
    found
}

/// The folder of a block device in /sys.
pub fn sys_block(rdev: u64) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{}:{}", major(rdev), minor(rdev)))
}

/// A device and its partitions, with names.
pub(crate) fn with_partitions(rdev: u64) -> Vec<(String, u64)> {
    let folder = sys_block(rdev);
    let name = std::fs::canonicalize(&folder)
        .ok()
        .and_then(|f| f.file_name().map(|n| format!("/dev/{}", n.to_string_lossy())))
        .unwrap_or_else(|| format!("device {}:{}", major(rdev), minor(rdev)));
    let mut all = vec![(name, rdev)];
    for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        let number = std::fs::read_to_string(entry.path().join("dev")).ok();
        if let (true, Some((major, minor))) =
            (entry.path().join("partition").exists(), number.and_then(|n| pair(&n)))
        {
            let name = format!("/dev/{}", entry.file_name().to_string_lossy());
            all.push((name, rustix::fs::makedev(major, minor)));
        }
    }
    all
}

/// Parses "259:3" as two numbers.
pub(crate) fn pair(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

struct Mount {
    id: u64,
    dev: (u32, u32),
    at: PathBuf,
    kind: String,
    source: PathBuf,
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

/// The source of the mount with this ID: the path of a device, if it is one.
pub(crate) fn source_of_mount(id: u64) -> Option<PathBuf> {
    mounts().into_iter().find(|mount| mount.id == id).map(|mount| mount.source)
}

fn swaps() -> Vec<u64> {
    let text = std::fs::read("/proc/swaps").unwrap_or_default();
    let paths = text.split(|&b| b == b'\n').skip(1).filter_map(|l| l.split(u8::is_ascii_whitespace).next());
    paths.filter_map(|p| std::fs::metadata(PathBuf::from(unescape(p))).ok()).map(|m| m.rdev()).collect()
}

/// Undoes the kernel's `\040` for a space.
fn unescape(text: &[u8]) -> std::ffi::OsString {
    use std::os::unix::ffi::OsStringExt;
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
    std::ffi::OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for mount in &mounts {
            assert_eq!(source_of_mount(mount.id).as_ref(), Some(&mount.source));
        }
        let last = mounts.iter().map(|mount| mount.id).max().unwrap_or(0);
        assert_eq!(source_of_mount(last + 1), None);
    }
}
