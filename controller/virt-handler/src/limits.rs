//! Resource limits of a launcher's process that some VMIs need raised. Only root may raise them, so
//! virt-handler does, before it hands the VMI to the launcher. QEMU inherits them.
//!
//! | VMI | limit | to |
//! |---|---|---|
//! | `memory.reservedOverhead.memLock: Required` | memory that it may lock | the guest's, and [`BESIDE`] |
//! | `gpus`, `hostDevices`, `interfaces[].sriov` | memory that it may lock | the guest's, and twice [`BESIDE`]: the device reaches all of it |
//! | `passtBinding` without `ports` | open files | [`SOCKETS`]: passt listens on every port |
//! | `cpu.realtime` | the priority of real-time threads | [`PRIORITY`], for a launcher with CPUs of its own alone |
//!
//! A thread with real-time priority keeps all others from its CPU. So no thread may have it on shared CPUs,
//! whatever the VMI or the process claims: a process can narrow its own list of CPUs, and any container of
//! the pod could listen in the launcher's place. So two facts are required. The kubelet reports which CPUs
//! belong to the launcher exclusively. The kernel reports that the process has exactly these, and is in the
//! container that they were assigned to: no process leaves the CPUs (cpuset) of its container.

use crate::cpu;
use crate::error::{Error, Result};
use crate::pod::layout::COMPUTE;
use crate::pod::{Pod, Process};
use api::machine::{Binding, Interface, Machine};
use rustix::process::Resource;
use std::collections::BTreeSet;
use std::path::Path;

/// Memory that is locked in addition to the guest's.
const BESIDE: u64 = 1 << 30;
/// Open files of a passt that listens on all TCP and UDP ports: it does not start with fewer. Some runtimes
/// give containers few.
const SOCKETS: u64 = 1 << 18;
/// Priority of vCPU threads: above any thread without real-time priority, below all others with it.
const PRIORITY: u64 = 1;

/// Raises the limits that a VMI needs. `kubelet`: its folder.
pub(crate) fn raise(machine: &Machine, process: &Process, pod: &Pod, kubelet: &Path) -> Result<()> {
    if let Some(bytes) = locked(machine) {
        process.raise(Resource::Memlock, bytes)?;
    }
    if listens_on_all_ports(machine) {
        process.raise(Resource::Nofile, SOCKETS)?;
    }
    if !machine.cpu.realtime.is_empty() {
        check_container(process, pod)?;
        check_exclusive_cpus(process, &pod.metadata.uid, kubelet, machine.cpu.dedicated_count())?;
        process.raise(Resource::Rtprio, PRIORITY)?;
    }
    Ok(())
}

fn listens_on_all_ports(machine: &Machine) -> bool {
    let is_open = |interface: &Interface| interface.binding == Binding::Passt && interface.ports.is_empty();
    machine.interfaces.iter().any(is_open)
}

/// Memory that a VMI locks; `None` if it locks none. With a device of the node, libvirt asks for the guest's
/// and 1 GiB in its own rounding, and accepts more.
fn locked(machine: &Machine) -> Option<u64> {
    let beside = match (machine.has_device_of_node(), machine.memory.locked) {
        (true, _) => 2 * BESIDE,
        (false, true) => BESIDE,
        (false, false) => return None,
    };
    Some(machine.memory.guest.saturating_add(beside))
}

/// Refuses a process of another container of the pod, which has the shared CPUs.
fn check_container(process: &Process, pod: &Pod) -> Result<()> {
    let id = pod.container_id(COMPUTE).ok_or_else(|| {
        Error::failed(format!(
            "domain.cpu.realtime: the status of the pod {} does not say yet which container is '{COMPUTE}'; it is tried again",
            pod.metadata.name
        ))
    })?;
    process.check_container(&pod.metadata.uid, id)
}

/// Refuses a process with CPUs other than those that the kubelet has assigned to the launcher exclusively.
fn check_exclusive_cpus(process: &Process, pod: &str, kubelet: &Path, asked: u32) -> Result<()> {
    let (has, given) = (process.cpus()?, cpu::exclusive_cpus(kubelet, pod, COMPUTE));
    if are_own(&has, given.as_ref(), asked) {
        return Ok(());
    }
    let given = given.map_or_else(|| "none".to_owned(), api::cpus::write);
    Err(Error::failed(format!(
        "domain.cpu.realtime: the launcher runs on the CPUs {}, {asked} of its own were asked for, and the kubelet of this node \
         has given it these: {given} (its CPU manager must have the policy static, and the pod the class Guaranteed)",
        api::cpus::write(has),
    )))
}

/// True if the launcher has exactly the CPUs that the kubelet assigned to it, and as many as it asked for.
fn are_own(has: &BTreeSet<u32>, given: Option<&BTreeSet<u32>>, asked: u32) -> bool {
    given == Some(has) && asked > 0 && u32::try_from(has.len()).is_ok_and(|has| has == asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const UID: &str = "5d307ca9-b3ef-428c-8861-06e72d69f223";

    #[test]
    fn a_vmi_with_a_device_of_the_node_locks_its_memory() {
        let locked = |devices: &serde_json::Value| {
            let vmi = json!({
                "metadata": {"name": "a", "namespace": "n"},
                "spec": {"domain": {
                    "memory": {"guest": "128Mi"}, "firmware": {"uuid": UID},
                    "devices": devices,
                }},
            });
            locked(&Machine::check_again(&api::wire::read(vmi).unwrap()).unwrap())
        };
        assert_eq!(locked(&json!({"autoattachPodInterface": false})), None);
        let gpu = json!({"autoattachPodInterface": false, "gpus": [{"name": "g", "deviceName": "v.io/gpu"}]});
        assert_eq!(locked(&gpu), Some((128 << 20) + (2 << 30)));
    }

    #[test]
    fn a_passt_of_all_ports_opens_many_files() {
        let listens = |interface: serde_json::Value| {
            let vmi = json!({
                "metadata": {"name": "a", "namespace": "n"},
                "spec": {
                    "domain": {
                        "memory": {"guest": "128Mi"}, "firmware": {"uuid": UID}, "devices": {"interfaces": [interface]},
                    },
                    "networks": [{"name": "default", "pod": {}}],
                },
            });
            listens_on_all_ports(&Machine::check_again(&api::wire::read(vmi).unwrap()).unwrap())
        };
        assert!(listens(json!({"name": "default", "passtBinding": {}})));
        assert!(!listens(json!({"name": "default", "passtBinding": {}, "ports": [{"port": 22}]})));
        assert!(!listens(json!({"name": "default", "masquerade": {}})));
    }

    #[test]
    fn shared_cpus_are_not_a_launchers_own() {
        let set = |list: &str| api::cpus::read(list).unwrap();
        let own =
            |has: &str, given: Option<&str>, asked: u32| are_own(&set(has), given.map(set).as_ref(), asked);
        assert!(own("1-3", Some("1-3"), 3));
        assert!(!own("1-3", None, 3), "it narrowed its own list to as many as it asked for");
        assert!(!own("4-6", Some("1-3"), 3), "as many, of others");
        assert!(!own("1-2", Some("1-3"), 3) && !own("1-2", Some("1-3"), 2));
        assert!(!own("0-7", Some("1-3"), 3), "all of the node's, and others have them too");
        assert!(!own("1-3", Some("1-3"), 2) && !own("", Some(""), 0));
    }

    #[test]
    fn the_kubelet_says_which_cpus_are_a_launchers_own() {
        let kubelet = tempfile::tempdir().unwrap();
        let process = Process::of(std::process::id()).unwrap();
        let has = process.cpus().unwrap();
        let asked = u32::try_from(has.len()).unwrap();
        let check = || check_exclusive_cpus(&process, UID, kubelet.path(), asked);
        let said = check().unwrap_err().to_string();
        assert!(said.contains("has given it these: none"), "{said}");
        let gives = |pod: &str| {
            let cpus = api::cpus::write(has.clone());
            let state = json!({"policyName": "static", "entries": {pod: {"compute": cpus}}});
            std::fs::write(kubelet.path().join("cpu_manager_state"), state.to_string()).unwrap();
        };
        gives("of another pod");
        assert!(check().is_err());
        gives(UID);
        check().unwrap();
    }

    #[test]
    fn a_process_of_another_container_is_not_the_launcher() {
        let process = Process::of(std::process::id()).unwrap();
        let pod = |id: &str| {
            let statuses = json!([{"name": "compute", "containerID": id}]);
            let pod =
                json!({"metadata": {"name": "p", "uid": UID}, "status": {"containerStatuses": statuses}});
            check_container(&process, &Pod::read(&pod).unwrap()).unwrap_err().to_string()
        };
        assert!(pod("").contains("does not say yet which container"));
        assert!(pod("containerd://01ab").contains("does not belong to the container 01ab"));
    }
}
