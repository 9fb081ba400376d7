use super::*;
use crate::ErrorKind;
use crate::journal::{Conversion, Mark, Mode, Position};
use crate::source::Identity;
use rustix::fs::FlockOperation;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub(super) fn sized(size: u64) -> FileOptions {
    FileOptions { size: Some(size), ..FileOptions::default() }
}

pub(super) fn job() -> Conversion {
    let identity = Some(Identity::of_content("etag:\"1\"".into(), Some(1 << 20)));
    Conversion { source: "http://x/disk".into(), identity, plan: "raw 1 MiB".into(), owner: None }
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

pub(super) fn finish(target: FileTarget) -> Finished {
    (Box::new(target) as Box<dyn Target>).finish().unwrap()
}

/// The refusal of `path`, and that nothing was left beside it.
pub(super) fn refused(path: &Path) -> Error {
    let before = path.parent().filter(|p| p.is_dir()).map(names);
    let e =
        FileTarget::create(path, sized(4096)).err().unwrap_or_else(|| panic!("{} was taken", path.display()));
    let folder = path.parent().unwrap_or(path).to_str().unwrap();
    assert!(e.to_string().contains(folder), "{e} does not name it");
    assert_eq!(path.parent().filter(|p| p.is_dir()).map(names), before, "after: {e}");
    e
}

#[test]
fn a_disk_stands_under_its_name_only_when_it_is_whole() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let target = FileTarget::create(&path, sized(8 << 20)).unwrap();
    assert_eq!(target.order(), Order::Any);
    target.write(5 << 20, &[7; 4096]).unwrap();
    target.zero(0, 5 << 20).unwrap();
    target.write(10, b"hello").unwrap();
    target.sync().unwrap();
    assert_eq!(names(folder.path()), ["disk.img.partial"]);
    let done = finish(target);
    assert_eq!(names(folder.path()), ["disk.img"]);
    let bytes = fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 8 << 20);
    assert_eq!(&bytes[10..15], b"hello");
    assert_eq!(&bytes[5 << 20..(5 << 20) + 4096], &[7; 4096]);
    assert_eq!(bytes.iter().filter(|&&b| b != 0).count(), 5 + 4096);
    assert!(done.allocated <= 64 << 10, "{} bytes allocated", done.allocated);
}

#[test]
fn a_size_may_come_at_the_end() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let target = FileTarget::create(&path, FileOptions::default()).unwrap();
    target.write(0, b"abc").unwrap();
    target.zero(3, 100).unwrap();
    assert!(target.set_size(50).unwrap_err().to_string().contains("offset 103"));
    target.set_size(200).unwrap();
    assert_eq!(target.set_size(201).unwrap_err().kind(), ErrorKind::Refused);
    finish(target);
    assert_eq!(fs::metadata(&path).unwrap().len(), 200);
    // Never told: as far as it was written or zeroed.
    let target = FileTarget::create(&path, FileOptions::default()).unwrap();
    target.zero(0, 100).unwrap();
    finish(target);
    assert_eq!(fs::read(&path).unwrap(), [0; 100]);
}

#[test]
fn nothing_is_written_past_the_end_of_the_disk() {
    let folder = folder();
    let target = FileTarget::create(&folder.path().join("disk.img"), sized(100)).unwrap();
    for (at, len) in [(96, 5), (101, 0), (u64::MAX, 1), (u64::MAX - 1, 5)] {
        let e = target.write(at, &vec![1; len]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains("only 100 bytes"), "{e}");
        target.zero(at, len as u64).unwrap_err();
    }
    target.write(96, &[1; 4]).unwrap();
}

#[test]
fn blocks_are_reserved_where_that_is_wanted() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let options = FileOptions { preallocate: true, ..sized(4 << 20) };
    let target = FileTarget::create(&path, options).unwrap();
    target.zero(0, 4 << 20).unwrap();
    assert!(finish(target).allocated >= 4 << 20);
    let target = FileTarget::create(&path, FileOptions { size: None, ..options }).unwrap();
    target.write(0, b"x").unwrap();
    target.set_size(2 << 20).unwrap();
    assert!(finish(target).allocated >= 2 << 20);
}

#[test]
fn a_disk_is_its_users_alone_until_it_is_whole() {
    let folder = folder();
    let plain = folder.path().join("plain");
    File::create(&plain).unwrap();
    let usual = mode_of(&plain) & 0o644;
    for (name, old, end) in [("new.img", None, usual), ("private.img", Some(0o600), 0o600)] {
        let path = folder.path().join(name);
        if let Some(mode) = old {
            fs::write(&path, "old").unwrap();
            set_mode(&path, mode);
        }
        let target = FileTarget::create(&path, sized(1)).unwrap();
        target.write(0, b"n").unwrap();
        assert_eq!(mode_of(&target.partial()), 0o600, "{name}");
        finish(target);
        assert_eq!(mode_of(&path), end, "{name}");
    }
}

#[test]
fn a_replaced_file_keeps_its_mode_and_owner() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    fs::write(&path, "old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let root = rustix::process::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
    }
    let target = FileTarget::create(&path, sized(1)).unwrap();
    target.write(0, b"n").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old", "the old disk stays until the new one is whole");
    finish(target);
    let meta = fs::metadata(&path).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"n");
    assert_eq!(meta.mode() & 0o7777, 0o640);
    if root {
        assert_eq!((meta.uid(), meta.gid()), (1234, 4321));
    }
    // A new one: readable by all, less the umask.
    let new = folder.path().join("new.img");
    finish(FileTarget::create(&new, sized(1)).unwrap());
    assert_eq!(fs::metadata(&new).unwrap().mode() & !0o644 & 0o777, 0);
    assert_eq!(fs::metadata(&new).unwrap().mode() & 0o600, 0o600);
}

#[test]
fn what_is_not_a_file_is_refused() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("real"), "x").unwrap();
    std::os::unix::fs::symlink("real", at("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let cases = [
        ("link", "a symbolic link"),
        ("dangling", "a symbolic link"),
        ("folder", "a folder"),
        ("pipe", "a named pipe"),
        ("socket", "a socket"),
    ];
    for (name, why) in cases {
        let e = refused(&at(name));
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains(why), "{e}");
    }
    let e = refused(Path::new("/dev/null"));
    assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("character device"), "{e}");
    for name in ["..", "/", "", "a/.."] {
        assert_eq!(refused(Path::new(name)).kind(), ErrorKind::Usage, "{name}");
    }
    assert_eq!(refused(&at("no/such/disk.img")).kind(), ErrorKind::NotFound);
    assert_eq!(refused(&at("real/disk.img")).kind(), ErrorKind::Refused);
    let e = refused(&PathBuf::from(format!("{}/", at("folder").display())));
    assert_eq!(e.kind(), ErrorKind::Usage, "{e}");
    assert_eq!(refused(&at(&"x".repeat(300))).kind(), ErrorKind::Usage);
    assert_eq!(refused(&at(&"x".repeat(250))).kind(), ErrorKind::Usage);
}

#[test]
fn what_is_in_the_way_of_the_partial_is_refused() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let partial = folder.path().join("disk.img.partial");
    fs::write(folder.path().join("precious"), "precious").unwrap();

    std::os::unix::fs::symlink("precious", &partial).unwrap();
    assert!(refused(&path).to_string().contains("symbolic link"));
    fs::remove_file(&partial).unwrap();
    fs::hard_link(folder.path().join("precious"), &partial).unwrap();
    assert!(refused(&path).to_string().contains("one name"));
    fs::remove_file(&partial).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &partial, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
        .unwrap();
    assert_eq!(refused(&path).kind(), ErrorKind::Refused);
    fs::remove_file(&partial).unwrap();
    fs::create_dir(&partial).unwrap();
    assert_eq!(refused(&path).kind(), ErrorKind::Refused);
    assert_eq!(fs::read(folder.path().join("precious")).unwrap(), b"precious");
}

pub(super) fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

pub(super) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_partial_is_not_given_away_before_it_is_whole() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    fs::write(&path, "old").unwrap();
    set_mode(&path, 0o666);
    let started = Claim::take(&path, Mode::Auto).unwrap().start(sized(8192), &job(), Mode::Auto).unwrap();
    let partial = started.target.partial();
    assert_eq!(mode_of(&partial) & 0o022, 0, "others may not write to what is not whole");
    let mark = Mark { position: Position::Table { window: 4096, done: 0 }, written: 4096, sum: None };
    started.journal.mark(&started.target, &mark).unwrap();
    drop((started.target, started.journal));
    // And so the next run believes it.
    let started = Claim::take(&path, Mode::Auto).unwrap().start(sized(8192), &job(), Mode::Auto).unwrap();
    assert_eq!(started.mark, Some(mark));
    finish(started.target);
    assert_eq!(mode_of(&path), 0o666, "the mode that its owner gave the disk stays");
}

#[test]
fn a_second_run_is_refused_by_name() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let first = FileTarget::create(&path, sized(4096)).unwrap();
    let e = refused(&path);
    assert_eq!(e.kind(), ErrorKind::Failed);
    let me = std::process::id();
    assert!(e.to_string().contains("disk.img.partial is being written by another process"), "{e}");
    assert!(e.to_string().contains(&format!("(process {me})")), "{e}");
    assert!(discard(&path, None).unwrap_err().to_string().contains("being written"));
    drop(first);
    finish(FileTarget::create(&path, sized(4096)).unwrap());
}

#[test]
fn a_disk_in_use_is_refused() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    fs::write(&path, vec![0; 1 << 20]).unwrap();

    let locked = File::open(&path).unwrap();
    rustix::fs::flock(&locked, FlockOperation::LockShared).unwrap();
    let e = refused(&path);
    assert!(e.to_string().contains("in use") && e.to_string().contains("locked by another process"), "{e}");
    drop(locked);

    // QEMU itself, with the disk open for writing.
    let mut command = Command::new("qemu-io");
    command.args(["-f", "raw"]).arg(&path).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    match command.spawn() {
        Err(e) => eprintln!("skipped the part with QEMU: qemu-io: {e}"),
        Ok(mut qemu) => {
            use std::io::{BufRead, BufReader, Write};
            let mut stdin = qemu.stdin.take().unwrap();
            writeln!(stdin, "write -P 1 0 512").unwrap();
            let mut line = String::new();
            BufReader::new(qemu.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert!(line.contains("wrote"), "{line}");
            let e = refused(&path);
            assert_eq!(e.kind(), ErrorKind::Failed);
            assert!(e.to_string().contains("QEMU"), "{e}");
            drop(stdin);
            qemu.wait().unwrap();
        }
    }
    finish(FileTarget::create(&path, sized(4096)).unwrap());
}

#[test]
fn too_little_room_is_told_before_a_byte_is_written() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let options = FileOptions { needed: 1 << 60, ..FileOptions::default() };
    let e = FileTarget::create(&path, options).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Failed);
    assert!(e.to_string().contains("needs 1 EiB (1152921504606846976 bytes)"), "{e}");
    let e = FileTarget::create(&path, FileOptions { preallocate: true, ..sized(1 << 60) }).err().unwrap();
    assert!(e.to_string().contains("make room"), "{e}");
    // Longer than any file may be.
    let e = FileTarget::create(&path, sized(u64::MAX - 1)).err().unwrap();
    assert!(e.to_string().contains("cannot hold a file of 16.0 EiB"), "{e}");
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_run_goes_on_where_its_mark_stands() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let options = sized(64 << 10);
    let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Auto).unwrap();
    assert_eq!((started.mark, started.anew), (None, None));
    started.target.write(0, &[1; 4096]).unwrap();
    let mark = Mark { position: Position::Table { window: 4096, done: 0 }, written: 4096, sum: None };
    started.journal.mark(&started.target, &mark).unwrap();
    // After the mark, and lost: must not show where the disk has zeros.
    started.target.write(4096, &[9; 4096]).unwrap();
    drop((started.target, started.journal));
    assert_eq!(names(folder.path()), ["disk.img.partial", "disk.img.partial.journal"]);

    let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Auto).unwrap();
    assert_eq!(started.mark.as_ref(), Some(&mark));
    started.target.zero(4096, 60 << 10).unwrap();
    finish(started.target);
    assert_eq!(names(folder.path()), ["disk.img"]);
    let bytes = fs::read(&path).unwrap();
    assert!(bytes[..4096].iter().all(|&b| b == 1) && bytes[4096..].iter().all(|&b| b == 0));
}

#[test]
fn another_job_starts_anew_and_says_why() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let options = sized(64 << 10);
    let mark = Mark { position: Position::Table { window: 4096, done: 0 }, written: 4096, sum: None };
    let begin = || {
        let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Never).unwrap();
        started.target.write(0, &[1; 4096]).unwrap();
        started.journal.mark(&started.target, &mark).unwrap();
    };
    begin();
    let other = Conversion { plan: "another".into(), ..job() };
    let e = Claim::take(&path, Mode::Always).unwrap().start(options, &other, Mode::Always).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Usage);
    assert!(e.to_string().contains("other options"), "{e}");
    assert_eq!(names(folder.path()), ["disk.img.partial", "disk.img.partial.journal"], "a refusal keeps it");
    let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &other, Mode::Auto).unwrap();
    assert!(started.mark.is_none() && started.anew.unwrap().contains("other options"));
    assert_eq!(fs::metadata(started.target.partial()).unwrap().blocks(), 0, "emptied");
    drop((started.target, started.journal));

    // A .partial that is not the one the journal speaks of.
    begin();
    let partial = folder.path().join("disk.img.partial");
    fs::copy(&partial, folder.path().join("copy")).unwrap();
    fs::rename(folder.path().join("copy"), &partial).unwrap();
    let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Auto).unwrap();
    assert!(started.anew.unwrap().contains("not the one"));
    drop((started.target, started.journal));

    // A .partial that is gone.
    begin();
    fs::remove_file(&partial).unwrap();
    let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Auto).unwrap();
    assert_eq!((started.mark, started.anew), (None, None));
    drop((started.target, started.journal));
    fs::remove_file(&partial).unwrap();
    let e = Claim::take(&path, Mode::Always).unwrap().start(options, &job(), Mode::Always).err().unwrap();
    assert!(e.to_string().contains("no earlier run"), "{e}");
    assert!(!partial.exists());

    begin();
    discard(&path, None).unwrap();
    assert_eq!(names(folder.path()), [""; 0]);
}

/// `: > disk.img.partial` keeps the inode that the journal names.
#[test]
fn a_partial_that_was_cut_is_begun_anew() {
    let mark =
        |guest| Mark { position: Position::Table { window: guest, done: 0 }, written: 4096, sum: None };
    // A file of known size is cut below it, another one below its mark.
    for (options, len, goes_on) in [
        (sized(64 << 10), 0, false),
        (sized(64 << 10), (64 << 10) - 1, false),
        (sized(64 << 10), 64 << 10, true),
        (FileOptions::default(), 0, false),
        (FileOptions::default(), 8191, false),
        (FileOptions::default(), 8192, true),
    ] {
        let folder = folder();
        let path = folder.path().join("disk.img");
        let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Auto).unwrap();
        started.target.write(0, &[1; 4096]).unwrap();
        started.target.zero(4096, 4096).unwrap();
        started.journal.mark(&started.target, &mark(8192)).unwrap();
        let partial = started.target.partial();
        drop((started.target, started.journal));
        File::options().write(true).open(&partial).unwrap().set_len(len).unwrap();
        if !goes_on {
            let e = Claim::take(&path, Mode::Always).unwrap().start(options, &job(), Mode::Always);
            let e = e.err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Usage, "{len}: {e}");
            assert!(e.to_string().contains(&format!("its .partial has {len} bytes")), "{e}");
            assert_eq!(fs::metadata(&partial).unwrap().len(), len, "a refusal keeps it");
        }
        let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Auto).unwrap();
        assert_eq!(started.mark.is_some(), goes_on, "{options:?}, {len}");
        let why = started.anew.unwrap_or_default();
        assert_eq!(why.contains("at the last mark"), !goes_on, "{why}");
    }
}

#[test]
fn a_damaged_journal_is_never_followed() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let journal = folder.path().join("disk.img.partial.journal");
    let options = sized(64 << 10);
    let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Auto).unwrap();
    let mark = |n: u64| Mark { position: Position::Table { window: n, done: 0 }, written: n, sum: None };
    started.journal.mark(&started.target, &mark(1)).unwrap();
    let one = fs::metadata(&journal).unwrap().len();
    started.journal.mark(&started.target, &mark(2)).unwrap();
    drop((started.target, started.journal));
    let whole = fs::read(&journal).unwrap();

    let resumed = |bytes: &[u8]| {
        // In place: the journal's own inode does not matter, that of the .partial does.
        fs::write(&journal, bytes).unwrap();
        let started = Claim::take(&path, Mode::Auto).unwrap().start(options, &job(), Mode::Auto).unwrap();
        (started.mark.map(|m| m.written), started.anew)
    };
    for cut in one as usize..whole.len() {
        assert_eq!(resumed(&whole[..cut]).0, Some(1), "cut at {cut}");
    }
    assert_eq!(resumed(&whole).0, Some(2));
    let (mark, why) = resumed(b"00000002 2144df1c {}\n");
    assert!(mark.is_none());
    assert!(why.is_none() || why.unwrap().contains("not one of this program"));
    // The journal of an older version: its evidence did not have the size and the full name.
    let version = String::from_utf8(whole.clone()).unwrap().replacen("\"journal\":3", "\"journal\":2", 1);
    assert_ne!(version.as_bytes(), &whole[..]);
    let line = version.lines().next().unwrap()[18..].to_owned();
    let line = format!("{:08x} {:08x} {line}\n", line.len(), crc32fast::hash(line.as_bytes()));
    let (mark, why) = resumed(line.as_bytes());
    assert!(mark.is_none() && why.unwrap().contains("another version"));
}

#[test]
fn a_journal_stays_short() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    let started = Claim::take(&path, Mode::Auto).unwrap().start(sized(4096), &job(), Mode::Auto).unwrap();
    let state = vec![77; 30_000];
    let mark = |n: u64| {
        let boundary = crate::filter::Boundary { input: n, output: n, state: state.clone() };
        Mark {
            position: Position::Stream { boundary, guest: n, source: None, behind: None, image: None },
            written: n,
            sum: None,
        }
    };
    let journal = folder.path().join("disk.img.partial.journal");
    let mut longest = 0;
    for n in 0..40 {
        started.journal.mark(&started.target, &mark(n)).unwrap();
        longest = longest.max(fs::metadata(&journal).unwrap().len());
    }
    assert!(longest < 1 << 20, "{longest}");
    drop((started.target, started.journal));
    let again = Claim::take(&path, Mode::Auto).unwrap().start(sized(4096), &job(), Mode::Auto).unwrap();
    assert_eq!(again.mark, Some(mark(39)));
    again.journal.mark(&again.target, &mark(40)).unwrap();
    finish(again.target);
    assert_eq!(names(folder.path()), ["disk.img"]);
}

#[test]
fn a_claim_that_comes_to_nothing_leaves_nothing() {
    let folder = folder();
    let path = folder.path().join("disk.img");
    drop(Claim::take(&path, Mode::Auto).unwrap());
    assert_eq!(names(folder.path()), [""; 0]);
    // The files of an earlier run must stay.
    drop(FileTarget::create(&path, sized(4096)).unwrap());
    drop(Claim::take(&path, Mode::Auto).unwrap());
    assert_eq!(names(folder.path()), ["disk.img.partial"]);
}

#[test]
fn a_finished_disk_is_not_mistaken_for_a_partial() {
    // A process that had opened NAME.partial when it was renamed must not write into the final disk.
    let folder = folder();
    let path = folder.path().join("disk.img");
    for round in 0..50 {
        let first = FileTarget::create(&path, sized(4096)).unwrap();
        first.write(0, &[round; 4096]).unwrap();
        std::thread::scope(|s| {
            let second = s.spawn(|| {
                loop {
                    if let Ok(target) = FileTarget::create(&path, sized(4096)) {
                        target.write(0, &[255; 4096]).unwrap();
                        return target;
                    }
                }
            });
            finish(first);
            let second = second.join().unwrap();
            assert_eq!(fs::read(&path).unwrap(), [round; 4096]);
            drop(second);
        });
    }
    let file = File::open(&path).unwrap();
    file.read_exact_at(&mut [0; 4096], 0).unwrap();
}
