//! What this node gives to VMIs with CPUs of their own: whether its kubelet gives whole CPUs, and its kernel real time.
#![expect(
    clippy::disallowed_methods,
    reason = "small files of the kernel's and the kubelet's, read on a thread apart"
)]

use serde_json::Value;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// What the kubelet's CPU manager keeps of itself, in the kubelet's folder.
const STATE: &str = "cpu_manager_state";
/// How much of each period real-time threads may have; -1 where all.
const REALTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
/// More than either file has that is asked for; the kubelet's holds an entry for each container with CPUs of its own.
const LARGEST: u64 = 4 << 20;

/// What a node gives to VMIs with CPUs of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// The kubelet gives whole CPUs to the pods that ask for them (policy `static`).
    pub(crate) manager: bool,
    /// Real-time threads may run for as long as they want.
    pub(crate) realtime: bool,
}

impl Cpus {
    /// What holds now. `kubelet`: its folder. What cannot be read is not there.
    pub(crate) fn of(kubelet: &Path) -> Cpus {
        let state = read(&kubelet.join(STATE));
        let limit = read(Path::new(REALTIME));
        Cpus {
            manager: state.is_some_and(|state| is_static(&state)),
            realtime: limit.is_some_and(|limit| limit.trim() == "-1"),
        }
    }
}

fn is_static(state: &str) -> bool {
    let state: Option<Value> = serde_json::from_str(state).ok();
    state.is_some_and(|state| state["policyName"] == "static")
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_string(&mut text));
    read.ok().map(|_| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_says_by_its_state_whether_it_gives_whole_cpus() {
        let kubelet = tempfile::tempdir().unwrap();
        let manager = |state: &str| {
            std::fs::write(kubelet.path().join(STATE), state).unwrap();
            Cpus::of(kubelet.path()).manager
        };
        assert!(!Cpus::of(kubelet.path()).manager, "there is no file");
        assert!(manager(r#"{"policyName":"static","defaultCpuSet":"0-1","checksum":1}"#));
        assert!(!manager(r#"{"policyName":"none","defaultCpuSet":"","checksum":1}"#));
        assert!(!manager("static"));
    }
}
