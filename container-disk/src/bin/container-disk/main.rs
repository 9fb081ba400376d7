//! `container-disk`: what runs in the small containers beside a launcher.
//!
//! ```text
//!  container of the launcher's image   container-disk --install /bin       copies itself into a folder of the pod
//!  container of the user's image       /bin/container-disk --copy-path P   listens on P.sock until it is asked to end
//!                                            ▲
//!  node agent ── connects ───────────────────┘ the kernel says which process listens; its root is the image
//!
//!  guest-console-log                   container-disk --tail LOG --while LOCK   what the guest says: `tail`
//!  virtiofs-NAME                       container-disk --virtiofs SOCKET -- PROGRAM   until QEMU has left: `served`
//! ```
//!
//! It runs where nothing else may be: no libraries, no shell, no folders. So it is built static, needs no other crate
//! than libc, says what is wrong on the standard error and nothing else. It never looks at the disk itself, and takes
//! no word from whoever connects.
#![allow(unsafe_code)] // the signals of this process and a lock, which no crate here has

mod served;
mod tail;

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// What this program is called where it copies itself to.
const NAME: &str = "container-disk";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["--install", folder] => install(Path::new(folder)),
        ["--copy-path", path] => serve(path),
        ["--tail", log, "--while", lock] => follow(Path::new(log), Path::new(lock)),
        ["--virtiofs", socket, "--", program @ ..] => share(socket, program),
        _ => Err(format!(
            "usage: {NAME} --install FOLDER | --copy-path PATH | --tail LOG --while LOCK | --virtiofs SOCKET -- PROGRAM"
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // Nobody is left to tell where even that does not work.
            let _ = writeln!(io::stderr(), "{NAME}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Copies this program into a folder; it is there whole or not at all.
fn install(folder: &Path) -> Result<(), String> {
    let (partial, whole) = (folder.join(".partial"), folder.join(NAME));
    let copy = || -> io::Result<()> {
        let mut from = File::open("/proc/self/exe")?;
        let mut to = File::create(&partial)?;
        io::copy(&mut from, &mut to)?;
        to.set_permissions(Permissions::from_mode(0o755))?;
        drop(to);
        fs::rename(&partial, &whole)
    };
    copy().map_err(|e| format!("cannot copy itself to {}: {e}", whole.display()))
}

/// Listens until it is asked to end.
fn serve(path: &str) -> Result<(), String> {
    let socket = format!("{path}.sock");
    let cannot = |e: io::Error| format!("cannot listen on {socket}: {e}");
    // Before the first thread: whoever is asked to end must not be killed by it, and as the first process of a container
    // it would not even be.
    let signals = hold().map_err(|e| format!("cannot wait for signals: {e}"))?;
    match fs::remove_file(&socket) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(cannot(e)),
        _ => {}
    }
    let listener = UnixListener::bind(&socket).map_err(cannot)?;
    let accept = move || {
        // Who connects learns who listens, and that is all there is to learn.
        for connection in listener.incoming() {
            if connection.is_err() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    };
    std::thread::Builder::new().spawn(accept).map_err(cannot)?;
    wait(&signals);
    // One that is gone already is as good.
    let _ = fs::remove_file(&socket);
    Ok(())
}

/// Shows a log until whoever writes it has ended.
fn follow(log: &Path, lock: &Path) -> Result<(), String> {
    let signals = hold().map_err(|e| format!("cannot wait for signals: {e}"))?;
    tail::follow(log, lock, io::stdout(), |pause| waited(&signals, pause))
}

/// Runs the program that serves a file system, as long as it is needed.
fn share(socket: &str, program: &[&str]) -> Result<(), String> {
    let signals = hold().map_err(|e| format!("cannot wait for signals: {e}"))?;
    let connections = || fs::read_to_string("/proc/net/unix");
    served::run(socket, program, connections, |pause| waited(&signals, pause))
}

/// Holds back what asks this process to end.
fn hold() -> io::Result<libc::sigset_t> {
    // SAFETY: the set is written by `sigemptyset` before it is read.
    unsafe {
        let mut signals: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut signals);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
            libc::sigaddset(&raw mut signals, signal);
        }
        match libc::sigprocmask(libc::SIG_BLOCK, &raw const signals, std::ptr::null_mut()) {
            0 => Ok(signals),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Waits for one of them.
fn wait(signals: &libc::sigset_t) {
    // SAFETY: the set was written by `hold`; what is told besides the number is not wanted. Interrupted by another, it is
    // waited again.
    while unsafe { libc::sigwaitinfo(signals, std::ptr::null_mut()) } == -1 {}
}

/// Waits for one of them, but no longer than this. Whether there was one.
fn waited(signals: &libc::sigset_t, pause: Duration) -> bool {
    let time = libc::timespec {
        tv_sec: pause.as_secs() as libc::time_t,
        tv_nsec: pause.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the set was written by `hold`, the time just now; what is told besides the number is not wanted.
    unsafe { libc::sigtimedwait(signals, std::ptr::null_mut(), &raw const time) != -1 }
}
