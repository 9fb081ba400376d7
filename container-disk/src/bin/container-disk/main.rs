//! `container-disk`: the program of the small containers in a launcher pod.
//!
//! ```text
//!  launcher's image    container-disk --install /bin       copies itself into a volume of the pod
//!  user's image        /bin/container-disk --copy-path P   listens on P.sock until it gets a signal
//!                            ▲
//!  virt-handler ── connects ─┘ SO_PEERCRED names the listening process; its root is the image
//!
//!  guest-console-log   container-disk --tail LOG --while LOCK   prints the serial console: `tail`
//!  virtiofs-NAME       container-disk --virtiofs SOCKET -- PROGRAM   until QEMU has left: `served`
//! ```
//!
//! The user's image may be empty: no libraries, no shell, no folders. So the program is built static, needs
//! no crate other than libc, and writes only errors, to the standard error. It never reads the disk, and
//! reads nothing from its clients.
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

/// File name of the installed program.
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
            // A failed write to the standard error cannot be reported anywhere.
            let _ = writeln!(io::stderr(), "{NAME}: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Copies this program into `folder`. The rename makes the copy appear complete or not at all.
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
    copy().map_err(|e| format!("cannot copy this program to {}: {e}", whole.display()))
}

/// Listens until a signal asks the process to end.
fn serve(path: &str) -> Result<(), String> {
    let socket = format!("{path}.sock");
    let cannot = |e: io::Error| format!("cannot listen on {socket}: {e}");
    // Before the first thread starts. The signals must not kill the process, and the first process of a
    // container ignores them by default.
    let signals = hold().map_err(|e| format!("cannot wait for signals: {e}"))?;
    match fs::remove_file(&socket) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(cannot(e)),
        _ => {}
    }
    let listener = UnixListener::bind(&socket).map_err(cannot)?;
    let accept = move || {
        // A client only needs SO_PEERCRED of the listener. Nothing is read or written.
        for connection in listener.incoming() {
            if connection.is_err() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    };
    std::thread::Builder::new().spawn(accept).map_err(cannot)?;
    wait(&signals);
    // A socket that is gone already needs no removal.
    let _ = fs::remove_file(&socket);
    Ok(())
}

/// Prints a log until its writer, which holds `lock`, has ended.
fn follow(log: &Path, lock: &Path) -> Result<(), String> {
    let signals = hold().map_err(|e| format!("cannot wait for signals: {e}"))?;
    tail::follow(log, lock, io::stdout(), |pause| waited(&signals, pause))
}

/// Runs the program that serves a file system (virtiofsd) as long as it is needed.
fn share(socket: &str, program: &[&str]) -> Result<(), String> {
    let signals = hold().map_err(|e| format!("cannot wait for signals: {e}"))?;
    let connections = || fs::read_to_string("/proc/net/unix");
    served::run(socket, program, connections, |pause| waited(&signals, pause))
}

/// Blocks the signals that ask this process to end, so that `wait` can receive them.
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

/// Waits for one of the blocked signals.
fn wait(signals: &libc::sigset_t) {
    // SAFETY: the set was written by `hold`, and a null pointer means that no details are wanted. An
    // interrupted wait is repeated.
    while unsafe { libc::sigwaitinfo(signals, std::ptr::null_mut()) } == -1 {}
}

/// Waits for one of the blocked signals, at most `pause` long. True if one came.
fn waited(signals: &libc::sigset_t, pause: Duration) -> bool {
    let time = libc::timespec {
        tv_sec: pause.as_secs() as libc::time_t,
        tv_nsec: pause.subsec_nanos() as libc::c_long,
    };
    // SAFETY: the set was written by `hold`, and `time` above. A null pointer means that no details are
    // wanted.
    unsafe { libc::sigtimedwait(signals, std::ptr::null_mut(), &raw const time) != -1 }
}
