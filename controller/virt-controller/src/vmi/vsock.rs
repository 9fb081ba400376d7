//! The context ID (CID) of a VMI's VSOCK device. It is assigned when the VMI is handed to virt-handler, and is unique among the
//! VMIs of the cluster that have not ended: the kernel of a node refuses a CID twice, and any two may meet on a node.
//!
//! **Guarantees.** A CID follows from the VMI's uid, unless another VMI has it. So even a cache that misses
//! another VMI's CID does not lead to duplicates. A CID that another client wrote before is kept only if no
//! other VMI has it.

use super::VmiReconcile;
use super::outcome::{Change, Outcome};
use api::vmi::{Phase, Status, VirtualMachineInstance};
use cluster_model::objects::names::fnv;
use std::collections::BTreeSet;

/// First CID for VMIs. Lower ones are those of the hypervisor, of loopback and of the node; the last number
/// stands for any CID.
const FIRST: u32 = 3;
const LAST: u32 = u32::MAX - 1;

/// The CID, at the hand-over, and again if it is missing before virt-handler has begun.
pub(super) fn cid(input: &VmiReconcile<'_>) -> Outcome {
    let VmiReconcile { world, vmi, .. } = *input;
    let wants = vmi.spec.domain.devices.autoattach_vsock == Some(true);
    let said = cid_of(vmi);
    match input.phase {
        Phase::Scheduling => {}
        Phase::Scheduled if wants && said.is_none() => {}
        _ => return Outcome::default(),
    }
    let cid = wants.then(|| {
        let taken: BTreeSet<u32> =
            world.vmis.all().filter(|other| !is_same(other, vmi)).filter_map(held).collect();
        let said = said.filter(|cid| (FIRST..=LAST).contains(cid) && !taken.contains(cid));
        said.unwrap_or_else(|| free(vmi.metadata.uid.as_deref().unwrap_or_default(), &taken))
    });
    Outcome::default().change(Change::VsockCid(cid))
}

fn is_same(one: &VirtualMachineInstance, other: &VirtualMachineInstance) -> bool {
    (&one.metadata.namespace, &one.metadata.name) == (&other.metadata.namespace, &other.metadata.name)
}

fn cid_of(vmi: &VirtualMachineInstance) -> Option<u32> {
    vmi.status.as_ref().and_then(|Status { vsock_cid, .. }| *vsock_cid)
}

/// The CID of a VMI that may have a guest.
fn held(vmi: &VirtualMachineInstance) -> Option<u32> {
    cid_of(vmi).filter(|_| !super::phase(vmi).is_final())
}

/// First free CID, beginning with that of the uid.
fn free(uid: &str, taken: &BTreeSet<u32>) -> u32 {
    let cids = u64::from(LAST - FIRST) + 1;
    let mut cid = FIRST + u32::try_from(fnv(uid) % cids).unwrap_or_default();
    while taken.contains(&cid) {
        cid = if cid == LAST { FIRST } else { cid + 1 };
    }
    cid
}

#[cfg(test)]
mod tests {
    use super::super::tests::phase;
    use super::*;
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::{Key, Kind};
    use serde_json::{Value, json};

    fn open(sim: &mut Sim) {
        let open = json!({"configuration": {"developerConfiguration": {"featureGates": ["VSOCK"]}}});
        let object = json!({"metadata": {"namespace": "kubevirt", "name": "kubevirt"}, "spec": open});
        sim.world.put(Kind::KubeVirt, object, sim.now);
    }

    fn put(sim: &mut Sim, name: &str, cid: &Value) -> Key {
        let mut object = vmi(name);
        object["spec"]["domain"]["devices"]["autoattachVSOCK"] = json!(true);
        object["status"] = json!({"VSOCKCID": cid});
        sim.put(Kind::VirtualMachineInstance, object)
    }

    fn hand_over(sim: &mut Sim, key: &Key) -> u64 {
        sim.settle();
        let pod = sim.pod_of(key).unwrap();
        sim.pod_runs(&pod, "node1");
        sim.settle();
        assert_eq!(phase(sim, key), "Scheduled");
        sim.get(key)["status"]["VSOCKCID"].as_u64().unwrap()
    }

    #[test]
    fn a_gate_that_is_shut_makes_no_pod() {
        let mut sim = Sim::new();
        let key = put(&mut sim, "web", &Value::Null);
        sim.settle();
        let (_, _, said) = sim.condition(&key, "Synchronized").unwrap();
        assert!(said.contains("VSOCK feature gate is not enabled"), "{said}");
        assert_eq!(sim.pod_of(&key), None);
    }

    #[test]
    fn a_cid_is_assigned_at_the_hand_over_and_stays() {
        let mut sim = Sim::new();
        open(&mut sim);
        let key = put(&mut sim, "web", &Value::Null);
        sim.settle();
        assert_eq!(sim.get(&key)["status"]["VSOCKCID"], Value::Null);
        let cid = hand_over(&mut sim, &key);
        let uid = sim.uid(&key);
        assert_eq!(cid, u64::from(free(&uid, &BTreeSet::new())));
        sim.agent_says(&key, "Running");
        sim.settle();
        assert_eq!(sim.get(&key)["status"]["VSOCKCID"], cid);
    }

    #[test]
    fn a_cid_that_another_vmi_has_is_not_given_even_if_it_was_forged() {
        let mut sim = Sim::new();
        open(&mut sim);
        let first = put(&mut sim, "web", &Value::Null);
        let cid = hand_over(&mut sim, &first);
        let forged = put(&mut sim, "thief", &json!(cid));
        assert_ne!(hand_over(&mut sim, &forged), cid);
        assert_eq!(sim.get(&first)["status"]["VSOCKCID"], cid);
        let of_the_node = put(&mut sim, "host", &json!(2));
        assert!(hand_over(&mut sim, &of_the_node) > 2);
    }

    #[test]
    fn a_vmi_without_vsock_has_no_cid() {
        let mut sim = Sim::new();
        let mut object = vmi("web");
        object["status"] = json!({"VSOCKCID": 5});
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        let pod = sim.pod_of(&key).unwrap();
        sim.pod_runs(&pod, "node1");
        sim.settle();
        assert_eq!(sim.get(&key)["status"]["VSOCKCID"], Value::Null);
    }

    #[test]
    fn the_next_free_cid_is_taken_and_none_is_out_of_range() {
        let home = free("u1", &BTreeSet::new());
        assert_eq!(free("u1", &BTreeSet::from([home, home + 1])), home + 2);
        for n in 0..1000 {
            assert!((FIRST..=LAST).contains(&free(&format!("{n}"), &BTreeSet::new())));
        }
    }
}
