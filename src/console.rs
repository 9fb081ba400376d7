//! Joins the terminal to a VM's serial console.
//!
//! ```text
//!  keys ──────► Ctrl-]? leave ──────► the launcher's stream ──► the guest
//!  screen ◄─────────────────────────┘
//! ```
//!
//! Without a terminal (a pipe, a file, nothing) bytes pass unchanged. What the end of the input does is the
//! verb's choice: see [`Input`].

use crate::error::{Error, Result};
use crate::terminal::Raw;
use local_vm::client::{Client, Stream};
use local_vm::record::Vm;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::time::{Duration, Instant};

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

/// Silence of the guest that ends its answer to an input that has ended.
const QUIET: Duration = Duration::from_secs(2);
/// The longest answer of a guest to an input that has ended.
const ANSWER: Duration = Duration::from_secs(10);

/// Use of standard input by a joined console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// It is not read.
    Unread,
    /// It is sent to the guest, and its end leaves the console after the guest's answer.
    LeavesAtEnd,
    /// It is sent to the guest, and the console stays joined after its end.
    StaysAtEnd,
}

/// Reason for the end of a joined console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaveReason {
    /// The user pressed Ctrl-].
    Keys,
    /// Standard input, which is no terminal, has ended.
    InputEnd,
    /// The launcher closed the stream.
    End,
}

/// Answer of a guest to an input that has ended.
struct Answer {
    /// Time of the input's end.
    since: Instant,
    /// Time of the input's end, or of the last output after it.
    last: Instant,
}

impl Answer {
    fn from(now: Instant) -> Answer {
        Answer { since: now, last: now }
    }

    /// Time to wait for more of the answer; `None` when it is over.
    fn left(&self, now: Instant) -> Option<Duration> {
        let end = (self.last + QUIET).min(self.since + ANSWER);
        Some(end.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }
}

/// Copies between terminal and stream until the user, the end of the input or the launcher ends it.
pub(crate) fn join(stream: &mut Stream, input: Input) -> Result<LeaveReason> {
    let mut listening = input != Input::Unread;
    let raw = if listening { Raw::of_stdin()? } else { None };
    let mut answer: Option<Answer> = None;
    show(&stream.first)?;
    stream.first.clear();
    let stdin = std::io::stdin();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let patience = match &answer {
            None => None,
            Some(answer) => match answer.left(Instant::now()) {
                None => return Ok(LeaveReason::InputEnd),
                left => left,
            },
        };
        let patience = patience.and_then(|left| Timespec::try_from(left).ok());
        let mut fds = vec![PollFd::new(&stream.socket, PollFlags::IN)];
        if listening {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        match poll(&mut fds, patience.as_ref()) {
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
            if !listening && raw.is_none() && input == Input::LeavesAtEnd {
                answer = Some(Answer::from(Instant::now()));
            }
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
                Ok(count) => {
                    show(&buffer[..count])?;
                    if let Some(answer) = &mut answer {
                        answer.last = Instant::now();
                    }
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_over_when_the_guest_is_quiet_or_never_ends() {
        let since = Instant::now();
        let mut answer = Answer::from(since);
        let second = |count| since + Duration::from_secs(count);
        assert_eq!(answer.left(since), Some(QUIET));
        assert_eq!(answer.left(since + QUIET), None);
        answer.last = second(5);
        assert_eq!(answer.left(second(6)), Some(QUIET - Duration::from_secs(1)));
        assert_eq!(answer.left(second(7)), None);
        answer.last = second(9);
        assert_eq!(answer.left(second(9)), Some(Duration::from_secs(1)));
        answer.last = second(10);
        assert_eq!(answer.left(second(10)), None);
    }
}
