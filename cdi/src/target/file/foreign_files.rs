//! Files of other users in a disk's way: under the names of its unfinished files before a run, under its
//! final name during one.

use super::tests::{finish, folder, job, mode_of, names, refused, set_mode, sized};
use super::*;
use crate::ErrorKind;
use crate::journal::{Mark, Mode, Position};
use crate::target::disk::ForeignFile;
use crate::target::real_folder::RealFolder;
use crate::target::sim::SimFolder;
use rustix::fs::FlockOperation;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Mutex;
use std::time::Duration;
use storage::LastingFileId;
use storage::protected::{ProtectedFile, ProtectedFiles};

/// Puts another program's file under a name.
fn theirs(path: &Path) {
    let made = path.with_file_name("theirs");
    fs::write(&made, "theirs").unwrap();
    fs::rename(made, path).unwrap();
}

#[test]
fn a_planted_partial_is_replaced_and_never_becomes_the_disk() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let partial = folder.path().join("disk.img.partial");
    let root = rustix::process::geteuid().is_root();
    for (mode, owner) in [(0o666, None), (0o664, None), (0o620, None), (0o600, Some(1234))] {
        if owner.is_some() && !root {
            eprintln!("skipped: only root can make another user's file");
            continue;
        }
        fs::write(&partial, "planted").unwrap();
        set_mode(&partial, mode);
        std::os::unix::fs::chown(&partial, owner, owner).unwrap();
        // The file's author can still write to it.
        let theirs = File::options().write(true).open(&partial).unwrap();
        let target = FileTarget::create(&path, sized(4096)).unwrap();
        theirs.write_all_at(b"their bytes", 0).unwrap();
        target.write(0, b"ours").unwrap();
        finish(target);
        theirs.write_all_at(b"their bytes", 0).unwrap();
        let (bytes, meta) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap());
        assert!(bytes.starts_with(b"ours\0") && bytes.len() == 4096, "mode {mode:o}");
        assert_eq!(meta.uid(), rustix::process::geteuid().as_raw());
        assert_eq!(meta.mode() & 0o022, 0, "{:o}", meta.mode());
        fs::remove_file(&path).unwrap();
    }
}

static DISKS: Mutex<Vec<ProtectedFile>> = Mutex::new(vec![]);

/// The disk of a stopped VM was removed, and the run ended well. This is the only test of this program that names such files.
#[test]
fn the_disk_of_a_vm_is_neither_removed_nor_gone_on_with_whatever_its_name_is() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let partial = folder.path().join("disk.img.partial");
    fs::write(&partial, "of a guest").unwrap();
    set_mode(&partial, 0o600);
    let id = LastingFileId::of(File::open(&partial).unwrap()).unwrap();
    DISKS.lock().unwrap().push(ProtectedFile { id, at: None });
    storage::protected::provide(|| ProtectedFiles { files: DISKS.lock().unwrap().clone(), unread: None });
    let refused = |result: Option<Error>| {
        let e = result.unwrap().to_string();
        assert!(e.contains("disk.img.partial is the disk of a VM: move it out of this folder"), "{e}");
        assert_eq!(fs::read(&partial).unwrap(), b"of a guest");
    };
    for mode in [Mode::Auto, Mode::Always, Mode::Never] {
        refused(Claim::take(&path, mode).err());
    }
    refused(FileTarget::create(&path, sized(4096)).err());
    refused(discard(&path, None).err());
    // Not even one that others could write to, which is replaced otherwise.
    set_mode(&partial, 0o666);
    refused(Claim::take(&path, Mode::Auto).err());
    fs::rename(&partial, folder.path().join("disk.img.partial.journal")).unwrap();
    let e = FileTarget::create(&path, sized(4096)).err().unwrap();
    assert!(std::error::Error::source(&e).unwrap().to_string().contains("is the disk of a VM"), "{e}");
    fs::rename(folder.path().join("disk.img.partial.journal"), folder.path().join("kept")).unwrap();
    finish(FileTarget::create(&path, sized(4096)).unwrap());
}

/// A damaged record of any VM kept each run from going on with its own file.
#[test]
fn a_journal_shows_that_an_unfinished_file_is_ours() {
    let folder = folder();
    let started = Claim::take(&folder.path().join("disk.img"), Mode::Auto).unwrap().start(
        sized(4096),
        &job(),
        Mode::Never,
    );
    let Started { target, journal, .. } = started.unwrap();
    let partial = target.file.identity().unwrap();
    drop((target, journal));
    let real = RealFolder::open(folder.path()).unwrap();
    let name = OsStr::new("disk.img.partial.journal");
    let is_ours = |partial| journal::is_journal(&real, name, partial);
    assert!(is_ours(None) && is_ours(Some(&partial)));
    assert!(!is_ours(Some("inode:1 born:unknown")), "a file that was put in its place");
    set_mode(&folder.path().join(name), 0o666);
    assert!(!is_ours(Some(&partial)), "others could have written it");
    fs::write(folder.path().join(name), "of a guest").unwrap();
    set_mode(&folder.path().join(name), 0o600);
    assert!(!is_ours(None));
}

#[test]
fn a_planted_journal_is_not_followed() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let journal = folder.path().join("disk.img.partial.journal");
    let options = sized(64 << 10);
    let mark = Mark { position: Position::Table { window: 4096, done: 0 }, written: 4096, sum: None };
    let root = rustix::process::geteuid().is_root();
    for (mode, owner) in [(0o666, None), (0o660, None), (0o600, Some(1234))] {
        if owner.is_some() && !root {
            continue;
        }
        let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Never).unwrap();
        started.journal.mark(&started.target, &mark).unwrap();
        drop((started.target, started.journal));
        assert_eq!(mode_of(&journal), 0o600);
        set_mode(&journal, mode);
        std::os::unix::fs::chown(&journal, owner, owner).unwrap();
        let e = Claim::take(&path, Mode::Always).unwrap().start(options, &job(), Mode::Always).err().unwrap();
        assert!(e.to_string().contains("its journal is not believed"), "{e}");
        let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Auto).unwrap();
        assert_eq!(started.mark, None);
        let why = started.anew.unwrap();
        assert!(why.contains("its journal is not believed"), "{why}");
        assert_eq!(mode_of(&journal), 0o600, "a new one");
    }
    // A .partial that others could write to is not used either, whatever its journal states.
    let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Never).unwrap();
    started.journal.mark(&started.target, &mark).unwrap();
    let partial = started.target.partial();
    drop((started.target, started.journal));
    set_mode(&partial, 0o666);
    let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Auto).unwrap();
    assert_eq!(started.mark, None);
    assert_eq!(mode_of(&partial) & 0o022, 0);
}

#[test]
fn a_planted_file_that_somebody_writes_is_left_alone() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let partial = folder.path().join("disk.img.partial");
    fs::write(&partial, "another run's").unwrap();
    set_mode(&partial, 0o666);
    let held = File::open(&partial).unwrap();
    rustix::fs::flock(&held, FlockOperation::LockExclusive).unwrap();
    let e = refused(&path);
    assert!(e.to_string().contains("is being written by another process"), "{e}");
    assert_eq!(fs::read(&partial).unwrap(), b"another run's");
}

#[test]
fn a_planted_disk_does_not_tell_whose_the_new_one_is() {
    let folder = folder();
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can make another user's file");
        return;
    }
    let path = folder.path().join("disk.img");
    for (shared, uid) in [(0o777, 0), (0o775, 0), (0o755, 1234)] {
        set_mode(folder.path(), shared);
        fs::write(&path, "planted").unwrap();
        set_mode(&path, 0o666);
        std::os::unix::fs::chown(&path, Some(1234), Some(1234)).unwrap();
        finish(FileTarget::create(&path, sized(4096)).unwrap());
        assert_eq!(fs::metadata(&path).unwrap().uid(), uid, "{shared:o}");
        assert_eq!(mode_of(&path) & 0o022 != 0, uid != 0, "{shared:o}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_disk_that_another_program_made_meanwhile_is_not_replaced() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    for old in [None, Some("old")] {
        if let Some(old) = old {
            fs::write(&path, old).unwrap();
        }
        let target = FileTarget::create(&path, sized(4096)).unwrap();
        let partial = target.partial();
        target.write(0, b"ours").unwrap();
        theirs(&path);
        let e = (Box::new(target) as Box<dyn Target>).finish().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Failed);
        let how = if old.is_some() { "changed or replaced" } else { "made" };
        let said = format!("disk.img was {how} by another program while this run was going on");
        assert!(e.to_string().contains(&said), "{e}");
        assert!(e.to_string().contains("whole in ") && e.to_string().contains("rename that"), "{e}");
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert!(fs::read(&partial).unwrap().starts_with(b"ours"), "the whole disk stays");
        fs::remove_file(&path).unwrap();
    }
    // A removed file leaves a free name.
    fs::write(&path, "old").unwrap();
    let target = FileTarget::create(&path, sized(4096)).unwrap();
    target.write(0, b"ours").unwrap();
    fs::remove_file(&path).unwrap();
    finish(target);
    assert!(fs::read(&path).unwrap().starts_with(b"ours"));
}

/// A VM that was started with the old disk would write into a file that has no name any more.
#[test]
fn a_disk_that_came_into_use_meanwhile_is_not_replaced() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    fs::write(&path, "old").unwrap();
    let target = FileTarget::create(&path, sized(4096)).unwrap();
    let partial = target.partial();
    target.write(0, b"ours").unwrap();
    let user = File::options().read(true).write(true).open(&path).unwrap();
    user.lock_shared().unwrap();
    let e = (Box::new(target) as Box<dyn Target>).finish().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Failed);
    assert!(
        e.is_of_a_whole_disk() && e.to_string().contains("came into use while this run was going on"),
        "{e}"
    );
    assert!(e.chain().contains("locked by another process"), "{}", e.chain());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert!(fs::read(&partial).unwrap().starts_with(b"ours"), "the whole disk stays");
    drop(user);
    let target = FileTarget::create(&path, sized(4096)).unwrap();
    target.write(0, b"ours").unwrap();
    finish(target);
    assert!(fs::read(&path).unwrap().starts_with(b"ours"));
}

/// A VM was started with the old disk, has written to it, and was stopped.
#[test]
fn a_disk_that_a_vm_wrote_meanwhile_is_not_replaced() {
    use std::os::unix::fs::FileExt as _;
    let folder = folder();
    let path = folder.path().join("disk.img");
    fs::write(&path, "old").unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let target = FileTarget::create(&path, sized(4096)).unwrap();
    let partial = target.partial();
    target.write(0, b"ours").unwrap();
    let guest = File::options().read(true).write(true).open(&path).unwrap();
    guest.lock_shared().unwrap();
    guest.write_all_at(b"vm!", 0).unwrap();
    drop(guest);
    let e = (Box::new(target) as Box<dyn Target>).finish().unwrap_err();
    assert!(e.is_of_a_whole_disk() && e.to_string().contains("disk.img was changed or replaced"), "{e}");
    assert_eq!(fs::read(&path).unwrap(), b"vm!");
    assert!(fs::read(&partial).unwrap().starts_with(b"ours"), "the whole disk stays");
}

/// A user removes the `.partial` of a run that has not ended, and begins another run.
#[test]
fn the_partial_of_another_run_does_not_become_the_disk() {
    for old in [None, Some("old")] {
        for has_next in [false, true] {
            let folder = folder();
            let path = folder.path().join("disk.img");
            if let Some(old) = old {
                fs::write(&path, old).unwrap();
            }
            let start =
                || Claim::take(&path, Mode::Auto).unwrap().start(sized(4096), &job(), Mode::Auto).unwrap();
            let Started { target, journal, .. } = start();
            target.write(0, b"ours").unwrap();
            fs::remove_file(target.partial()).unwrap();
            let next = has_next.then(start);
            let e = (Box::new(target) as Box<dyn Target>).finish().unwrap_err();
            drop(journal);
            assert!(e.kind() == ErrorKind::Failed && !e.may_go_on() && !e.is_of_a_whole_disk(), "{e}");
            assert!(e.to_string().contains("disk.img.partial was removed or replaced by another run"), "{e}");
            assert_eq!(fs::read(&path).ok().as_deref(), old.map(str::as_bytes));
            let Some(next) = next else { continue };
            let mark = Mark { position: Position::Table { window: 512, done: 0 }, written: 512, sum: None };
            next.journal.mark(&next.target, &mark).unwrap();
            drop(next);
            let again = start();
            assert_eq!(again.mark, Some(mark), "its journal is its own");
            again.target.write(0, b"next").unwrap();
            finish(again.target);
            assert!(fs::read(&path).unwrap().starts_with(b"next"));
            assert_eq!(names(folder.path()), ["disk.img"]);
        }
    }
}

/// A run renames its disk, and before it removes its journal the next run begins.
#[test]
fn the_journal_of_another_run_is_not_removed() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let start = || Claim::take(&path, Mode::Auto).unwrap().start(sized(4096), &job(), Mode::Auto).unwrap();
    let first = start();
    let own = first.target.identity().unwrap();
    fs::rename(first.target.partial(), &path).unwrap();
    drop(first);
    let next = start();
    let real = RealFolder::open(folder.path()).unwrap();
    let journal = OsStr::new("disk.img.partial.journal");
    journal::remove_of(&real, journal, &own).unwrap();
    assert!(folder.path().join(journal).exists());
    journal::remove_of(&real, journal, &next.target.identity().unwrap()).unwrap();
    assert!(!folder.path().join(journal).exists());
}

#[test]
fn a_run_that_failed_discards_its_own_files_alone() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let start = || Claim::take(&path, Mode::Auto).unwrap().start(sized(4096), &job(), Mode::Auto).unwrap();
    let Started { target, .. } = start();
    let own = target.identity().unwrap();
    fs::remove_file(target.partial()).unwrap();
    drop(target);
    assert!(discard(&path, Some(&own)).is_err(), "the file does not exist");
    drop(start());
    let e = discard(&path, Some(&own)).unwrap_err();
    assert!(e.to_string().contains("not this run's any more"), "{e}");
    assert_eq!(names(folder.path()), ["disk.img.partial", "disk.img.partial.journal"]);
    let Started { target, .. } = start();
    let own = target.identity().unwrap();
    drop(target);
    discard(&path, Some(&own)).unwrap();
    assert_eq!(names(folder.path()), [""; 0]);
}

/// Without locks the time of the last write alone shows that another run writes the file.
#[test]
fn a_partial_that_cannot_be_locked_is_used_only_when_it_was_left_alone() {
    let folder = SimFolder::new();
    let claim =
        || Claim::of(Arc::new(folder.clone()), OsStr::new("disk.img"), None, ForeignFile::Replace).unwrap();
    folder.lose_locks();
    folder.age_to(Duration::from_secs(1));
    // The first run finds no file.
    let started = claim().start(sized(4096), &job(), Mode::Auto).unwrap();
    let mark = Mark { position: Position::Table { window: 512, done: 0 }, written: 512, sum: None };
    started.journal.mark(&started.target, &mark).unwrap();
    for seconds in [0, 1, 59] {
        folder.age_to(Duration::from_secs(seconds));
        for mode in [Mode::Auto, Mode::Always, Mode::Never] {
            let e = claim().start(sized(4096), &job(), mode).err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Failed);
            assert!(e.to_string().contains("has no locks to tell if another run is writing it"), "{e}");
        }
        assert!(claim().start_anew(sized(4096)).is_err());
    }
    assert_eq!(folder.names().len(), 2, "nothing was changed");
    folder.age_to(Duration::from_secs(60));
    assert_eq!(claim().start(sized(4096), &job(), Mode::Auto).unwrap().mark, Some(mark));
    claim().start_anew(sized(4096)).unwrap();
}

#[test]
fn what_is_begun_anew_is_written_into_a_new_file() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let partial = folder.path().join("disk.img.partial");
    for mode in [Mode::Auto, Mode::Never] {
        // By owner and mode the file is this user's, as every file on SMB. Its author still has it open.
        fs::write(&partial, "found").unwrap();
        set_mode(&partial, 0o600);
        let held = File::options().write(true).open(&partial).unwrap();
        let started = Claim::take(&path, mode).unwrap().start(sized(4096), &job(), mode).unwrap();
        assert_eq!(started.mark, None);
        let mark = Mark { position: Position::Table { window: 512, done: 0 }, written: 512, sum: None };
        started.journal.mark(&started.target, &mark).unwrap();
        held.write_all_at(b"their bytes", 0).unwrap();
        drop((started.target, started.journal));
        assert_eq!(fs::read(&partial).unwrap(), [0; 4096]);
        // The journal is of the new file.
        let started = Claim::take(&path, Mode::Auto).unwrap().start(sized(4096), &job(), Mode::Auto).unwrap();
        assert_eq!(started.mark, Some(mark));
        drop((started.target, started.journal));
        discard(&path, None).unwrap();
    }
}

#[test]
fn what_resume_refuses_stays_as_it_is() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let [partial, journal] = ["disk.img.partial", "disk.img.partial.journal"].map(|n| folder.path().join(n));
    let root = rustix::process::geteuid().is_root();
    for (mode, owner) in [(0o666, None), (0o620, None), (0o600, Some(1234))] {
        if owner.is_some() && !root {
            eprintln!("skipped: only root can make another user's file");
            continue;
        }
        for (file, text) in [(&partial, "planted"), (&journal, "a journal")] {
            fs::write(file, text).unwrap();
            set_mode(file, mode);
            std::os::unix::fs::chown(file, owner, owner).unwrap();
        }
        let facts = || [&partial, &journal].map(|f| (fs::metadata(f).unwrap().ino(), fs::read(f).unwrap()));
        let before = facts();
        let e = Claim::take(&path, Mode::Always).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Usage);
        let said = ["disk.img.partial, which is not one of ours", "left as it is", "leave out --resume"];
        assert!(said.iter().all(|said| e.to_string().contains(said)), "{e}");
        assert_eq!(facts(), before);
        fs::remove_file(&partial).unwrap();
        // Only the journal is left.
        let started = Claim::take(&path, Mode::Always).unwrap().start(sized(4096), &job(), Mode::Always);
        let e = started.err().unwrap();
        assert!(e.to_string().contains("nothing was changed"), "{e}");
        assert_eq!(fs::read(&journal).unwrap(), b"a journal");
        assert_eq!(names(folder.path()), ["disk.img.partial.journal"]);
    }
}
