//! The program that runs inside users' images: it copies itself, listens, and ends on a signal.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_container-disk");
const PATIENCE: Duration = Duration::from_secs(60);

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        match look() {
            Some(found) => return found,
            None => assert!(began.elapsed() < PATIENCE, "never: {what}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn listening(program: &Path, at: &Path) -> Child {
    let child = Command::new(program).arg("--copy-path").arg(at).spawn().unwrap();
    let socket = at.with_extension("sock");
    drop(until("it listens", || UnixStream::connect(&socket).ok()));
    child
}

#[test]
fn it_copies_itself_and_the_copy_listens_until_it_is_asked_to_end() {
    let place = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let done = Command::new(PROGRAM).arg("--install").arg(place.path()).status().unwrap();
        assert!(done.success(), "also where it is already");
    }
    let copy = place.path().join("container-disk");
    assert_eq!(std::fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o755);
    let at = place.path().join("disk_3");
    // A killed process leaves its socket. The next one replaces it.
    let mut killed = listening(&copy, &at);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let mut child = listening(&copy, &at);
    // Clients that connect and disconnect do not matter.
    for _ in 0..300 {
        drop(UnixStream::connect(at.with_extension("sock")).unwrap());
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let ended = until("it ends", || child.try_wait().unwrap());
    assert!(ended.success(), "{ended}");
    assert!(!at.with_extension("sock").exists());
}

#[test]
fn it_shows_a_log_until_its_writer_has_ended() {
    let place = tempfile::tempdir().unwrap();
    let (log, lock) = (place.path().join("serial.log"), place.path().join("lock"));
    let held = std::fs::File::create(&lock).unwrap();
    held.lock().unwrap();
    let program = Command::new(PROGRAM)
        .args(["--tail", log.to_str().unwrap(), "--while", lock.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn();
    let mut child = program.unwrap();
    std::fs::write(&log, "tiny login: ").unwrap();
    let mut said = String::new();
    let mut lines = std::io::BufReader::new(child.stdout.take().unwrap());
    lines.read_line(&mut said).unwrap();
    assert_eq!(said, "tiny login: \n", "a prompt is shown before its line ends");
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let mut writer = std::fs::File::options().append(true).open(&log).unwrap();
    writer.write_all(b"bye\r\n").unwrap();
    said.clear();
    lines.read_line(&mut said).unwrap();
    assert_eq!(said, "bye\n");
    drop(held);
    assert!(until("it ends", || child.try_wait().unwrap()).success());
}

#[test]
fn what_it_cannot_do_it_says() {
    for words in [
        vec![],
        vec!["--tail", "/no/such"],
        vec!["--no-such"],
        vec!["--copy-path", "/no/such/folder/disk"],
        vec!["--install", "/no/such"],
    ] {
        let done = Command::new(PROGRAM).args(&words).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(!done.status.success() && said.starts_with("container-disk: "), "{words:?}: {said}");
    }
}
