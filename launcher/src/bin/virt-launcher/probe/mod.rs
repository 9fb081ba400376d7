//! The test of KVM: runs a small guest under it.
//!
//! ```text
//!  judge ──starts──► virt-launcher probe-kvm      a child, so that a host that hangs costs a few seconds, no more
//!        ◄─a line a step──  kvm.rs builds a VM of 2 MiB; guest.rs is the code of its guest
//! ```
//!
//! A `/dev/kvm` that opens proves little: nested and para-virtual hosts offer one that runs firmware and then
//! fails in a kernel. So the guest takes the steps of a kernel. `full`: all steps. `limited`: some of them.
//! `none`: no step.

#[cfg(target_arch = "x86_64")]
mod guest;
#[cfg(target_arch = "x86_64")]
pub(crate) mod kvm;

use api::node::{Kvm, Verdict};
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of the child. A good host needs milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// The steps of the guest, in order; each is reported when it is done.
const STEPS: [&str; 7] = [
    "firmware's mode",
    "long mode with paging",
    "CPUID",
    "SSE state",
    "cmpxchg16b",
    "model-specific registers",
    "a timer interrupt",
];

/// Runs the probe in a child.
pub(crate) fn judge() -> Kvm {
    let none = |reason: String| Kvm { verdict: Verdict::None, reason: Some(reason) };
    if let Err(e) = std::fs::File::options().read(true).write(true).open("/dev/kvm") {
        return none(format!("/dev/kvm cannot be opened: {e}"));
    }
    let child = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .arg("probe-kvm")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
    });
    match child {
        Ok(child) => {
            let (said, in_time) = wait(child);
            verdict(&said, in_time)
        }
        Err(e) => none(format!("the probe cannot be started: {e}")),
    }
}

/// The child's output, and true if it ended before the time limit.
fn wait(mut child: Child) -> (String, bool) {
    let began = Instant::now();
    let mut in_time = true;
    loop {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => break,
            Ok(None) if began.elapsed() > PATIENCE => {
                in_time = false;
                // The child may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    let mut said = String::new();
    if let Some(out) = child.stdout.take() {
        // A few lines at most: the pipe has room for them.
        let _ = out.take(4096).read_to_string(&mut said);
    }
    (said, in_time)
}

/// Reads lines `step N`, and a last line `stopped WHY` if the guest did not reach the last step.
fn verdict(said: &str, in_time: bool) -> Kvm {
    let last = said.lines().filter_map(|line| line.strip_prefix("step ")?.parse::<usize>().ok()).max();
    let why = said.lines().find_map(|line| line.strip_prefix("stopped "));
    let why = match (why, in_time) {
        (Some(why), _) => why.to_owned(),
        (None, true) => "the probe ended without any output".to_owned(),
        (None, false) => format!("no output for {} s", PATIENCE.as_secs()),
    };
    match last {
        Some(last) if last + 1 >= STEPS.len() => Kvm { verdict: Verdict::Full, reason: None },
        Some(last) => {
            let failed = STEPS.get(last + 1).copied().unwrap_or_default();
            Kvm {
                verdict: Verdict::Limited,
                reason: Some(format!("a guest could not get past {failed}: {why}")),
            }
        }
        None => Kvm { verdict: Verdict::None, reason: Some(why) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_all_steps_give_the_verdict_full() {
        let said = |last: usize| (0..=last).map(|n| format!("step {n}\n")).collect::<String>();
        assert_eq!(verdict(&said(6), true).verdict, Verdict::Full);
        let limited = verdict(&(said(3) + "stopped the host cannot emulate an instruction\n"), true);
        assert_eq!(limited.verdict, Verdict::Limited);
        assert_eq!(
            limited.reason.as_deref(),
            Some("a guest could not get past cmpxchg16b: the host cannot emulate an instruction")
        );
        assert_eq!(
            verdict(&said(0), false).reason.as_deref().unwrap().split(": ").nth(1),
            Some("no output for 5 s")
        );
        assert_eq!(verdict("stopped no memory\n", true).verdict, Verdict::None);
    }
}
