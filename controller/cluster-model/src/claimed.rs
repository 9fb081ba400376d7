//! Devices of ResourceClaims (dynamic resource allocation): the allocation of a request, and the device's
//! address on its node.
//!
//! ```text
//!  pod: status.resourceClaimStatuses ─► ResourceClaim: status.allocation.devices.results ─► driver, pool, device
//!                                                                                             │
//!  status.deviceStatus of the VMI ◄── attributes of the device ◄── ResourceSlices of the node ┘
//! ```
//!
//! **Guarantees.** A ResourceClaim is used only if it is reserved for the launcher pod itself. The newest
//! generation of a pool is used. Only an address or a UUID is written to the status, no other text of a
//! driver. A driver may name any device of its node: the launcher checks in its container that the kubelet
//! has given it that one.

use crate::objects::Key;
use api::machine::host_device::List;
use api::machine::{PciAddress, uuid};
use api::vmi::{DeviceAttribute, DeviceResourceClaimStatus, DeviceStatus, DeviceStatusInfo};
use serde_json::Value;

/// The attribute with the PCI address of a device, as Kubernetes has named it.
pub const PCI: &str = "resource.kubernetes.io/pciBusID";
/// The attribute with the UUID of a mediated device, in the domain of the driver.
pub const MEDIATED: &str = "mdevUUID";
/// Maximum length of a driver's name, and of foreign text in a message.
const NAME: usize = 63;
/// Maximum number of results of a ResourceClaim and of devices in a ResourceSlice, as in the API server.
const RESULTS: usize = 32;
const DEVICES: usize = 128;

/// Plan step: reads the devices of a launcher pod's ResourceClaims, and writes them to the status of its VMI.
#[derive(Clone, Debug, PartialEq)]
pub struct TellDevices {
    pub key: Key,
    /// Resource version of the VMI that the decision was made on.
    pub version: String,
    /// UID of the pod.
    pub pod: String,
    /// Node of the pod.
    pub node: String,
    /// The devices, in the order of the spec.
    pub devices: Vec<ClaimedDevice>,
}

/// A device of a VMI that comes from a ResourceClaim.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedDevice {
    /// The list of the spec that contains it.
    pub list: List,
    pub name: String,
    pub claim: Key,
    /// Name of the request in the ResourceClaim.
    pub request: String,
}

/// The device allocated to a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allocated {
    pub driver: String,
    pub pool: String,
    pub device: String,
}

/// The device of a request in a ResourceClaim that is reserved for the pod of this uid. The error is the end
/// of a sentence about the claim.
pub fn allocated(claim: &Value, pod: &str, request: &str) -> Result<Allocated, String> {
    let status = claim.get("status").unwrap_or(&Value::Null);
    let Some(results) = status.pointer("/allocation/devices/results").and_then(Value::as_array) else {
        return Err("is not allocated".to_owned());
    };
    let mut reserved = list(status, "reservedFor");
    if pod.is_empty() || !reserved.any(|by| by["resource"] == "pods" && by["uid"] == pod) {
        return Err("is not reserved for the launcher pod".to_owned());
    }
    // For a request with alternatives the result is named `REQUEST/ALTERNATIVE`.
    let is_its = |result: &&Value| {
        let said = result["request"].as_str().unwrap_or_default();
        said == request || said.split_once('/').is_some_and(|(main, _)| main == request)
    };
    let mut own = results.iter().take(RESULTS).filter(is_its);
    let (Some(result), None) = (own.next(), own.next()) else {
        let count = results.iter().take(RESULTS).filter(is_its).count();
        return Err(format!(
            "has {count} devices for the request {request}, and an entry of the VMI has one: set count to 1"
        ));
    };
    if result["adminAccess"] == true {
        return Err(format!(
            "has the device of the request {request} by adminAccess, while another pod may use it: a guest needs its device exclusively"
        ));
    }
    if !result["shareID"].is_null() {
        return Err(format!(
            "has a share of the device of the request {request} (shareID), and a guest needs its device exclusively: request a device for which \
             the DRA driver does not allow several allocations"
        ));
    }
    let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
    let found = Allocated { driver: text("driver"), pool: text("pool"), device: text("device") };
    if !is_driver(&found.driver) || found.pool.is_empty() || found.device.is_empty() {
        return Err(format!("names no device of a driver for the request {request}"));
    }
    Ok(found)
}

/// True for a valid name of a driver, which can be put into a selector unescaped.
fn is_driver(name: &str) -> bool {
    let is_letter =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    (1..=NAME).contains(&name.len()) && name.bytes().all(is_letter)
}

/// Search for a device in ResourceSlices, one slice at a time.
#[derive(Debug)]
pub struct Search<'a> {
    wanted: &'a Allocated,
    generation: i64,
    found: Vec<DeviceAttribute>,
    fault: Option<String>,
}

impl<'a> Search<'a> {
    pub fn new(wanted: &'a Allocated) -> Search<'a> {
        Search { wanted, generation: i64::MIN, found: Vec::new(), fault: None }
    }

    /// Reads one slice. A slice of a newer generation of the pool replaces what was found before.
    pub fn read_slice(&mut self, slice: &Value) {
        let Some(spec) = slice.get("spec") else { return };
        if spec["driver"] != self.wanted.driver || spec["pool"]["name"] != self.wanted.pool {
            return;
        }
        let generation = spec["pool"]["generation"].as_i64().unwrap_or(0);
        if generation < self.generation {
            return;
        }
        if generation > self.generation {
            (self.generation, self.found, self.fault) = (generation, Vec::new(), None);
        }
        for device in list(spec, "devices").take(DEVICES) {
            if device["name"] != self.wanted.device {
                continue;
            }
            match attributes(device, &self.wanted.driver) {
                Ok(attributes) => self.found.push(attributes),
                Err(why) => {
                    let slice = quoted(slice["metadata"]["name"].as_str().unwrap_or_default());
                    self.fault = Some(format!("ResourceSlice {slice}: {} {why}", self.description()));
                }
            }
        }
    }

    /// The attributes of the device, or the reason why it was not found.
    pub fn finish(self) -> Result<DeviceAttribute, String> {
        let what = self.description();
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let count = self.found.len();
        let mut found = self.found.into_iter();
        match (found.next(), count) {
            (Some(attributes), 1) => Ok(attributes),
            (Some(_), _) => Err(format!("{what} stands {count} times in the ResourceSlices of the node")),
            (None, _) => {
                Err(format!("{what} is in no ResourceSlice of the node: see the log of that driver"))
            }
        }
    }

    fn description(&self) -> String {
        let Allocated { driver, pool, device } = self.wanted;
        format!("device {} of the pool {} of driver {driver}", quoted(device), quoted(pool))
    }
}

/// Address of a device, from its attributes.
fn attributes(device: &Value, driver: &str) -> Result<DeviceAttribute, String> {
    let said = |name: &str| device["attributes"][name]["string"].as_str();
    // An attribute name without a domain belongs to the driver's own domain.
    let mediated = said(MEDIATED).or_else(|| said(&format!("{driver}/{MEDIATED}")));
    let pci = said(PCI);
    if let Some(text) = pci.filter(|text| PciAddress::parse(text).is_none()) {
        return Err(format!("has the attribute {PCI} {}, which is not a PCI address", quoted(text)));
    }
    if let Some(text) = mediated.filter(|text| uuid(text).is_none()) {
        return Err(format!("has the attribute {MEDIATED} {}, which is not a UUID", quoted(text)));
    }
    if pci.is_none() && mediated.is_none() {
        return Err(format!(
            "has neither the attribute {PCI} nor {MEDIATED}, by which the launcher finds it: its driver is not for VMIs"
        ));
    }
    Ok(DeviceAttribute {
        pci_address: pci.map(str::to_owned),
        mdev_uuid: mediated.map(str::to_owned),
        ..DeviceAttribute::default()
    })
}

/// Device status of the VMI for these devices.
pub fn status(
    devices: impl IntoIterator<Item = (ClaimedDevice, Allocated, DeviceAttribute)>,
) -> DeviceStatus {
    let mut all = DeviceStatus::default();
    for (wanted, allocated, attributes) in devices {
        let given = DeviceResourceClaimStatus {
            name: Some(allocated.device),
            resource_claim_name: Some(wanted.claim.name),
            attributes: Some(attributes),
            ..DeviceResourceClaimStatus::default()
        };
        let one = DeviceStatusInfo {
            name: wanted.name,
            device_resource_claim_status: Some(given),
            ..DeviceStatusInfo::default()
        };
        match wanted.list {
            List::Gpus => all.gpu_statuses.push(one),
            List::HostDevices => all.host_device_statuses.push(one),
        }
    }
    all
}

fn list<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    object.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// Foreign text for a message, shortened and quoted.
fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(NAME).collect::<String>())
}

#[cfg(test)]
mod tests {
    // A `json!` is passed by value, since that reads better than a reference.

    use super::*;
    use api::wire::Wire as _;
    use serde_json::json;

    const UUID: &str = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001";

    fn claim(results: &Value) -> Value {
        json!({"status": {
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "pod-1"}],
            "allocation": {"devices": {"results": results}},
        }})
    }

    fn result(request: &str, device: &str) -> Value {
        json!({"request": request, "driver": "gpu.example.com", "pool": "node1", "device": device})
    }

    fn gpu0() -> Allocated {
        Allocated { driver: "gpu.example.com".into(), pool: "node1".into(), device: "gpu-0".into() }
    }

    fn slice(generation: i64, devices: &Value) -> Value {
        json!({"metadata": {"name": "node1-gpu"}, "spec": {
            "driver": "gpu.example.com", "nodeName": "node1",
            "pool": {"name": "node1", "generation": generation, "resourceSliceCount": 1}, "devices": devices,
        }})
    }

    fn device(name: &str, attributes: &Value) -> Value {
        json!({"name": name, "attributes": attributes})
    }

    fn pci(address: &str) -> Value {
        json!({PCI: {"string": address}})
    }

    fn searched(slices: &[Value]) -> Result<DeviceAttribute, String> {
        let wanted = gpu0();
        let mut search = Search::new(&wanted);
        slices.iter().for_each(|slice| search.read_slice(slice));
        search.finish()
    }

    #[test]
    fn a_request_has_its_one_device() {
        let results = json!([result("nic", "nic-0"), result("gpu", "gpu-0")]);
        assert_eq!(allocated(&claim(&results), "pod-1", "gpu"), Ok(gpu0()));
        let chosen = json!([result("gpu/large", "gpu-0"), result("gpus/small", "gpu-1")]);
        assert_eq!(allocated(&claim(&chosen), "pod-1", "gpu"), Ok(gpu0()));
    }

    #[test]
    fn a_claim_that_gives_no_device_says_why() {
        let one = || json!([result("gpu", "gpu-0")]);
        let mut odd = result("gpu", "gpu-0");
        odd["driver"] = json!("a,spec.nodeName=other");
        let mut watched = result("gpu", "gpu-0");
        watched["adminAccess"] = json!(true);
        let mut shared = result("gpu", "gpu-0");
        shared["shareID"] = json!("a671734a-e8e5-11e4-8fde-42010af09327");
        for (claim, pod, why) in [
            (json!({}), "pod-1", "is not allocated"),
            (json!({"status": {"allocation": null}}), "pod-1", "is not allocated"),
            (claim(&json!("gpu")), "pod-1", "is not allocated"),
            (claim(&one()), "pod-2", "is not reserved for the launcher pod"),
            (claim(&one()), "", "is not reserved for the launcher pod"),
            (claim(&json!([])), "pod-1", "has 0 devices for the request gpu"),
            (
                claim(&json!([result("gpu", "a"), result("gpu", "b")])),
                "pod-1",
                "has 2 devices for the request gpu",
            ),
            (claim(&json!([odd])), "pod-1", "names no device of a driver"),
            (claim(&json!([watched])), "pod-1", "by adminAccess"),
            (claim(&json!([shared])), "pod-1", "has a share of the device"),
            (claim(&json!([{"request": "gpu"}])), "pod-1", "names no device of a driver"),
        ] {
            let said = allocated(&claim, pod, "gpu").unwrap_err();
            assert!(said.contains(why), "{claim}: {said}");
        }
    }

    #[test]
    fn a_device_is_found_by_its_attributes_in_the_newest_generation() {
        let old = slice(1, &json!([device("gpu-0", &pci("0000:01:00.0"))]));
        let new =
            slice(2, &json!([device("gpu-1", &pci("0000:82:00.0")), device("gpu-0", &pci("0000:81:00.0"))]));
        let mut other = slice(9, &json!([device("gpu-0", &pci("0000:99:00.0"))]));
        other["spec"]["pool"]["name"] = json!("node2");
        for order in [[&old, &new, &other], [&other, &new, &old]] {
            let found = searched(&order.map(Clone::clone)).unwrap();
            assert_eq!(found.pci_address.as_deref(), Some("0000:81:00.0"));
        }
        for name in ["mdevUUID", "gpu.example.com/mdevUUID"] {
            let found =
                searched(&[slice(1, &json!([device("gpu-0", &json!({name: {"string": UUID}}))]))]).unwrap();
            assert_eq!((found.pci_address, found.mdev_uuid.as_deref()), (None, Some(UUID)));
        }
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        for (attributes, why) in [
            (pci("../../etc/passwd"), "which is not a PCI address"),
            (pci("0000:81:00.0'/><disk"), "which is not a PCI address"),
            (pci(""), "which is not a PCI address"),
            (json!({MEDIATED: {"string": "../x"}}), "which is not a UUID"),
            (json!({PCI: {"int": 5}}), "has neither the attribute"),
            (json!({}), "has neither the attribute"),
            (json!(5), "has neither the attribute"),
        ] {
            let said = searched(&[slice(1, &json!([device("gpu-0", &attributes)]))]).unwrap_err();
            assert!(said.starts_with("ResourceSlice \"node1-gpu\": device \"gpu-0\" of the pool"), "{said}");
            assert!(said.contains(why), "{said}");
        }
        let long = searched(&[slice(1, &json!([device("gpu-0", &pci(&"x".repeat(5000)))]))]).unwrap_err();
        assert!(long.len() < 400, "{long}");
    }

    #[test]
    fn a_device_that_is_nowhere_or_twice_is_none() {
        assert!(searched(&[]).unwrap_err().contains("is in no ResourceSlice of the node"));
        let twice = json!([device("gpu-0", &pci("0000:81:00.0")), device("gpu-0", &pci("0000:82:00.0"))]);
        assert!(searched(&[slice(1, &twice)]).unwrap_err().contains("stands 2 times"));
        for odd in [json!(null), json!({"spec": 5}), json!({"spec": {"pool": 1, "devices": {}}})] {
            assert!(searched(&[odd]).is_err());
        }
    }

    #[test]
    fn a_status_has_each_device_in_its_list() {
        let claim = Key::new(crate::objects::Kind::ResourceClaim, "n", "web-gpu-x1");
        let wanted = |list, name: &str| ClaimedDevice {
            list,
            name: name.into(),
            claim: claim.clone(),
            request: "r".into(),
        };
        let at =
            |text: &str| DeviceAttribute { pci_address: Some(text.into()), ..DeviceAttribute::default() };
        let found = status([
            (wanted(List::HostDevices, "card"), gpu0(), at("0000:82:00.0")),
            (wanted(List::Gpus, "gpu"), gpu0(), at("0000:81:00.0")),
        ]);
        let one = |name: &str, address: &str| {
            json!([{"name": name, "deviceResourceClaimStatus": {
                "name": "gpu-0", "resourceClaimName": "web-gpu-x1", "attributes": {"pciAddress": address},
            }}])
        };
        let wanted = json!({
            "gpuStatuses": one("gpu", "0000:81:00.0"), "hostDeviceStatuses": one("card", "0000:82:00.0"),
        });
        assert_eq!(found.write(), wanted);
    }
}
