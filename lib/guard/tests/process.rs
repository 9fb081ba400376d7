//! Confinement of a whole program. Each case runs this test program once more, as a child that confines
//! itself, since that cannot be undone.
#![cfg(target_os = "linux")]
// Helpers of tests are not seen as tests by the lint.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use guard::confine::{Attributes, Process, Use, set_attributes};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tests::thief;

const PLACE: &str = "GUARD_TEST_PLACE";

/// Runs the test `name` of this file in a child, with a folder of its own.
fn child(name: &str, place: &Path) -> Output {
    fs::create_dir_all(place.join("work")).unwrap();
    fs::write(place.join("secret"), "nobody's business").unwrap();
    fs::write(place.join("source"), "the bytes").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).env(PLACE, place);
    command.output().unwrap()
}

fn passes(name: &str, place: &Path) {
    let out = child(name, place);
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}

fn place() -> PathBuf {
    PathBuf::from(std::env::var_os(PLACE).expect("only as a child"))
}

fn is_possible() -> bool {
    let offered = guard::confine::offered();
    if !offered.is_complete() {
        eprintln!("skipped: {offered}");
    }
    offered.is_complete()
}

#[test]
fn a_program_without_network_reaches_what_it_named_and_nothing_else() {
    if is_possible() {
        passes("local", tempfile::tempdir().unwrap().path());
    }
}

#[test]
#[ignore = "a child of the test above"]
fn local() {
    let place = place();
    let confined = Process::new()
        .uses(place.join("source"), Use::Read)
        .uses(place.join("work"), Use::Write)
        .uses(place.join("not there"), Use::Read)
        .enter();
    assert!(confined.is_complete(), "{confined}");
    works(&place);
    // On this thread and on those it starts, whenever that is.
    let secret = place.join("secret");
    let of_thread = std::thread::spawn({
        let secret = secret.clone();
        move || thief::got_through(thief::try_everything(&secret))
    });
    let mut through = thief::got_through(thief::try_everything(&secret));
    through.extend(of_thread.join().unwrap());
    // Plug-ins of the C library are mapped to be run, and that is for parsers alone to give up.
    through.retain(|attempt| attempt.what != "run memory");
    assert!(through.is_empty(), "{through:#?}");
    fs::File::options().write(true).open(place.join("source")).unwrap_err();
}

#[test]
fn a_program_with_network_reaches_servers_besides() {
    if is_possible() {
        passes("network", tempfile::tempdir().unwrap().path());
    }
}

#[test]
#[ignore = "a child of the test above"]
fn network() {
    let place = place();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let process = Process::new().uses(place.join("source"), Use::Read).uses(place.join("work"), Use::Write);
    assert!(process.network().enter().is_complete());
    works(&place);
    let mut ours = TcpStream::connect(address).unwrap();
    ours.write_all(b"x").unwrap();
    drop(ours);
    let mut said = String::new();
    // accept() is not for programs that only ask: the connection stands all the same.
    assert!(server.accept().is_err(), "nobody listens here");
    let resolved = ("localhost", 80).to_socket_addrs().unwrap();
    assert!(resolved.count() > 0, "names are found");
    fs::File::open("/etc/hosts").unwrap().read_to_string(&mut said).unwrap();
    let allowed = ["run memory", "use UDP", "connect by TCP"];
    let mut through = thief::got_through(thief::try_everything(&place.join("secret")));
    through.retain(|attempt| !allowed.contains(&attempt.what));
    assert!(through.is_empty(), "{through:#?}");
}

#[test]
fn a_program_that_serves_takes_connections_and_makes_none() {
    if is_possible() {
        passes("serves", tempfile::tempdir().unwrap().path());
    }
}

#[test]
#[ignore = "a child of the test above"]
fn serves() {
    let place = place();
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    assert!(Process::new().uses(place.join("source"), Use::Read).accepts().enter().is_complete());
    let (mut taken, from) = server.accept().unwrap();
    assert_eq!(
        (from, taken.local_addr().unwrap()),
        (client.local_addr().unwrap(), server.local_addr().unwrap())
    );
    taken.write_all(b"x").unwrap();
    client.read_exact(&mut [0]).unwrap();
    assert_eq!(fs::read(place.join("source")).unwrap(), b"the bytes");
    let mut through = thief::got_through(thief::try_everything(&place.join("secret")));
    through.retain(|attempt| attempt.what != "run memory");
    assert!(through.is_empty(), "{through:#?}");
}

/// Linux before 5.9 has no close_range, and some containers forbid it. A reader of the program's output waits
/// for the end of the pipe, for ever if another process keeps it open.
#[test]
fn what_sets_modes_holds_nothing_of_the_program_without_close_range_either() {
    if is_possible() {
        passes("without_close_range", tempfile::tempdir().unwrap().path());
    }
}

#[test]
#[ignore = "a child of the test above"]
fn without_close_range() {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let calls = [(libc::SYS_close_range, vec![])].into();
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let here = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, missing, here).unwrap();
    seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
    assert!(Process::new().uses(place().join("work"), Use::Write).enter().is_complete());
    let file = fs::File::create(place().join("work/disk")).unwrap();
    set_attributes(&file, Attributes::Mode(0o600)).unwrap();
    assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
}

/// As root a program could give a file to a user whose programs trust files of their own user.
#[test]
fn a_file_is_given_to_nobody_but_who_had_the_one_that_it_replaces() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give files away");
    } else if is_possible() {
        passes("given_away", tempfile::tempdir().unwrap().path());
    }
}

#[test]
#[ignore = "a child of the test above"]
fn given_away() {
    let work = place().join("work");
    for (name, owner) in [("old", 65533), ("beside", 65534)] {
        fs::write(work.join(name), "").unwrap();
        std::os::unix::fs::chown(work.join(name), Some(owner), Some(owner)).unwrap();
    }
    let process = Process::new().uses(&work, Use::Write).uses("/proc", Use::Read);
    assert!(process.replaces(work.join("old")).replaces(work.join("not there")).enter().is_complete());
    let file = fs::File::create(work.join("new")).unwrap();
    let owner = || (file.metadata().unwrap().uid(), file.metadata().unwrap().gid());
    let own = owner();
    for (uid, gid) in [(65534, 65534), (65533, 65534), (65533, own.1), (own.0, 65533), (1000, 1000)] {
        let e = set_attributes(&file, Attributes::Owner(uid, gid)).unwrap_err();
        assert_eq!((e.raw_os_error(), owner()), (Some(libc::EPERM), own), "{uid}:{gid}");
    }
    for to in [(65533, 65533), own] {
        set_attributes(&file, Attributes::Owner(to.0, to.1)).unwrap();
        assert_eq!(owner(), to);
    }
    let filtered = keeper_says("Seccomp:");
    assert_eq!(filtered, "2", "it has a filter of its own");
}

/// A line of what the kernel tells of the process that sets modes for this one.
fn keeper_says(line: &str) -> String {
    let own = format!("PPid:\t{}\n", std::process::id());
    let all = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let status = fs::read_to_string(entry.unwrap().path().join("status")).ok()?;
        (status.starts_with("Name:\tsets-modes\n") && status.contains(&own)).then_some(status)
    });
    let all: Vec<_> = all.collect();
    assert_eq!(all.len(), 1, "{all:#?}");
    all[0].lines().find_map(|said| said.strip_prefix(line)).unwrap().trim().to_owned()
}

/// A limit on processes does not apply to root, so memory is limited: there is none for the stack of a
/// thread.
#[test]
fn no_thread_is_an_error_and_no_panic() {
    let place = tempfile::tempdir().unwrap();
    passes("no_threads", place.path());
}

#[test]
#[ignore = "a child of the test above"]
fn no_threads() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let before = getrlimit(Resource::As);
    setrlimit(Resource::As, Rlimit { current: Some(1 << 20), maximum: before.maximum }).unwrap();
    let apart = guard::confine::run_confined(|| 1);
    let offered = guard::confine::offered();
    setrlimit(Resource::As, before).unwrap();
    assert_eq!(apart.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    assert!(!offered.is_complete(), "{offered}");
    assert_eq!(guard::confine::run_confined(|| 1).unwrap(), 1);
}

/// System calls that the work itself needs.
fn works(place: &Path) {
    assert_eq!(fs::read(place.join("source")).unwrap(), b"the bytes");
    let work = place.join("work");
    fs::write(work.join("disk.partial"), "disk").unwrap();
    fs::rename(work.join("disk.partial"), work.join("disk")).unwrap();
    fs::create_dir(work.join("folder")).unwrap();
    fs::write(work.join("folder/file"), "x").unwrap();
    fs::remove_file(work.join("folder/file")).unwrap();
    fs::remove_dir(work.join("folder")).unwrap();
    assert_eq!(fs::read_dir(&work).unwrap().count(), 1);
    let disk = fs::File::options().write(true).open(work.join("disk")).unwrap();
    set_attributes(&disk, Attributes::Mode(0o640)).unwrap();
    assert_eq!(disk.metadata().unwrap().mode() & 0o7777, 0o640);
    let (uid, gid) = (disk.metadata().unwrap().uid(), disk.metadata().unwrap().gid());
    set_attributes(&disk, Attributes::Owner(uid, gid)).unwrap();
    set_attributes(&disk, Attributes::Mode(0o600)).unwrap();
    assert_eq!(disk.metadata().unwrap().mode() & 0o7777, 0o600);
    no_attribute_is_set_of_what_is_only_read(place, &disk);
    let (mut to, mut from) = std::os::unix::net::UnixStream::pair().unwrap();
    from.set_nonblocking(true).unwrap();
    to.write_all(b"x").unwrap();
    assert_eq!(from.read(&mut [0; 2]).unwrap(), 1);
}

/// Neither directly nor by a process that makes the calls for the program.
fn no_attribute_is_set_of_what_is_only_read(place: &Path, disk: &fs::File) {
    use std::os::unix::fs::fchown;
    let refused = |done: std::io::Result<()>, what: &str| {
        assert_eq!(done.unwrap_err().raw_os_error(), Some(libc::EPERM), "{what}");
    };
    let source = fs::File::open(place.join("source")).unwrap();
    let before = source.metadata().unwrap();
    let mode = fs::Permissions::from_mode(0o666);
    for file in [&source, disk] {
        refused(file.set_permissions(mode.clone()), "fchmod");
        refused(fchown(file, Some(before.uid()), Some(before.gid())), "fchown");
    }
    refused(set_attributes(&source, Attributes::Mode(0o666)), "a mode");
    refused(set_attributes(&source, Attributes::Owner(65534, 65534)), "an owner");
    refused(set_attributes(disk, Attributes::Mode(0o4755)), "setuid");
    let folder = fs::File::open(place.join("work")).unwrap();
    refused(set_attributes(&folder, Attributes::Mode(0o777)), "of a folder");
    let after = source.metadata().unwrap();
    assert_eq!((after.mode(), after.uid()), (before.mode(), before.uid()));
}

#[test]
fn it_can_be_switched_off() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("secret"), "s").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "off", "--ignored", "--nocapture"]);
    command.env(PLACE, place.path()).env("CORACLE_CONFINE", "off");
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
}

#[test]
#[ignore = "a child of the test above"]
fn off() {
    let confined = Process::new().enter();
    assert!(!confined.landlock.in_force && !confined.seccomp.in_force);
    assert!(confined.to_string().contains("CORACLE_CONFINE=off"), "{confined}");
    let secret = place().join("secret");
    guard::confine::run_confined(|| assert_eq!(fs::read(secret).unwrap(), b"s")).unwrap();
}
