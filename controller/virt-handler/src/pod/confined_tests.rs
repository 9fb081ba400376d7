use super::*;
use crate::pod::socket::try_connect;
use rustix::fs::inotify;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};

fn place() -> (tempfile::TempDir, Folder) {
    let place = tempfile::tempdir().unwrap();
    let folder = Folder::open(place.path()).unwrap();
    (place, folder)
}

#[test]
fn no_link_is_followed_wherever_it_stands_or_leads() {
    let (place, folder) = place();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "s").unwrap();
    fs::create_dir(place.path().join("inside")).unwrap();
    fs::write(place.path().join("inside/secret"), "s").unwrap();
    symlink(outside.path().join("secret"), place.path().join("file")).unwrap();
    symlink(outside.path(), place.path().join("folder")).unwrap();
    symlink("inside", place.path().join("near")).unwrap();
    symlink("/proc/self/root", place.path().join("magic")).unwrap();
    for path in ["file", "folder/secret", "near/secret", "magic/etc/passwd"] {
        for said in [folder.read(path).unwrap_err(), folder.write(path).unwrap_err()] {
            assert_eq!(said.kind(), ErrorKind::Refused, "{path}: {said}");
            assert!(said.to_string().contains("link"), "{path}: {said}");
        }
    }
    for path in ["folder", "near", "magic"] {
        assert!(folder.folder(path).unwrap_err().to_string().contains("link"), "{path}");
        assert!(
            folder.create_all(&format!("{path}/new")).unwrap_err().to_string().contains("link"),
            "{path}"
        );
        assert!(folder.create(&format!("{path}/new")).is_err(), "{path}");
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(folder.held("file").map(|held| held.kind()).unwrap_err().kind(), ErrorKind::Refused);
}

#[test]
fn no_path_leads_out() {
    let (place, folder) = place();
    fs::create_dir(place.path().join("a")).unwrap();
    for path in ["..", "../x", "a/../../x", "/etc/passwd", "/"] {
        let said = folder.read(path).unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Refused, "{path}: {said:?}");
    }
    for name in ["", ".", "..", "a/b", "/x"] {
        assert!(folder.remove(name).is_err() && folder.metadata(name).is_err(), "{name:?}");
        assert!(folder.rename(name, "b").is_err() && folder.rename("a", name).is_err(), "{name:?}");
    }
}

#[test]
fn what_is_mounted_in_a_folder_is_not_walked_where_the_folder_alone_is_meant() {
    let root = Folder::open(Path::new("/")).unwrap();
    assert!(root.folder("proc").is_ok(), "it is mounted there");
    let said = root.alone().unwrap().folder("proc").unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Refused, "{said}");
}

#[test]
fn what_has_a_second_name_is_given_to_nobody() {
    let (place, folder) = place();
    fs::write(place.path().join("one"), "").unwrap();
    fs::hard_link(place.path().join("one"), place.path().join("two")).unwrap();
    let said = folder.held("one").unwrap().give_to_launcher().unwrap_err();
    assert!(said.to_string().contains("more than one hard link"), "{said}");
}

#[test]
fn a_root_keeps_its_own_links_in_it() {
    let (place, folder) = place();
    fs::create_dir_all(place.path().join("run/kubevirt")).unwrap();
    fs::create_dir(place.path().join("var")).unwrap();
    symlink("/run", place.path().join("var/run")).unwrap();
    fs::write(place.path().join("run/kubevirt/here"), "").unwrap();
    assert_eq!(folder.open_in_root("/var/run/kubevirt").unwrap().names(9).unwrap(), ["here"]);
    // A path out of the root ends at the root itself, never at the host's.
    symlink("/../../etc", place.path().join("var/etc")).unwrap();
    assert_eq!(folder.open_in_root("/var/etc").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_is_no_file_is_not_opened_and_a_pipe_does_not_stop_us() {
    let (place, folder) = place();
    fs::create_dir(place.path().join("dir")).unwrap();
    mknodat(CWD, place.path().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for name in ["dir", "pipe"] {
        assert!(folder.read(name).unwrap_err().to_string().contains("not a regular file"), "{name}");
        let said = try_connect(folder.held(name).unwrap()).unwrap_err().to_string();
        assert!(said.contains("not a socket"), "{name}: {said}");
    }
}

/// Files opened in a folder since the last call, according to the kernel.
struct Opened(OwnedFd);

impl Opened {
    fn of(folder: &Path) -> Opened {
        let watch = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watch, folder, inotify::WatchFlags::OPEN).unwrap();
        Opened(watch)
    }

    fn names(&self) -> Vec<String> {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.0, &mut buffer);
        let mut names = Vec::new();
        while let Ok(event) = reader.next() {
            names.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
        names
    }
}

/// Opening alone can do harm: a device that a tenant chose begins to wind, a pipe lets its writer go.
#[test]
fn what_is_no_file_is_not_even_opened() {
    let (place, folder) = place();
    let make = |name: &str, kind: FileType, device: u64| {
        mknodat(CWD, place.path().join(name), kind, Mode::RUSR | Mode::WUSR, device)
    };
    make("pipe", FileType::Fifo, 0).unwrap();
    let mut names = vec!["pipe"];
    // Only root may make a device, and only where the file system allows it. This one is /dev/null.
    if make("device", FileType::CharacterDevice, rustix::fs::makedev(1, 3)).is_ok() {
        names.push("device");
    }
    let _listener = std::os::unix::net::UnixListener::bind(place.path().join("socket")).unwrap();
    names.push("socket");
    fs::write(place.path().join("file"), "f").unwrap();
    let opened = Opened::of(place.path());
    for name in names {
        let held = folder.held(name).unwrap();
        let tries =
            [folder.read(name), folder.write(name), held.open(Access::Read), held.open(Access::Write)];
        for said in tries {
            let said = said.unwrap_err();
            assert_eq!(said.kind(), ErrorKind::Refused, "{name}: {said}");
            assert!(said.to_string().contains("not a regular file"), "{name}: {said}");
        }
        assert_eq!(opened.names(), Vec::<String>::new(), "{name} was opened");
    }
    folder.read("file").unwrap();
    assert_eq!(opened.names(), ["file"], "a file is opened, and that is seen");
}

#[test]
fn what_is_opened_is_what_was_looked_at() {
    let (place, folder) = place();
    let (file, other) = (place.path().join("disk.img"), place.path().join("other"));
    fs::write(&file, "the disk").unwrap();
    let held = folder.held("disk.img").unwrap();
    fs::write(&other, "another").unwrap();
    fs::rename(&other, &file).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut held.open(Access::Read).unwrap(), &mut text).unwrap();
    assert_eq!(text, "the disk");
}

#[test]
fn a_new_file_never_takes_the_place_of_another() {
    let (place, folder) = place();
    symlink("elsewhere", place.path().join("link")).unwrap();
    fs::write(place.path().join("file"), "old").unwrap();
    assert!(folder.create("link").is_err() && folder.create("file").is_err());
    assert!(!place.path().join("elsewhere").exists());
    folder.create("new").unwrap();
    assert!(folder.rename("new", "file").is_err());
    assert_eq!(fs::read_to_string(place.path().join("file")).unwrap(), "old");
}

/// Another thread swaps a folder and a link to another tenant's folder as fast as it can; virt-handler never
/// writes there.
#[test]
fn a_race_leads_nowhere_else() {
    let (place, folder) = place();
    let other = tempfile::tempdir().unwrap();
    let (real, link) = (place.path().join("real"), place.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink(other.path(), &link).unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let swap = RenameFlags::EXCHANGE;
                renameat_with(CWD, &real, CWD, &link, swap).unwrap();
            }
        });
        let (mut written, mut number) = (0, 0);
        while written < 200 || number < 2000 {
            number += 1;
            if let Ok(folder) = folder.create_all(&format!("real/{number}"))
                && folder.create("disk.img").is_ok()
            {
                written += 1;
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0, "something was written to another's folder");
}
