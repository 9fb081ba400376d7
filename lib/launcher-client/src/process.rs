//! The QEMU process of a VM's state: does it still run?
//!
//! The process ID alone does not tell. A process that has ended keeps its ID, name and start time until its
//! parent has waited for it (a zombie); later the ID belongs to another process, and surely after a reboot of
//! the host.

use api::launcher::State;
use storage::ProcessStat;

/// State of a process ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// No process has this ID.
    Absent,
    /// The process has ended, and its parent has not waited for it.
    Zombie,
    Runs {
        /// Start time in clock ticks since boot.
        started: u64,
    },
}

impl Process {
    /// State of this process ID now.
    pub fn of(pid: u32) -> Process {
        match ProcessStat::of(pid) {
            None => Process::Absent,
            Some(process) if process.is_zombie => Process::Zombie,
            Some(process) => Process::Runs { started: process.started },
        }
    }

    /// Start time in clock ticks since boot, if the process runs.
    pub fn started(self) -> Option<u64> {
        match self {
            Process::Runs { started } => Some(started),
            Process::Absent | Process::Zombie => None,
        }
    }
}

/// True if the QEMU process of this state runs on this host.
pub fn runs_qemu(state: &State) -> bool {
    state.qemu_pid.is_some_and(|pid| is_qemu(pid, state.qemu_started))
}

/// True if a QEMU has this process ID that runs a guest of this name.
pub fn is_qemu_of(pid: u32, guest: &str) -> bool {
    is_qemu(pid, None) && guest_of(pid).as_deref() == Some(guest)
}

/// Name of a QEMU's guest in the argument `-name guest=NAME,…`.
fn guest_of(pid: u32) -> Option<String> {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let text = String::from_utf8_lossy(&line);
    let named = text.split('\0').skip_while(|word| *word != "-name").nth(1)?;
    named.split(',').find_map(|part| part.strip_prefix("guest=")).map(str::to_owned)
}

/// True if this process is the QEMU that started at `since`. Without a start time its name must be one of
/// QEMU's.
fn is_qemu(pid: u32, since: Option<u64>) -> bool {
    let Process::Runs { started } = Process::of(pid) else { return false };
    match since {
        Some(since) => since == started,
        None => storage::is_qemu(pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    #[test]
    fn a_zombie_and_another_process_of_that_number_do_not_run_qemu() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("qemu-system-any");
        // Written by `cp`: a child that another test forks would keep a copy of ours open, and busy.
        assert!(Command::new("cp").arg("/bin/cat").arg(&program).status().unwrap().success());
        let mut child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        let started = Process::of(pid).started().unwrap();
        assert!(is_qemu(pid, Some(started)) && is_qemu(pid, None));
        assert!(!is_qemu(pid, Some(started + 1)), "it started at another time");
        let own = std::process::id();
        let started_too = Process::of(own).started().unwrap();
        assert!(!is_qemu(own, None), "this is not QEMU");
        assert!(is_qemu(own, Some(started_too)), "its number and its start say which process it is");
        child.kill().unwrap();
        // The process has closed its standard output at its end, and was not waited for.
        child.stdout.take().unwrap().read_to_end(&mut vec![]).unwrap();
        while Process::of(pid) != Process::Zombie {
            std::thread::yield_now();
        }
        assert!(storage::is_qemu(pid), "it has its name to the end");
        assert!(!is_qemu(pid, Some(started)) && !is_qemu(pid, None));
        child.wait().unwrap();
        assert_eq!(Process::of(pid), Process::Absent);
    }
}
