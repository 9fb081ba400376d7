//! Support of this node for VMIs with dedicated CPUs: the kubelet's CPU manager, its assignments, and the
//! kernel's real-time limit.
//!
//! Only the kubelet knows which CPUs belong to a container exclusively. The kernel's list of a process is not
//! enough: a process can narrow it (`sched_setaffinity`) to any of the shared CPUs.
#![expect(
    clippy::disallowed_methods,
    reason = "small files of the kernel's and the kubelet's, read on a thread apart"
)]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// State file of the kubelet's CPU manager, in the kubelet's folder.
const STATE: &str = "cpu_manager_state";
/// Real-time limit of each period; -1 means unlimited.
const REALTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
/// Largest file that is read; the kubelet's file has an entry for each container with exclusive CPUs.
const LARGEST: u64 = 4 << 20;

/// Support of a node for VMIs with dedicated CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// The kubelet assigns exclusive CPUs to pods that ask for them (policy `static`).
    pub(crate) manager: bool,
    /// Real-time threads may run without limit.
    pub(crate) realtime: bool,
}

impl Cpus {
    /// Current support. `kubelet`: its folder. A file that cannot be read counts as no support.
    pub(crate) fn read(kubelet: &Path) -> Cpus {
        let state = read(&kubelet.join(STATE));
        let limit = read(Path::new(REALTIME));
        Cpus {
            manager: state.is_some_and(|state| is_static(&state)),
            realtime: limit.is_some_and(|limit| limit.trim() == "-1"),
        }
    }
}

/// CPUs that the kubelet has assigned to one container exclusively; `None` without an assignment. `kubelet`:
/// its folder.
pub(crate) fn exclusive_cpus(kubelet: &Path, pod: &str, container: &str) -> Option<BTreeSet<u32>> {
    let state = read(&kubelet.join(STATE)).filter(|state| is_static(state))?;
    let state: Value = serde_json::from_str(&state).ok()?;
    let list = state.get("entries")?.get(pod)?.get(container)?.as_str()?;
    api::cpus::read(list).filter(|cpus| !cpus.is_empty())
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
            Cpus::read(kubelet.path()).manager
        };
        assert!(!Cpus::read(kubelet.path()).manager, "there is no file");
        assert!(manager(r#"{"policyName":"static","defaultCpuSet":"0-1","checksum":1}"#));
        assert!(!manager(r#"{"policyName":"none","defaultCpuSet":"","checksum":1}"#));
        assert!(!manager("static"));
    }

    #[test]
    fn the_kubelet_says_which_cpus_are_a_containers_own() {
        let kubelet = tempfile::tempdir().unwrap();
        let says = |policy: &str, pod: &str, container: &str| {
            let state = serde_json::json!({
                "policyName": policy, "defaultCpuSet": "0,4-7", "checksum": 1,
                "entries": {"uid": {"compute": "1-3", "empty": "", "odd": "all"}},
            });
            std::fs::write(kubelet.path().join(STATE), state.to_string()).unwrap();
            exclusive_cpus(kubelet.path(), pod, container)
        };
        assert_eq!(exclusive_cpus(kubelet.path(), "uid", "compute"), None, "there is no file");
        assert_eq!(says("static", "uid", "compute"), Some(BTreeSet::from([1, 2, 3])));
        assert_eq!(says("none", "uid", "compute"), None, "what an older kubelet left there");
        for (pod, container) in [("other", "compute"), ("uid", "log"), ("uid", "empty"), ("uid", "odd")] {
            assert_eq!(says("static", pod, container), None, "{pod} {container}");
        }
    }
}
