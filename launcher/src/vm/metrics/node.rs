//! Metrics of the node from the kernel: a container sees these files as the node does.

use std::collections::BTreeMap;
use std::fs;

/// Ticks of a CPU in a second, as the kernel counts them for programs.
const TICKS: u64 = 100;

/// CPUs and memory of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) cpus: u64,
    /// CPU time since the start of the node, in seconds.
    pub(super) worked: u64,
    /// KiB of memory: free, free with swap, used with swap, and total.
    pub(super) free: u64,
    pub(super) free_virtual: u64,
    pub(super) used_virtual: u64,
    pub(super) memory: u64,
    /// KiB that were swapped in, and swapped out.
    pub(super) paged_in: u64,
    pub(super) paged_out: u64,
}

impl Node {
    /// Reads the current metrics; values that the kernel does not report are 0. Blocks.
    pub(super) fn read() -> Node {
        let text = |name: &str| fs::read_to_string(format!("/proc/{name}")).unwrap_or_default();
        Node::of(&text("stat"), &text("meminfo"), &text("vmstat"))
    }

    fn of(stat: &str, meminfo: &str, vmstat: &str) -> Node {
        let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).unwrap_or(0_u64);
        let cpus = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
        let all = stat.lines().find_map(|line| line.strip_prefix("cpu "));
        // user nice system idle iowait irq softirq steal: all but idle and iowait count as work.
        let worked = all.map_or(0, |all| {
            let ticks = all.split_whitespace().take(8).enumerate();
            let busy = ticks.filter(|(n, _)| ![3, 4].contains(n)).map(|(_, word)| number(Some(word)));
            busy.fold(0, u64::saturating_add) / TICKS
        });
        let table = |text: &str| -> BTreeMap<String, u64> {
            let lines = text.lines().filter_map(|line| {
                let mut words = line.split_whitespace();
                Some((words.next()?.trim_end_matches(':').to_owned(), number(words.next())))
            });
            lines.collect()
        };
        let (memory, pages) = (table(meminfo), table(vmstat));
        let kib = |name: &str| memory.get(name).copied().unwrap_or(0);
        let paged = |name: &str| pages.get(name).copied().unwrap_or(0).saturating_mul(4);
        let free_virtual = kib("MemFree").saturating_add(kib("SwapFree"));
        let all_virtual = kib("MemTotal").saturating_add(kib("SwapTotal"));
        Node {
            cpus: u64::try_from(cpus.count()).unwrap_or(0),
            worked,
            free: kib("MemFree"),
            free_virtual,
            used_virtual: all_virtual.saturating_sub(free_virtual),
            memory: kib("MemTotal"),
            paged_in: paged("pswpin"),
            paged_out: paged("pswpout"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_kernel_are_understood_and_others_are_nothing() {
        let stat = "cpu  100 200 300 9000 9000 0 0 100 5 5\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n";
        let meminfo = "MemTotal:  1000 kB\nMemFree:  400 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n";
        let node = Node::of(stat, meminfo, "pswpin 3\npswpout 5\n");
        let wanted = Node {
            cpus: 2,
            worked: 7,
            free: 400,
            free_virtual: 420,
            used_virtual: 630,
            memory: 1000,
            paged_in: 12,
            paged_out: 20,
        };
        assert_eq!(node, wanted);
        assert_eq!(Node::of("cpu x", "MemFree", ""), Node::default());
        assert!(Node::read().cpus > 0);
    }
}
