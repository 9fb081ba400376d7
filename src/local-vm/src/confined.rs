//! Log lines at `-v` on the confinement of processes of a VM that are not confined by us: `coracle run`
//! itself, the launcher, QEMU. Processes that read images log their own (`commands/worker.rs`).
//!
//! The kernel tells of another process whether system calls are filtered, and nothing about Landlock, which
//! neither the launcher nor libvirt uses.

use super::client::Client;
use api::launcher::State;

/// Logs the confinement of this process, which cannot give up anything.
pub fn tell_own() {
    let why = "it must start programs; it reads no image, processes of their own do";
    tell("coracle", std::process::id(), why);
}

/// Logs the confinement of the VM's launcher and QEMU.
pub(super) fn tell_vm(client: &Client, state: &State) {
    if let Ok(info) = client.info() {
        tell("virt-launcher", info.pid, "it must start QEMU, and reads no image");
    }
    if let Some(pid) = state.qemu_pid {
        tell("QEMU", pid, "libvirt does not use it");
    }
}

fn tell(name: &str, pid: u32, no_landlock: &str) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
    let seccomp = match &status {
        Ok(status) => seccomp(status).to_owned(),
        Err(e) => format!("not known: /proc/{pid}/status: {e}"),
    };
    tracing::info!(
        "confined: {name} (process {pid}): Landlock (files): not in force: {no_landlock}; seccomp (system calls): \
         {seccomp}"
    );
}

/// Seccomp mode in the text of `/proc/PID/status`, as a phrase of the log line.
fn seccomp(status: &str) -> &'static str {
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    match mode {
        Some("0") => "not in force: it has no filter",
        Some("1" | "2") => "in force",
        _ => "not known: this kernel does not tell",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_whether_calls_are_filtered() {
        assert_eq!(seccomp("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n"), "in force");
        assert_eq!(seccomp("Seccomp:\t0\nSeccomp_filters:\t0\n"), "not in force: it has no filter");
        assert_eq!(seccomp("Name:\tSeccomp:\t2\n"), "not known: this kernel does not tell");
    }
}
