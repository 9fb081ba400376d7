//! Processes by their files in /proc: whether one lives, and those that have started this one.
//!
//! A confined program may look at the folder of each process, and read the files that it was given ([`crate::facts`]): those of its
//! ancestors. It may not ask by a signal.

use rustix::io::Errno;
use rustix::process::{Pid, getpid, test_kill_process};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const PROC: &str = "/proc";
/// The most ancestors that are looked for: more than any stack of shells has.
const MOST: usize = 64;

/// A process, as its line in /proc/PID/stat has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    pub pid: u32,
    /// Process ID of the parent; 0 if it has none here.
    pub parent: u32,
    /// True if it has ended, and its parent has not waited for it.
    pub is_zombie: bool,
    /// Start time in clock ticks since boot.
    pub started: u64,
}

impl ProcessStat {
    /// The process with this ID now. `None` if there is none, or if it is not shown to this program.
    pub fn of(pid: u32) -> Option<ProcessStat> {
        ProcessStat::read(Path::new(PROC), &pid.to_string())
    }

    fn read(proc: &Path, process: &str) -> Option<ProcessStat> {
        // The name of a program need not be UTF-8.
        let line = fs::read(proc.join(process).join("stat")).ok()?;
        ProcessStat::parse(&String::from_utf8_lossy(&line))
    }

    /// Parses `PID (NAME) STATE PARENT …`. The name may contain any character, and the start time is field 22.
    fn parse(line: &str) -> Option<ProcessStat> {
        let (pid, _) = line.split_once(' ')?;
        let (_, fields) = line.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let is_zombie = matches!(fields.next()?, "Z" | "X" | "x");
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(ProcessStat { pid: pid.parse().ok()?, parent, is_zombie, started })
    }
}

/// Files of this process and its ancestors that [`lineage`] reads.
pub(crate) fn lineage_files() -> Vec<PathBuf> {
    lineage().into_iter().map(|pid| Path::new(PROC).join(pid.to_string()).join("stat")).collect()
}

/// Process IDs of this process and its ancestors up to init, the nearest first. An ancestor that /proc does not show ends the
/// list; this process and its parent are always in it.
pub(crate) fn lineage() -> Vec<u32> {
    let found = lineage_in(Path::new(PROC));
    if found.is_empty() {
        let known = [std::process::id(), std::os::unix::process::parent_id()];
        return known.into_iter().filter(|&pid| pid != 0).collect();
    }
    found
}

/// `proc`: a folder as /proc is. Empty if it does not show this process.
fn lineage_in(proc: &Path) -> Vec<u32> {
    let Some(mut child) = ProcessStat::read(proc, "self") else { return vec![] };
    let mut found = vec![child.pid];
    while child.parent != 0 && found.len() < MOST && !found.contains(&child.parent) {
        let parent = ProcessStat::read(proc, &child.parent.to_string());
        // A process that began after its child has got the ID of one that has ended meanwhile.
        if parent.is_some_and(|parent| parent.started > child.started) {
            break;
        }
        found.push(child.parent);
        let Some(parent) = parent else { break };
        child = parent;
    }
    found
}

/// True if there is a process with this ID. Where neither /proc nor a signal tells that there is none (a confined program whose
/// /proc hides the processes of others), the process is assumed to live.
pub(crate) fn lives(pid: u32) -> bool {
    let Some(known) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    let proc = Path::new(PROC);
    if fs::metadata(proc.join(pid.to_string())).is_ok() {
        return true;
    }
    // A confined program may not even signal itself.
    match test_kill_process(getpid()) {
        // A process that may not be signalled lives.
        Ok(()) => test_kill_process(known) != Err(Errno::SRCH),
        Err(_) => !has_ended(proc, pid),
    }
}

/// True if /proc shows that there is no such process.
fn has_ended(proc: &Path, pid: u32) -> bool {
    let is_missing =
        |process: &str| fs::metadata(proc.join(process)).is_err_and(|e| e.kind() == ErrorKind::NotFound);
    // Process 1 lives always, and belongs to another user as a rule: a /proc that hides processes hides it, too.
    is_missing(&pid.to_string()) && fs::metadata(proc.join("1")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    fn line(pid: &str, name: &str, state: char, parent: u32, started: u64) -> String {
        format!("{pid} ({name}) {state} {parent} 7 7 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 {started} 9 8 7")
    }

    /// A folder as /proc is: the ID of each process, of its parent, and its start.
    fn proc(own: u32, processes: &[(u32, u32, u64)]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        for (pid, parent, started) in processes {
            let folder = proc.path().join(pid.to_string());
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("stat"), line(&pid.to_string(), "a) S 1 (b", 'S', *parent, *started))
                .unwrap();
        }
        std::os::unix::fs::symlink(own.to_string(), proc.path().join("self")).unwrap();
        proc
    }

    #[test]
    fn a_process_is_read_behind_any_name() {
        let read = |name, state| ProcessStat::parse(&line("7", name, state, 3, 4711));
        let process = ProcessStat { pid: 7, parent: 3, is_zombie: false, started: 4711 };
        for name in ["sh", "qemu) Z 1", ") ) (", ""] {
            assert_eq!(read(name, 'S'), Some(process), "{name}");
            assert_eq!(read(name, 'Z'), Some(ProcessStat { is_zombie: true, ..process }), "{name}");
        }
        for broken in ["7 (qemu) S 1 2", "7 (qemu", "x (sh) S", ""] {
            assert_eq!(ProcessStat::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn ancestors_are_found_up_to_init() {
        let found = |processes: &[(u32, u32, u64)]| lineage_in(proc(40, processes).path());
        let [own, shell, flock, init] = [(40, 30, 900), (30, 20, 800), (20, 1, 800), (1, 0, 1)];
        assert_eq!(found(&[own, shell, flock, init]), [40, 30, 20, 1]);
        assert_eq!(found(&[own, shell, init]), [40, 30, 20], "one that is not shown");
        assert_eq!(
            found(&[own, shell, (20, 1, 801), init]),
            [40, 30],
            "another process has got the ID of one"
        );
        assert_eq!(found(&[own, shell, (20, 40, 700)]), [40, 30, 20], "a circle");
        assert_eq!(found(&[(40, 0, 900)]), [40], "the parent is in another namespace");
        assert_eq!(found(&[shell]), [0; 0]);
        let long: Vec<_> = (40..1000).map(|pid| (pid, pid + 1, 5)).collect();
        assert_eq!(found(&long).len(), MOST);
    }

    #[test]
    fn a_process_has_ended_only_if_the_others_are_shown() {
        let all = proc(40, &[(1, 0, 1), (40, 1, 2)]);
        assert_eq!([1, 40, 41].map(|pid| has_ended(all.path(), pid)), [false, false, true]);
        let own = proc(40, &[(40, 1, 2)]);
        assert_eq!([40, 41].map(|pid| has_ended(own.path(), pid)), [false, false]);
        assert!(!has_ended(&all.path().join("none"), 41));
    }

    #[test]
    fn this_process_has_its_parent_as_ancestor_and_its_child_not() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (own, parent) = (std::process::id(), std::os::unix::process::parent_id());
        let found = lineage();
        assert_eq!(found[0], own);
        assert!(parent == 0 || found[1] == parent, "{found:?}");
        assert!(!found.contains(&child.id()));
        assert!(found.iter().all(|&pid| lives(pid)) && lives(child.id()));
        assert_eq!(ProcessStat::of(child.id()).unwrap().parent, own);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!lives(child.id()));
        assert!(!lives(i32::MAX as u32) && lives(0) && lives(u32::MAX));
        assert_eq!(lineage_files()[0], Path::new(&format!("/proc/{own}/stat")));
    }
}
