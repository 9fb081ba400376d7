//! Places where a disk cannot be written. Most of them can be set up by root only.

use super::*;
use crate::ErrorKind;
use crate::target::disk::ForeignFile;
use crate::target::real_folder::RealFolder;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn run(program: &str, args: &[&str]) -> bool {
    match Command::new(program).args(args).output() {
        Ok(output) if output.status.success() => true,
        Ok(output) => {
            eprintln!("skipped: {program} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
            false
        }
        Err(e) => {
            eprintln!("skipped: {program}: {e}");
            false
        }
    }
}

/// A mount that is removed with the value.
struct Mounted(PathBuf);

impl Mounted {
    fn new(args: &[&str], at: &Path) -> Option<Self> {
        let at_text = at.to_str().unwrap();
        run("mount", &[args, &[at_text]].concat()).then(|| Mounted(at.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        run("umount", &[self.0.to_str().unwrap()]);
    }
}

fn refused(path: &Path) -> String {
    let e = FileTarget::create(path, FileOptions { size: Some(4096), ..FileOptions::default() });
    let e = e.err().unwrap_or_else(|| panic!("{} was taken", path.display()));
    assert_eq!(e.kind(), ErrorKind::Failed, "{e:?}");
    e.to_string()
}

#[test]
fn a_disk_that_becomes_full_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_mount) = Mounted::new(&["-t", "tmpfs", "-o", "size=4m", "tmpfs"], folder.path()) else {
        return;
    };
    let path = folder.path().join("disk.img");
    let target =
        FileTarget::create(&path, FileOptions { size: Some(1 << 30), ..FileOptions::default() }).unwrap();
    let data = [1; 64 << 10];
    let e = (0..).find_map(|i| target.write(i * data.len() as u64, &data).err()).unwrap();
    assert_eq!(e.kind(), ErrorKind::Failed);
    let text = e.to_string();
    assert!(text.contains("the disk is full: 4 MiB of") && text.contains("make room there"), "{text}");
    assert!(text.contains(" 0 bytes are free"), "{text}");
    assert!(std::error::Error::source(&e).is_some());
    drop(target);
    assert!(!path.exists() && folder.path().join("disk.img.partial").exists(), "it can be gone on with");
    discard(&path, None).unwrap();

    // A full disk that is known beforehand.
    let options = FileOptions { size: Some(1 << 30), needed: 5 << 20, preallocate: false };
    let e = FileTarget::create(&path, options).err().unwrap().to_string();
    assert!(e.contains("has 4 MiB free and the disk needs 5 MiB"), "{e}");
    FileTarget::create(&path, FileOptions { needed: 3 << 20, ..options }).unwrap();
}

#[test]
fn a_read_only_file_system() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_mount) = Mounted::new(&["-t", "tmpfs", "tmpfs"], folder.path()) else { return };
    fs::write(folder.path().join("old"), "old").unwrap();
    if !run("mount", &["-o", "remount,ro", folder.path().to_str().unwrap()]) {
        return;
    }
    assert!(refused(&folder.path().join("new")).contains("the file system is read-only"));
    assert!(refused(&folder.path().join("old")).contains("may not be written"));
}

#[test]
fn a_file_bound_into_place() {
    let folder = tempfile::tempdir().unwrap();
    let (inner, outer) = (folder.path().join("inner"), folder.path().join("outer"));
    fs::write(&inner, "inner").unwrap();
    fs::write(&outer, "outer").unwrap();
    let Some(_mount) = Mounted::new(&["--bind", outer.to_str().unwrap()], &inner) else { return };
    let e = FileTarget::create(&inner, FileOptions::default()).err().unwrap();
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("mount point"), "{e}");
}

#[test]
fn a_file_with_a_loop_device_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![0; 1 << 20]).unwrap();
    let output = Command::new("losetup").args(["--find", "--show"]).arg(&path).output();
    let Some(output) = output.ok().filter(|o| o.status.success()) else {
        eprintln!("skipped: no loop device");
        return;
    };
    let device = String::from_utf8(output.stdout).unwrap();
    let e = refused(&path);
    assert!(run("losetup", &["--detach", device.trim()]));
    assert!(e.contains(&format!("the loop device {} is attached", device.trim())), "{e}");
}

#[test]
fn an_immutable_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    fs::write(&path, "old").unwrap();
    if !run("chattr", &["+i", path.to_str().unwrap()]) {
        return;
    }
    let e = refused(&path);
    assert!(run("chattr", &["-i", path.to_str().unwrap()]));
    assert!(e.contains("may not be written") || e.contains("immutable"), "{e}");
    assert!(run("chattr", &["+a", path.to_str().unwrap()]));
    let e = refused(&path);
    assert!(run("chattr", &["-a", path.to_str().unwrap()]));
    assert!(e.contains("may not be written") || e.contains("append-only"), "{e}");
}

#[test]
fn what_an_ordinary_user_may_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mode = |path: PathBuf, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    mode(folder.path().into(), 0o755);
    fs::create_dir(at("closed")).unwrap();
    fs::create_dir(at("open")).unwrap();
    mode(at("open"), 0o777);
    fs::write(at("open/roots"), "x").unwrap();
    fs::create_dir(at("sticky")).unwrap();
    mode(at("sticky"), 0o1777);
    fs::write(at("sticky/roots"), "x").unwrap();
    mode(at("sticky/roots"), 0o666);

    // The kernel keeps user and group for each thread.
    let as_nobody = || {
        use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
        let (uid, gid) = (rustix::fs::Uid::from_raw(65534), rustix::fs::Gid::from_raw(65534));
        let dropped = set_thread_groups(&[])
            .and_then(|()| set_thread_res_gid(gid, gid, gid))
            .and_then(|()| set_thread_res_uid(uid, uid, uid));
        if let Err(e) = dropped {
            eprintln!("skipped: not root: {e}");
            return;
        }
        assert!(refused(&at("closed/new")).contains("no permission to make files in that folder"));
        assert!(refused(&at("open/roots")).contains("exists and may not be written"));
        assert!(refused(&at("sticky/roots")).contains("belongs to another user"));
        for name in ["open/new", "sticky/new"] {
            let target = FileTarget::create(&at(name), FileOptions::default()).unwrap();
            (Box::new(target) as Box<dyn Target>).finish().unwrap();
        }
        // The new file belongs to the ordinary user, and the one it replaces to root.
        fs::write(at("open/mine"), "x").unwrap();
        let target = FileTarget::create(&at("open/mine"), FileOptions::default()).unwrap();
        (Box::new(target) as Box<dyn Target>).finish().unwrap();
    };
    std::thread::scope(|s| s.spawn(as_nobody).join().unwrap());
}

/// As on an NFS server that maps root to the user nobody.
#[test]
fn a_run_goes_on_where_the_file_system_chooses_the_owner() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can have its files made under another user");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    ::tests::mapped::as_mapped_by_a_server(65534, || {
        let real = RealFolder::open(folder.path()).unwrap();
        let claim = || real.claim(OsStr::new("disk.img.partial"), ForeignFile::Refuse).unwrap();
        let first = claim();
        assert!(first.created);
        first.file.write_at(b"half", 0).unwrap();
        drop(first);
        let again = claim();
        assert!(!again.created, "it is gone on with");
        assert_eq!(again.file.len().unwrap(), 4);
        let journal = real.create(OsStr::new("disk.img.partial.journal")).unwrap();
        assert_eq!(journal.strange().unwrap(), None, "it is believed");
    });
}

/// A mistyped name of a device: the file would be in memory, and the device unchanged.
#[test]
fn no_file_is_made_among_the_devices() {
    for name in ["/dev/no-such-disk0p9", "/dev/no-such-disk0p9.img"] {
        let e =
            FileTarget::create(Path::new(name), FileOptions { size: Some(4096), ..FileOptions::default() });
        let e = e.err().unwrap_or_else(|| panic!("{name} was taken"));
        assert_eq!(
            (e.kind(), e.to_string().starts_with("there is no device /dev/no-such-disk0p9")),
            (ErrorKind::NotFound, true)
        );
        assert!(!Path::new(name).exists());
    }
}
