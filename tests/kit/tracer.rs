//! A program under ptrace, killed at one of its system calls: whatever it did before is done, and nothing of what follows.
//!
//! Calls of all its threads are counted in the order in which they come. Threads take turns as they like, so that the same number
//! may be another call in another run; over all numbers every place is met.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// The end of a program that was traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traced {
    /// System calls that were begun.
    pub calls: u64,
    /// The exit code; `None` where it was killed.
    pub code: Option<i32>,
}

/// Runs a program to its end, or kills it as it begins its system call number `kill_at` (the first is 1).
#[allow(unsafe_code)]
pub fn run(command: &mut Command, kill_at: Option<u64>) -> io::Result<Traced> {
    let trace = || match request(libc::PTRACE_TRACEME, 0, 0, 0) {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    };
    // SAFETY: one system call, and no memory is allocated between fork and exec.
    let child = unsafe { command.pre_exec(trace) }.spawn()?;
    let leader = libc::pid_t::try_from(child.id()).map_err(io::Error::other)?;
    let (mut calls, mut is_set_up) = (0, false);
    loop {
        let (task, status) = wait()?;
        if !libc::WIFSTOPPED(status) {
            if task == leader {
                let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
                return Ok(Traced { calls, code });
            }
            continue;
        }
        if !is_set_up {
            let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
            request(libc::PTRACE_SETOPTIONS, task, 0, i64::from(options));
            is_set_up = true;
        }
        let signal = libc::WSTOPSIG(status);
        if signal == libc::SIGTRAP | 0x80 && is_entry(task) {
            calls += 1;
            if Some(calls) == kill_at {
                // SAFETY: the process was started here and has not been waited for.
                unsafe { libc::kill(leader, libc::SIGKILL) };
            }
        }
        // Stops of ptrace's own, and the first one of a thread, are not signals for the program.
        let is_for_it = !matches!(signal & !0x80, libc::SIGTRAP | libc::SIGSTOP);
        // A thread that was killed meanwhile is not there any more.
        request(libc::PTRACE_SYSCALL, task, 0, if is_for_it { i64::from(signal) } else { 0 });
    }
}

/// The next child or thread of one, of the calling thread alone, that stopped or ended.
#[allow(unsafe_code)]
fn wait() -> io::Result<(libc::pid_t, libc::c_int)> {
    /// Children of other threads are theirs.
    const ONLY_OURS: libc::c_int = 0x2000_0000;
    loop {
        let mut status = 0;
        // SAFETY: `status` is writable.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | ONLY_OURS) } {
            -1 => match io::Error::last_os_error() {
                e if e.kind() == io::ErrorKind::Interrupted => {}
                e => return Err(e),
            },
            task => return Ok((task, status)),
        }
    }
}

/// True if the task stands at the beginning of a system call, not at its end.
#[allow(unsafe_code)]
fn is_entry(task: libc::pid_t) -> bool {
    const GET_SYSCALL_INFO: libc::c_uint = 0x420e;
    const ENTRY: u8 = 1;
    let mut info = [0_u8; 88];
    // SAFETY: the kernel writes no more than the length that it is told.
    let got = unsafe { libc::ptrace(GET_SYSCALL_INFO, task, info.len(), info.as_mut_ptr()) };
    got > 0 && info[0] == ENTRY
}

#[allow(unsafe_code)]
fn request(what: libc::c_uint, task: libc::pid_t, address: i64, data: i64) -> i64 {
    // SAFETY: these requests take numbers alone.
    unsafe { libc::ptrace(what, task, address, data) }
}
