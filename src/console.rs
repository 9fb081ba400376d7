//! Joins the terminal to a VM's serial console.
//!
//! ```text
//!  keys ──────► Ctrl-]? leave ──────► the launcher's stream ──► the guest
//!  screen ◄─────────────────────────┘
//! ```
//!
//! Without a terminal (a pipe, a file, nothing) bytes pass unchanged. The end of the input does not end the
//! stream: output goes on until the VM ends.

use crate::error::{Error, Result};
use crate::terminal::Raw;
use local_vm::client::{Client, Stream};
use local_vm::record::Vm;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::time::Duration;

/// Delay between the VM's end and the end of its console, for the last output.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// Shuts the stream down when the VM has ended: a launcher keeps it open, since the VM may be started again.
pub(crate) fn close_at_end(vm: &Vm, client: &Client, stream: &Stream) -> Result<()> {
    let socket = stream.socket.try_clone().map_err(|e| Error::io("cannot use the console", e))?;
    let (vm, client) = (vm.clone(), client.clone());
    std::thread::spawn(move || {
        // A launcher that goes away closes the stream itself.
        if vm.wait_for_end(&client, None).is_ok() {
            std::thread::sleep(LAST_WORDS);
            let _ = socket.shutdown(Shutdown::Both);
        }
    });
    Ok(())
}

/// Key that leaves the console: Ctrl-].
const LEAVE: u8 = 0x1d;

/// Reason for the end of a joined console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaveReason {
    /// The user pressed Ctrl-].
    Keys,
    /// The launcher closed the stream.
    End,
}

/// Copies between terminal and stream until the user or the launcher ends it.
pub(crate) fn join(stream: &mut Stream, input: bool) -> Result<LeaveReason> {
    let raw = if input { Raw::of_stdin()? } else { None };
    show(&stream.first)?;
    stream.first.clear();
    let stdin = std::io::stdin();
    let mut listening = input;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let mut fds = vec![PollFd::new(&stream.socket, PollFlags::IN)];
        if listening {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            other => other.map_err(|e| Error::io("cannot wait for the console", e))?,
        };
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if ready.get(1) == Some(&true) {
            let read = rustix::io::read(&stdin, &mut buffer);
            let count = match read {
                Err(Errno::INTR) => continue,
                // The terminal hung up.
                Err(Errno::IO) => return Ok(LeaveReason::Keys),
                other => other.map_err(|e| Error::io("cannot read the keys", e))?,
            };
            listening = count > 0;
            let typed = &buffer[..count];
            let leave = raw.is_some().then(|| typed.iter().position(|&key| key == LEAVE)).flatten();
            let sent = stream.socket.write_all(&typed[..leave.unwrap_or(count)]);
            if leave.is_some() {
                return Ok(LeaveReason::Keys);
            }
            match sent {
                Err(e) if gone(&e) => return Ok(LeaveReason::End),
                other => other.map_err(|e| Error::io("cannot send keys to the console", e))?,
            }
        }
        if ready[0] {
            match stream.socket.read(&mut buffer) {
                Ok(0) => return Ok(LeaveReason::End),
                Ok(count) => show(&buffer[..count])?,
                Err(e) if gone(&e) => return Ok(LeaveReason::End),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::io("cannot read the console", e)),
            }
        }
    }
}

fn gone(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

fn show(bytes: &[u8]) -> Result<()> {
    crate::ui::raw(bytes)
}
