//! Runs virtiofsd in the container of a file system.
//!
//! ```text
//!  asked to end, QEMU connected    the guest still shuts down, and writes: go on; virtiofsd ends when QEMU does
//!  asked to end, nobody connected  no QEMU came, or it is gone: end it
//!  virtiofsd has ended             end as it did
//! ```
//!
//! A pod that is deleted asks all its containers at once. Whether QEMU is connected the kernel says
//! (`/proc/net/unix`): the containers of a pod share its network, and a connection has the name of its socket.

use std::io;
use std::process::Command;
use std::time::Duration;

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(250);
/// The state of a connection, as the kernel writes it.
const CONNECTED: &str = "03";

/// Runs `program` until it ends, or somebody asks for the end and nobody is connected to `socket`. `connections` tells
/// what the kernel says of sockets; `pause` waits so long at most, and returns whether a signal has asked.
pub(crate) fn run(
    socket: &str,
    program: &[&str],
    connections: impl Fn() -> io::Result<String>,
    mut pause: impl FnMut(Duration) -> bool,
) -> Result<(), String> {
    let Some((name, args)) = program.split_first() else { return Err("no program is given".to_owned()) };
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
        // Where the kernel does not say, the end of the pod's grace period decides.
        if asked && connections().is_ok_and(|lines| !is_connected(&lines, socket)) {
            // It may have ended meanwhile.
            let _ = child.kill();
            return child.wait().map(drop).map_err(|e| format!("cannot wait for {name}: {e}"));
        }
        asked |= pause(PAUSE);
    }
}

/// A connection to the socket is among the lines `Num RefCount Protocol Flags Type St Inode Path`.
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
        // Asked once, at the second pause.
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
        assert_eq!(alone(&[]), Err("no program is given".to_owned()));
    }
}
