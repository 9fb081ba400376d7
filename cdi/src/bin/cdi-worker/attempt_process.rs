//! The parent's side of an attempt: a process of this program that gets an order and reports its progress.

use crate::fault::{FAILED, KILLED};
use crate::pod;
use crate::protocol::{Disk, Fault, Job, LONGEST, Order, ProgressLine};
use crate::stop::{Running, Stop};
use cdi::{Error, Result};
use rustix::process::{Signal, WaitOptions, set_parent_process_death_signal};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

/// The result of an attempt.
#[derive(Debug, Clone)]
pub(crate) enum AttemptResult {
    Done(Disk),
    Failed(Fault),
}

/// A running attempt: the child process, and the lines that it prints to its standard output.
pub(crate) struct Attempt {
    lines: BufReader<ChildStdout>,
    last: Option<ProgressLine>,
    stop: Stop,
}

impl Attempt {
    /// Starts an attempt, which ends when this process is asked to end.
    pub(crate) fn start<J: Job>(order: &Order<J>, stop: &Stop) -> Result<Attempt> {
        let (child, to, from) = spawn(order)?;
        stop.runs(Running { child, wanted: Some(to) });
        Ok(Attempt { lines: BufReader::new(from), last: None, stop: stop.clone() })
    }

    /// Starts an attempt whose source comes through its input. The thread that calls this must live as long
    /// as the attempt.
    pub(crate) fn start_with_input(order: &Order, stop: &Stop) -> Result<(Attempt, ChildStdin)> {
        let (child, to, from) = spawn(order)?;
        stop.runs(Running { child, wanted: None });
        Ok((Attempt { lines: BufReader::new(from), last: None, stop: stop.clone() }, to))
    }

    /// The next line of the attempt; `None` at its end, or if the line makes no sense.
    pub(crate) fn next(&mut self) -> Option<ProgressLine> {
        let mut line = vec![];
        self.lines.by_ref().take(LONGEST).read_until(b'\n', &mut line).ok()?;
        let said: ProgressLine = serde_json::from_slice(&line).ok()?;
        if matches!(said, ProgressLine::Done(_) | ProgressLine::Failed(_)) {
            self.last.get_or_insert_with(|| said.clone());
        }
        Some(said)
    }

    /// Waits for the end of the attempt.
    pub(crate) fn end(self) -> Result<AttemptResult> {
        let Attempt { lines, last, stop } = self;
        // Closes the pipe, so that further lines of the attempt fail.
        drop(lines);
        let status = stop.ended(|running| {
            let Some(Running { mut child, wanted }) = running else {
                return Err(io::Error::other("it was lost"));
            };
            drop(wanted);
            let status = child.wait();
            reap();
            status
        });
        let status = status.map_err(|e| Error::io("cannot wait for the process that converts", e))?;
        Ok(match last {
            Some(ProgressLine::Done(disk)) if status.success() => AttemptResult::Done(disk),
            Some(ProgressLine::Failed(fault)) => AttemptResult::Failed(fault),
            _ => AttemptResult::Failed(fault_of_exit(status)),
        })
    }
}

/// Starts the process with its order, and returns its pipes.
fn spawn<J: Job>(order: &Order<J>) -> Result<(Child, ChildStdin, ChildStdout)> {
    let cannot = |e| Error::io("cannot start the process that converts", e);
    let mut order = serde_json::to_vec(order).map_err(|e| cannot(e.into()))?;
    order.push(b'\n');
    // The running program.
    let mut command = Command::new("/proc/self/exe");
    command.arg0("cdi-worker").arg(J::ATTEMPT).stdin(Stdio::piped()).stdout(Stdio::piped());
    // The order contains the job.
    command.env_remove(pod::JOB);
    end_with_us(&mut command);
    let mut child = command.spawn().map_err(cannot)?;
    let (Some(mut to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Error::failed("the process that converts has no pipes"));
    };
    // If this fails the process has ended, and its exit status is the better error.
    let _ = to.write_all(&order);
    Ok((child, to, from))
}

/// The fault of a process that ended without a result. After a kill, perhaps for lack of memory, another
/// attempt may succeed; after any other end it would end so again.
fn fault_of_exit(status: ExitStatus) -> Fault {
    let is_killed = status.signal() == Some(Signal::KILL.as_raw());
    let message = match is_killed {
        true => {
            "the process that converts was killed; where the pod ran out of memory, it needs a higher limit"
                .to_owned()
        }
        false => {
            format!(
                "the process that converts ended without a result ({status}); the image may have made it crash"
            )
        }
    };
    let reason = if is_killed { KILLED } else { FAILED };
    Fault { reason: reason.to_owned(), message, may_retry: is_killed, ..Fault::default() }
}

/// Makes the attempt end with this process, by SIGKILL, which cannot be ignored.
#[allow(unsafe_code)]
fn end_with_us(command: &mut Command) {
    let ask = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    // SAFETY: between fork and exec only one system call is made, and no memory is taken.
    unsafe {
        command.pre_exec(ask);
    }
}

/// Reaps ended processes that an attempt left: the first process of a container inherits them, and has no
/// others.
fn reap() {
    while std::process::id() == 1 && matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
}
