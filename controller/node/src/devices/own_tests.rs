use super::*;
use crate::error::ErrorKind;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};

/// A container's root with an empty /dev, and a file of the host's beside it.
fn root() -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir_all(place.path().join("root/dev/net")).unwrap();
    let victim = place.path().join("victim");
    fs::write(&victim, "of the host").unwrap();
    (place, victim)
}

/// As in the faults of container runtimes that took a link at /dev/null for the device.
#[test]
fn what_is_no_device_at_a_devices_path_is_not_given_away() {
    let (place, victim) = root();
    let (before, at) = (fs::metadata(&victim).unwrap(), place.path().join("root/dev/kvm"));
    let own = || own(&Folder::open(&place.path().join("root")).unwrap());
    own().unwrap();
    for target in [victim.as_path(), Path::new("../../victim"), Path::new("net")] {
        symlink(target, &at).unwrap();
        assert_eq!(own().unwrap_err().kind(), ErrorKind::Refused, "{}", target.display());
        fs::remove_file(&at).unwrap();
    }
    fs::hard_link(&victim, &at).unwrap();
    own().unwrap();
    let after = fs::metadata(&victim).unwrap();
    assert_eq!((after.uid(), after.gid(), after.mode()), (before.uid(), before.gid(), before.mode()));
    fs::remove_file(&at).unwrap();

    // A folder on the way that leads elsewhere.
    fs::create_dir(place.path().join("elsewhere")).unwrap();
    fs::hard_link(&victim, place.path().join("elsewhere/tun")).unwrap();
    fs::remove_dir(place.path().join("root/dev/net")).unwrap();
    symlink("../../elsewhere", place.path().join("root/dev/net")).unwrap();
    assert_eq!(own().unwrap_err().kind(), ErrorKind::Refused);
    assert_eq!(fs::metadata(&victim).unwrap().uid(), before.uid());
}

#[test]
fn a_pods_own_node_of_a_device_is_the_launchers() {
    if !rustix::process::geteuid().is_root() {
        return; // only root may make devices
    }
    let (place, _) = root();
    let at = place.path().join("root/dev/kvm");
    mknodat(CWD, &at, FileType::CharacterDevice, Mode::RUSR, makedev(10, 232)).unwrap();
    own(&Folder::open(&place.path().join("root")).unwrap()).unwrap();
    assert_eq!(fs::metadata(&at).unwrap().uid(), 107);
}
