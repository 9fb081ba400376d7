//! What confines each process of a VM that is not ours to confine: `coracle run` itself, the launcher, QEMU. One line
//! for each at `-v`. Those that read images say it themselves (`commands/apart.rs`).
//!
//! Of a process that somebody else has started the kernel tells whether system calls are filtered, and nothing about
//! Landlock, which neither the launcher nor libvirt uses.

use super::client::Client;
use api::launcher::State;

/// Says it of this process, which can give up nothing.
pub(crate) fn tell_own() {
    let why = "it must start programs; it reads no image, processes of their own do";
    tell("coracle", std::process::id(), why);
}

/// Says it of a VM's processes.
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

/// What the kernel says of a process.
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
