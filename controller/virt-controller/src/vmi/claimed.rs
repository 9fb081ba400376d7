//! Devices of ResourceClaims: where they are is read once the pod runs, and said in `status.deviceStatus`; the VMI is handed over
//! with it.
//!
//! ```text
//!  pod runs ─► the name of each ResourceClaim ─► Step::RecordDevices ─► status.deviceStatus ─► hand-over
//!                  │ pod has none                     │ not allocated, no slice, no address
//!                  └────────► the reason ◄────────────┘ and again, later
//! ```
//!
//! A pod that runs has its devices: the scheduler has allocated them, and the kubelet has prepared them. (Before, the scheduler's
//! own words are repeated.) So a device that cannot be told is one of a driver that is not for VMIs, or of a cluster that does
//! not serve ResourceClaims.

use super::outcome::Outcome;
use super::{VmiReconcile, key_of, pod_state};
use api::machine::host_device::List;
use api::vmi::VirtualMachineInstance;
use cluster_model::claimed::{ClaimedDevice, TellDevices};
use cluster_model::objects::{Attempt, Key, Kind, Pod, key};
use cluster_model::plan::Step;

/// The reason of the condition, and of the event.
const REASON: &str = "DeviceNotAllocated";

/// Reads where each device of a ResourceClaim is; `None` where the status of the VMI has all of them.
pub(super) fn tell_devices(input: &VmiReconcile<'_>, pod: &Pod, node: &str) -> Option<Outcome> {
    let Ok(devices) = claimed_devices(input.vmi, pod) else { return Some(Outcome::default()) };
    if are_told(input.vmi, &devices) {
        return None;
    }
    let failure = input.world.failures.get(&key_of(input.vmi));
    if let Some(failure) = failure.filter(|failure| failure.retry > input.now) {
        return Some(Outcome::default().retry_at(failure.retry));
    }
    let meta = &input.vmi.metadata;
    Some(Outcome::default().after_write(Step::RecordDevices(TellDevices {
        key: key(Kind::VirtualMachineInstance, meta),
        version: meta.resource_version.clone().unwrap_or_default(),
        pod: pod.meta.uid.clone().unwrap_or_default(),
        node: node.to_owned(),
        devices,
    })))
}

/// Reason and message of a pod that runs without a device of a ResourceClaim.
pub(super) fn unallocated(input: &VmiReconcile<'_>, pod: &Pod) -> Option<(String, String)> {
    if !pod_state::is_up(pod) {
        return None;
    }
    let message = match claimed_devices(input.vmi, pod) {
        Ok(devices) if are_told(input.vmi, &devices) => return None,
        Ok(_) => {
            let failure = input.world.failures.get(&key_of(input.vmi))?;
            (failure.about == Attempt::Make(Kind::ResourceClaim)).then(|| failure.message.clone())?
        }
        Err(why) => why,
    };
    Some((REASON.to_owned(), message))
}

/// The devices of ResourceClaims that a VMI has, or why one of them has no ResourceClaim.
fn claimed_devices(vmi: &VirtualMachineInstance, pod: &Pod) -> Result<Vec<ClaimedDevice>, String> {
    let devices = &vmi.spec.domain.devices;
    let gpus = devices.gpus.iter().map(|gpu| (List::Gpus, &gpu.name, &gpu.claim_name, &gpu.request_name));
    let others = devices.host_devices.iter();
    let others = others.map(|one| (List::HostDevices, &one.name, &one.claim_name, &one.request_name));
    let mut all = Vec::new();
    for (list, name, claim, request) in gpus.chain(others) {
        let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (Some(claim), Some(request)) = (said(claim), said(request)) else { continue };
        let entry = vmi.spec.resource_claims.iter().find(|entry| entry.name == claim);
        // Kubernetes says in the status of a pod which ones it has made for it.
        let there = entry.and_then(|entry| said(&entry.resource_claim_name));
        let there = there.or_else(|| pod.resource_claims.get(&claim).cloned());
        let Some(there) = there else {
            let launcher = pod.meta.name.as_deref().unwrap_or_default();
            return Err(format!(
                "spec.domain.devices.{} {name}: the status of pod {launcher} names no ResourceClaim for '{claim}': \
                 check that this cluster serves resource.k8s.io/v1 (Kubernetes 1.34 or newer)",
                list.field()
            ));
        };
        let namespace = vmi.metadata.namespace.clone().unwrap_or_default();
        let claim = Key::new(Kind::ResourceClaim, namespace, there);
        all.push(ClaimedDevice { list, name: name.clone(), claim, request });
    }
    Ok(all)
}

/// True if the status has the address of each device.
fn are_told(vmi: &VirtualMachineInstance, devices: &[ClaimedDevice]) -> bool {
    let told = vmi.status.as_ref().and_then(|status| status.device_status.as_ref());
    devices.iter().all(|wanted| {
        let list = told.map(|told| match wanted.list {
            List::Gpus => &told.gpu_statuses,
            List::HostDevices => &told.host_device_statuses,
        });
        let own = list.and_then(|list| list.iter().find(|one| one.name == wanted.name));
        let given = own.and_then(|own| own.device_resource_claim_status.as_ref());
        given.is_some_and(|given| {
            let attributes = given.attributes.as_ref();
            given.resource_claim_name.as_deref() == Some(wanted.claim.name.as_str())
                && attributes.is_some_and(|found| found.pci_address.is_some() || found.mdev_uuid.is_some())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::door::carry_out;
    use crate::sim::{Sim, vmi};
    use cluster_model::claimed::PCI;
    use cluster_model::objects::Failure;
    use serde_json::{Value, json};

    /// A VMI with a GPU of a template and a card of a ResourceClaim that is there; its pod is there, too.
    fn begin() -> (Sim, Key, Key) {
        let mut sim = Sim::new();
        let gates = json!({"developerConfiguration": {"featureGates": ["HostDevices"]}});
        let meta = json!({"namespace": "kubevirt", "name": "kubevirt"});
        sim.world.put(Kind::KubeVirt, json!({"metadata": meta, "spec": {"configuration": gates}}), sim.now);
        let mut object = vmi("web");
        let devices = &mut object["spec"]["domain"]["devices"];
        devices["gpus"] = json!([{"name": "gpu", "claimName": "made", "requestName": "card"}]);
        devices["hostDevices"] = json!([{"name": "nic", "claimName": "there", "requestName": "card"}]);
        object["spec"]["resourceClaims"] = json!([
            // A name that is empty is none.
            {"name": "made", "resourceClaimTemplateName": "gpu", "resourceClaimName": ""},
            {"name": "there", "resourceClaimName": "shared"},
        ]);
        // What somebody made up before is not believed.
        object["status"] = json!({"deviceStatus": {
            "gpuStatuses": told("gpu", "made-x1", "0000:99:00.0"), "hostDeviceStatuses": told("nic", "shared", "0000:99:00.1"),
        }});
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        let pod = sim.pod_of(&key).unwrap();
        (sim, key, pod)
    }

    fn told(name: &str, claim: &str, address: &str) -> Value {
        json!([{"name": name, "deviceResourceClaimStatus": {
            "name": format!("{name}-0"), "resourceClaimName": claim, "attributes": {"pciAddress": address},
        }}])
    }

    fn made(sim: &mut Sim, pod: &Key) {
        let made = json!([{"name": "made", "resourceClaimName": "made-x1"}]);
        sim.change(pod, json!({"status": {"resourceClaimStatuses": made}}));
    }

    fn allocate(sim: &mut Sim, pod: &Key, claim: &str, device: &str) {
        let uid = sim.get(pod)["metadata"]["uid"].clone();
        let result =
            json!({"request": "card", "driver": "gpu.example.com", "pool": "node1", "device": device});
        sim.put(
            Kind::ResourceClaim,
            json!({"metadata": {"namespace": "n", "name": claim}, "status": {
                "reservedFor": [{"resource": "pods", "name": pod.name, "uid": uid}],
                "allocation": {"devices": {"results": [result]}},
            }}),
        );
    }

    fn slice(sim: &mut Sim, node: &str, addresses: [&str; 2]) {
        let device =
            |name: &str, address: &str| json!({"name": name, "attributes": {PCI: {"string": address}}});
        let devices = json!([device("gpu-0", addresses[0]), device("nic-0", addresses[1])]);
        sim.put(
            Kind::ResourceSlice,
            json!({"metadata": {"name": format!("{node}-gpu")}, "spec": {
                "driver": "gpu.example.com", "nodeName": node, "devices": devices,
                "pool": {"name": "node1", "generation": 1, "resourceSliceCount": 1},
            }}),
        );
    }

    /// The VMI is decided on, as the loop does, and what fails is remembered. Why it failed.
    fn try_once(sim: &mut Sim, key: &Key) -> String {
        let plan = crate::decide(&sim.world, key, sim.now);
        assert!(plan.steps.iter().any(|step| matches!(step, Step::RecordDevices(_))), "{plan:?}");
        let (about, error) = carry_out(sim, plan).failed.expect("it cannot be");
        assert_eq!(about, Some(Attempt::Make(Kind::ResourceClaim)), "it is said of the VMI");
        let message = error.to_string();
        let retry = sim.now + jiff::SignedDuration::from_secs(60);
        let failure =
            Failure { about: Attempt::Make(Kind::ResourceClaim), message: message.clone(), times: 1, retry };
        sim.world.failures.insert(key.clone(), failure);
        sim.settle();
        let (status, reason, said) = sim.condition(key, "Synchronized").unwrap();
        assert_eq!((status.as_str(), reason.as_str(), &said), ("False", "DeviceNotAllocated", &message));
        assert_eq!(sim.get(key)["status"]["phase"], "Scheduling", "it is not handed over");
        sim.world.failures.remove(key);
        message
    }

    #[test]
    fn a_vmi_is_handed_over_with_its_devices() {
        let (mut sim, key, pod) = begin();
        assert!(sim.get(&key)["status"]["deviceStatus"].is_null(), "{}", sim.get(&key)["status"]);
        assert_eq!(sim.condition(&key, "Synchronized"), None, "the pod does not run yet");
        made(&mut sim, &pod);
        allocate(&mut sim, &pod, "made-x1", "gpu-0");
        allocate(&mut sim, &pod, "shared", "nic-0");
        slice(&mut sim, "node1", ["0000:81:00.0", "0000:82:00.1"]);
        // Another node may say of its own devices what it likes.
        slice(&mut sim, "node2", ["0000:66:00.0", "0000:66:00.1"]);
        sim.settle();
        assert_eq!(sim.get(&key)["status"]["phase"], "Scheduling");
        sim.pod_runs(&pod, "node1");
        sim.settle();
        let status = &sim.get(&key)["status"];
        let wanted = json!({
            "gpuStatuses": told("gpu", "made-x1", "0000:81:00.0"), "hostDeviceStatuses": told("nic", "shared", "0000:82:00.1"),
        });
        assert_eq!((&status["deviceStatus"], &status["phase"]), (&wanted, &json!("Scheduled")));
        assert_eq!(sim.condition(&key, "Synchronized"), None);
    }

    #[test]
    fn a_vmi_waits_and_says_what_lacks() {
        let (mut sim, key, pod) = begin();
        sim.pod_runs(&pod, "node1");
        sim.settle();
        let (_, reason, said) = sim.condition(&key, "Synchronized").unwrap();
        assert_eq!(reason, "DeviceNotAllocated");
        assert!(said.contains("gpus gpu: the status of pod") && said.contains("for 'made'"), "{said}");
        made(&mut sim, &pod);
        let said = try_once(&mut sim, &key);
        assert!(
            said.contains("ResourceClaim n/made-x1 is not there, or this cluster does not serve"),
            "{said}"
        );
        let claim = json!({"metadata": {"namespace": "n", "name": "made-x1"}});
        sim.put(Kind::ResourceClaim, claim);
        let said = try_once(&mut sim, &key);
        assert!(said.contains("gpus gpu: ResourceClaim n/made-x1 is not allocated"), "{said}");
        // One that another pod has is not the VMI's.
        let other = sim.put(Kind::Pod, json!({"metadata": {"namespace": "n", "name": "other"}}));
        allocate(&mut sim, &other, "made-x1", "gpu-0");
        let said = try_once(&mut sim, &key);
        assert!(said.contains("is not reserved for the launcher pod"), "{said}");
        allocate(&mut sim, &pod, "made-x1", "gpu-0");
        allocate(&mut sim, &pod, "shared", "nic-0");
        let said = try_once(&mut sim, &key);
        assert!(said.contains("is in no ResourceSlice of the node"), "{said}");
        slice(&mut sim, "node1", ["0000:81:00.0", "../../etc"]);
        let said = try_once(&mut sim, &key);
        assert!(
            said.contains("hostDevices nic: ResourceSlice") && said.contains("is not a PCI address"),
            "{said}"
        );
        assert!(sim.get(&key)["status"]["deviceStatus"].is_null(), "all of it, or nothing");
        slice(&mut sim, "node1", ["0000:81:00.0", "0000:82:00.1"]);
        sim.settle();
        assert_eq!(sim.get(&key)["status"]["phase"], "Scheduled");
    }

    #[test]
    fn nothing_is_tried_again_before_its_time() {
        let (mut sim, key, pod) = begin();
        made(&mut sim, &pod);
        sim.pod_runs(&pod, "node1");
        let retry = sim.now + jiff::SignedDuration::from_secs(60);
        let message = "a sentence".to_owned();
        let failure = Failure { about: Attempt::Make(Kind::ResourceClaim), message, times: 1, retry };
        sim.world.failures.insert(key.clone(), failure);
        let tells = |plan: &cluster_model::plan::Plan| {
            plan.steps.iter().any(|step| matches!(step, Step::RecordDevices(_)))
        };
        let plan = crate::decide(&sim.world, &key, sim.now);
        assert!(!tells(&plan), "{plan:?}");
        assert_eq!(plan.again, Some(retry));
        let plan = crate::decide(&sim.world, &key, retry);
        assert!(tells(&plan), "its time has come: {plan:?}");
    }

    /// A guest that begins without a device, or with that of another ResourceClaim, has the wrong card.
    #[test]
    fn a_device_is_told_where_the_status_has_its_address_of_its_own_claim() {
        let device = |list, name: &str| ClaimedDevice {
            list,
            name: name.to_owned(),
            claim: Key::new(Kind::ResourceClaim, "n", "shared"),
            request: "card".to_owned(),
        };
        let (gpu, nic) = (device(List::Gpus, "gpu"), device(List::HostDevices, "nic"));
        let mediated = |name: &str| {
            let mut told = told(name, "shared", "");
            told[0]["deviceResourceClaimStatus"]["attributes"] = json!({"mDevUUID": "u"});
            told
        };
        let unplaced = |name: &str| {
            let mut told = told(name, "shared", "");
            told[0]["deviceResourceClaimStatus"]["attributes"] = json!({});
            told
        };
        let (a, b) = ("0000:81:00.0", "0000:82:00.1");
        for (gpus, others, expected) in [
            (told("gpu", "shared", a), told("nic", "shared", b), true),
            (mediated("gpu"), told("nic", "shared", b), true),
            (unplaced("gpu"), told("nic", "shared", b), false),
            (told("other", "shared", a), told("nic", "shared", b), false),
            (told("gpu", "another", a), told("nic", "shared", b), false),
            (json!([]), told("nic", "shared", b), false),
            (told("nic", "shared", a), told("gpu", "shared", b), false),
        ] {
            let mut object = vmi("web");
            let status = json!({"gpuStatuses": gpus, "hostDeviceStatuses": others});
            object["status"] = json!({"deviceStatus": status});
            let vmi = api::wire::read(object).unwrap();
            assert_eq!(are_told(&vmi, &[gpu.clone(), nic.clone()]), expected, "{status}");
        }
    }
}
