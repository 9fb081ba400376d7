//! Stops a run at a mark, so that a test can change its disk before the run goes on.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// True once the journal of this target has a mark.
pub(crate) fn has_mark(target: &Path) -> bool {
    let journal = std::fs::read(format!("{}.partial.journal", target.display())).unwrap_or_default();
    journal.windows(10).any(|part| part == b"\"position\"")
}

/// Sends a signal, like `-STOP`.
pub(crate) fn signal(process: u32, which: &str) {
    // The process may have ended.
    let _ = Command::new("kill").args([which, &process.to_string()]).stderr(Stdio::null()).status();
}

/// Stops all threads of a process; false if it has ended.
pub(crate) fn is_held(process: u32) -> bool {
    signal(process, "-STOP");
    loop {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let states: Vec<char> = tasks.filter_map(|task| state(&task.path())).collect();
        if states.is_empty() || states.contains(&'Z') {
            return false;
        }
        if states.iter().all(|&state| state == 'T') {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// State letter of a task, which follows the name in parentheses.
fn state(task: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(task.join("stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}
