//! Memory of a VM, compared with that of this computer before the start.

use crate::error::{Error, Result};
use api::machine::Machine;
use cdi::size::human;

/// Refuses a VM with more memory than this computer has, swap included: it would be killed while it runs, or not
/// start. The answer is `None`, or a warning about a VM that fits only beside fewer other programs.
pub fn check(machine: &Machine) -> Result<Option<String>> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    compare(&machine.name, machine.memory.guest, &text)
}

fn compare(name: &str, guest: u64, meminfo: &str) -> Result<Option<String>> {
    let Some(total) = field(meminfo, "MemTotal") else { return Ok(None) };
    let swap = field(meminfo, "SwapTotal").unwrap_or(0);
    if guest > total.saturating_add(swap) {
        let swap = if swap > 0 { format!(" and {} of swap", human(swap)) } else { String::new() };
        let what =
            format!("{name} wants {} of memory, and this computer has {}{swap}", human(guest), human(total));
        return Err(
            Error::failed(what).with_hint("--memory, or domain.memory.guest of the manifest, sets less")
        );
    }
    let free = field(meminfo, "MemAvailable").unwrap_or(total);
    Ok((guest > free).then(|| {
        format!(
            "coracle: warning: {name} has {} of memory, and {} of {} are free on this computer",
            human(guest),
            human(free),
            human(total)
        )
    }))
}

/// A field of `/proc/meminfo` in bytes.
fn field(meminfo: &str, name: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str =
        "MemTotal:       24117248 kB\nMemFree:  1 kB\nMemAvailable:   4194304 kB\nSwapTotal:  1048576 kB\n";

    #[test]
    fn a_vm_larger_than_the_computer_is_refused_before_its_start() {
        let e = compare("web", 500 << 30, MEMINFO).unwrap_err();
        let said = "web wants 500 GiB of memory, and this computer has 23 GiB and 1 GiB of swap; --memory";
        assert!(e.to_string().starts_with(said), "{e}");
        let warned = compare("web", 8 << 30, MEMINFO).unwrap().unwrap();
        assert!(
            warned.ends_with("web has 8 GiB of memory, and 4 GiB of 23 GiB are free on this computer"),
            "{warned}"
        );
        assert_eq!(compare("web", 1 << 30, MEMINFO).unwrap(), None);
        assert_eq!(compare("web", 500 << 30, "").unwrap(), None, "nothing is known");
    }
}
