//! A run of the program with what it took: time and the peak of its resident memory.

use crate::coracle::Ran;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The result of a run, its memory and its time.
#[derive(Debug)]
pub struct Measured {
    /// The result.
    pub ran: Ran,
    /// The most resident memory it had, in bytes, as far as a look every few milliseconds tells.
    pub peak: u64,
    /// The time.
    pub time: Duration,
}

/// Runs a command to its end, which must come within `limit`. Its output must fit a pipe.
#[track_caller]
pub fn measure(command: &mut Command, limit: Duration) -> Measured {
    let since = Instant::now();
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program can be started");
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    while child.try_wait().expect("a child can be waited for").is_none() {
        peak = peak.max(high_water(&status));
        if since.elapsed() > limit {
            let _ = child.kill();
            let ran = child.wait_with_output().map(Ran::of);
            panic!("it took more than {limit:?} and {peak} bytes of memory: {ran:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let time = since.elapsed();
    let ran = Ran::of(child.wait_with_output().expect("its output can be read"));
    Measured { ran, peak, time }
}

/// The kernel keeps the peak itself; a process that has ended has none any more.
fn high_water(status: &str) -> u64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib =
        line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|n| n.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
