use super::*;
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
            assert_eq!(said.kind(), Kind::Refused, "{path}: {said}");
            assert!(said.to_string().contains("link"), "{path}: {said}");
        }
    }
    for path in ["folder", "near", "magic"] {
        assert!(folder.folder(path).unwrap_err().to_string().contains("link"), "{path}");
        assert!(folder.made(&format!("{path}/new")).unwrap_err().to_string().contains("link"), "{path}");
        assert!(folder.create(&format!("{path}/new")).is_err(), "{path}");
    }
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(folder.held("file").map(|held| held.kind()).unwrap_err().kind(), Kind::Refused);
}

#[test]
fn no_path_leads_out() {
    let (place, folder) = place();
    fs::create_dir(place.path().join("a")).unwrap();
    for path in ["..", "../x", "a/../../x", "/etc/passwd", "/"] {
        let said = folder.read(path).unwrap_err();
        assert_eq!(said.kind(), Kind::Refused, "{path}: {said:?}");
    }
    for name in ["", ".", "..", "a/b", "/x"] {
        assert!(folder.remove(name).is_err() && folder.look(name).is_err(), "{name:?}");
        assert!(folder.rename(name, "b").is_err() && folder.rename("a", name).is_err(), "{name:?}");
    }
}

#[test]
fn a_root_keeps_its_own_links_in_it() {
    let (place, folder) = place();
    fs::create_dir_all(place.path().join("run/kubevirt")).unwrap();
    fs::create_dir(place.path().join("var")).unwrap();
    symlink("/run", place.path().join("var/run")).unwrap();
    fs::write(place.path().join("run/kubevirt/here"), "").unwrap();
    assert_eq!(folder.within("/var/run/kubevirt").unwrap().names(9).unwrap(), ["here"]);
    // Out of the root is its own top again: never the host's.
    symlink("/../../etc", place.path().join("var/etc")).unwrap();
    assert_eq!(folder.within("/var/etc").unwrap_err().kind(), Kind::NotFound);
}

#[test]
fn what_is_no_file_is_not_opened_and_a_pipe_does_not_stop_us() {
    let (place, folder) = place();
    fs::create_dir(place.path().join("dir")).unwrap();
    rustix::fs::mknodat(CWD, place.path().join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    for name in ["dir", "pipe"] {
        assert!(folder.read(name).unwrap_err().to_string().contains("no regular file"), "{name}");
        assert!(
            folder.held(name).unwrap().connect().unwrap_err().to_string().contains("no socket"),
            "{name}"
        );
    }
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

/// Somebody swaps a folder and a link to another tenant's folder as fast as can be; we never write there.
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
            if let Ok(folder) = folder.made(&format!("real/{number}"))
                && folder.create("disk.img").is_ok()
            {
                written += 1;
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0, "something was written to another's folder");
}

#[test]
fn a_socket_is_reached_by_what_is_held_and_tells_who_listens() {
    let (place, folder) = place();
    // A path that is too long for a socket's address.
    let deep = "d".repeat(60);
    fs::create_dir_all(place.path().join(&deep).join(&deep)).unwrap();
    let short = tempfile::tempdir().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(short.path().join("s")).unwrap();
    let path = format!("{deep}/{deep}/s");
    fs::rename(short.path().join("s"), place.path().join(&path)).unwrap();
    let (_stream, process) = folder.held(&path).unwrap().connect().unwrap();
    assert_eq!(process, std::process::id());
    drop(listener);
    let said = folder.held(&path).unwrap().connect().unwrap_err();
    assert_eq!(said.kind(), Kind::NotFound);
    assert!(said.to_string().contains("nobody listens"), "{said}");
}
