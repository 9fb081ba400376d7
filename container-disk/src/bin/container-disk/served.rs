//! virtiofsd in the container of a file system.
//!
//! ```text
//!  signal, QEMU connected      the guest still shuts down and writes: go on; virtiofsd ends when QEMU does
//!  signal, QEMU not connected  QEMU has not come, or has left: end virtiofsd
//!  virtiofsd has ended         end with the same result
//! ```
//!
//! The deletion of a pod sends a signal to all its containers at once. `/proc/net/unix` shows whether QEMU is
//! connected: the containers of a pod share its network namespace, and a connection is listed with the name
//! of its socket.

use std::io;
use std::process::Command;
use std::time::Duration;

/// Pause between two checks.
const PAUSE: Duration = Duration::from_millis(250);
/// State `SS_CONNECTED` in `/proc/net/unix`.
const CONNECTED: &str = "03";

/// Runs `program` until it ends, or until a signal has come and no client is connected to `socket`.
/// `connections` returns the lines of `/proc/net/unix`. `pause` waits at most that long, and returns true if
/// a signal has come.
pub(crate) fn run(
    socket: &str,
    program: &[&str],
    connections: impl Fn() -> io::Result<String>,
    mut pause: impl FnMut(Duration) -> bool,
) -> Result<(), String> {
    let Some((name, args)) = program.split_first() else {
        return Err("the program after -- is missing".to_owned());
    };
    // The child begins with no signal held back: the standard library sees to it.
    let mut child = Command::new(name).args(args).spawn().map_err(|e| format!("cannot run {name}: {e}"))?;
    let mut asked = false;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{name} has ended: {status}")),
            Ok(None) => {}
            Err(e) => return Err(format!("cannot wait for {name}: {e}")),
        }
        // Without the kernel's list the end of the pod's grace period decides.
        if asked && connections().is_ok_and(|lines| !is_connected(&lines, socket)) {
            // An error means that it has ended in the meantime.
            let _ = child.kill();
            return child.wait().map(drop).map_err(|e| format!("cannot wait for {name}: {e}"));
        }
        asked |= pause(PAUSE);
    }
}

/// True if a connection to the socket is among the lines `Num RefCount Protocol Flags Type St Inode Path`.
fn is_connected(lines: &str, socket: &str) -> bool {
    lines.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.nth(5) == Some(CONNECTED) && words.nth(1) == Some(socket)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn sockets() -> io::Result<String> {
        std::fs::read_to_string("/proc/net/unix")
    }

    #[test]
    fn a_connection_is_seen_and_a_listener_is_none() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("a.sock");
        let name = path.to_str().unwrap();
        let listener = UnixListener::bind(&path).unwrap();
        assert!(!is_connected(&sockets().unwrap(), name));
        let client = UnixStream::connect(&path).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(is_connected(&sockets().unwrap(), name));
        assert!(!is_connected(&sockets().unwrap(), &name[1..]), "a part of a name is another name");
        drop((server, client));
        assert!(!is_connected(&sockets().unwrap(), name));
    }

    #[test]
    fn who_is_asked_goes_on_while_qemu_is_connected_and_ends_when_it_is_not() {
        let line = "0000000000000000: 00000003 00000000 00000000 0001 03 48216 /s/a.sock\n";
        let (looks, pauses) = (Cell::new(0), Cell::new(0));
        let connections = || {
            looks.set(looks.get() + 1);
            Ok(if looks.get() < 4 { line.to_owned() } else { String::new() })
        };
        // The signal comes once, at the second pause.
        let pause = |_| {
            pauses.set(pauses.get() + 1);
            pauses.get() == 2
        };
        assert_eq!(run("/s/a.sock", &["sleep", "1000"], connections, pause), Ok(()));
        assert_eq!((looks.get(), pauses.get()), (4, 5), "nobody looks before it is asked");
    }

    #[test]
    fn it_ends_as_the_program_does() {
        let alone = |program: &[&str]| run("/s", program, || Ok(String::new()), |_| false);
        assert_eq!(alone(&["true"]), Ok(()));
        assert!(alone(&["false"]).unwrap_err().contains("false has ended: exit status: 1"));
        assert!(alone(&["/nowhere/virtiofsd"]).unwrap_err().starts_with("cannot run /nowhere/virtiofsd"));
        assert_eq!(alone(&[]), Err("the program after -- is missing".to_owned()));
    }
}
