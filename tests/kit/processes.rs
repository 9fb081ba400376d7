//! Processes of virtual machines, described for a test that waited for a guest in vain.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Programs that carry a guest.
const PROGRAMS: [&str; 4] = ["qemu-system-", "virt-launcher", "coracle", "swtpm"];

/// Time between two looks at the processor time of a thread.
const BETWEEN: Duration = Duration::from_secs(1);

/// Bytes of the end of each log.
const TAIL: usize = 2000;

/// Describes all processes of virtual machines on this computer: each thread with its state, the kernel function
/// that it waits in and its processor time in one second; the command line; the end of each log that is open.
pub fn of_vms() -> String {
    let found: Vec<(u32, Vec<Thread>)> =
        numbers("/proc").filter(|pid| carries_a_guest(*pid)).map(|pid| (pid, threads(pid))).collect();
    std::thread::sleep(BETWEEN);
    let mut text = String::new();
    for (pid, before) in &found {
        describe(&mut text, *pid, before);
    }
    text
}

struct Thread {
    id: u32,
    ticks: u64,
}

fn describe(text: &mut String, pid: u32, before: &[Thread]) {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let _ = writeln!(text, "process {pid}: {command}");
    for Thread { id, ticks } in before {
        let folder = format!("/proc/{pid}/task/{id}");
        let read = |file: &str| fs::read_to_string(format!("{folder}/{file}")).unwrap_or_default();
        let (name, waits, stat) = (read("comm"), read("wchan"), read("stat"));
        let state = fields(&stat).next().unwrap_or("gone");
        let used = processor_time(&stat).saturating_sub(*ticks);
        let _ = writeln!(text, "  thread {id} {}: {state}, in {waits}, {used} ticks", name.trim_end());
    }
    for log in logs(pid) {
        let bytes = fs::read(&log).unwrap_or_default();
        let tail = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(TAIL)..]).into_owned();
        let _ = writeln!(text, "  {} ({} bytes): {tail}", log.display(), bytes.len());
    }
}

fn carries_a_guest(pid: u32) -> bool {
    let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let program = command.split(|byte| *byte == 0).next().unwrap_or_default();
    let program = String::from_utf8_lossy(program);
    let name = program.rsplit('/').next().unwrap_or_default();
    PROGRAMS.iter().any(|known| name.starts_with(known))
}

fn threads(pid: u32) -> Vec<Thread> {
    let ticks =
        |id| processor_time(&fs::read_to_string(format!("/proc/{pid}/task/{id}/stat")).unwrap_or_default());
    numbers(&format!("/proc/{pid}/task")).map(|id| Thread { id, ticks: ticks(id) }).collect()
}

/// Logs that a process holds open.
fn logs(pid: u32) -> Vec<PathBuf> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut logs: Vec<PathBuf> = files
        .filter_map(|file| fs::read_link(file.path()).ok())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log") && Path::is_file(path))
        .collect();
    logs.sort();
    logs.dedup();
    logs
}

fn numbers(folder: &str) -> impl Iterator<Item = u32> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Fields of `stat` behind the name: the state is the first, user and system time are the 12th and 13th.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ')
}

fn processor_time(stat: &str) -> u64 {
    fields(stat).skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_described_with_its_threads() {
        let pid = std::process::id();
        let mut text = String::new();
        let log = std::env::temp_dir().join(format!("processes-{pid}.log"));
        fs::write(&log, "the last line").unwrap();
        let open = fs::File::open(&log).unwrap();
        describe(&mut text, pid, &threads(pid));
        drop(open);
        fs::remove_file(&log).unwrap();
        assert!(text.starts_with(&format!("process {pid}: ")) && text.contains("  thread "), "{text}");
        assert!(text.contains("processes-") && text.ends_with("(13 bytes): the last line\n"), "{text}");
        assert_eq!(processor_time("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 30 12 5"), 42);
    }
}
