//! Sets of USB devices that pods were given. The kubelet counts sets by name, and a set is composed of the
//! devices that are present. So a device that a pod may have open is offered only in that pod's set, until it
//! is plugged in again: then no pod has it.
//!
//! Assignments from before this virt-handler are in a file that the kubelet keeps beside its sockets,
//! together with our answers.

use super::super::wire::ContainerResponse;
use super::discover::Unit;
use crate::error::{Error, ErrorKind, Result};
use crate::pod::Folder;
use api::machine::host_device::{MEDIATED, USB, variable};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message as _;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

/// Most sets that are remembered.
const MOST: usize = 4096;
/// File of the kubelet, and the most bytes that are read of it.
const KEPT: &str = "kubelet_internal_checkpoint";
const LONGEST: u64 = 16 << 20;
/// Separator of the ports in the name of a set.
pub(super) const BETWEEN: &str = "_";

/// Sets by resource and name. For each port: bus and device number of the device that the pod was given
/// there. If the kubelet reports several sets for a pod, each port has the numbers of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct UsbAssignments(BTreeMap<(String, String), BTreeMap<String, BTreeSet<String>>>);

impl UsbAssignments {
    /// Reads the kubelet's file in this folder. Entries that cannot be parsed are skipped.
    pub(super) fn of_kubelet(folder: &Path) -> Result<UsbAssignments> {
        let mut given = UsbAssignments::default();
        for entry in entries(folder)?.into_iter().flatten() {
            given.insert_entry(&entry);
        }
        Ok(given)
    }

    fn insert_entry(&mut self, entry: &Value) -> Option<()> {
        let resource = entry["ResourceName"].as_str()?;
        let answer = answer(entry)?;
        let addresses: Vec<&str> = answer.envs.get(&variable(USB, resource))?.split(',').collect();
        let ids = entry["DeviceIDs"].as_object()?.values().filter_map(Value::as_array).flatten();
        let ids: Vec<&str> = ids.filter_map(Value::as_str).collect();
        let all: BTreeSet<String> = addresses.iter().map(|&address| address.to_owned()).collect();
        for id in &ids {
            let ports: Vec<&str> = id.split(BETWEEN).collect();
            // With several sets, the file does not say which device is at which port.
            let is_said = ids.len() == 1 && ports.len() == addresses.len();
            let of = |at: usize| match addresses.get(at).filter(|_| is_said) {
                Some(&address) => BTreeSet::from([address.to_owned()]),
                None => all.clone(),
            };
            let each = ports.iter().enumerate().map(|(at, &port)| (port.to_owned(), of(at)));
            self.put(resource, id, each.collect());
        }
        Some(())
    }

    /// Remembers a unit that a pod was given. Returns false if too many are remembered already.
    pub(super) fn note(&mut self, resource: &str, unit: &Unit) -> bool {
        let each = unit.id.split(BETWEEN).zip(&unit.addresses);
        let each = each.map(|(port, address)| (port.to_owned(), [address.clone()].into())).collect();
        unit.prefix != USB || self.put(resource, &unit.id, each)
    }

    fn put(&mut self, resource: &str, id: &str, addresses: BTreeMap<String, BTreeSet<String>>) -> bool {
        let key = (resource.to_owned(), id.to_owned());
        let has_room = self.0.len() < MOST || self.0.contains_key(&key);
        if has_room {
            self.0.insert(key, addresses);
        }
        has_room
    }

    /// Name of the set in which a pod was given the device at a port, with this bus and device number.
    pub(super) fn find_set(&self, port: &str, address: &str) -> Option<&str> {
        let is_in =
            |set: &BTreeMap<String, BTreeSet<String>>| set.get(port).is_some_and(|all| all.contains(address));
        self.0.iter().find(|(_, set)| is_in(set)).map(|((_, id), _)| id.as_str())
    }

    /// True if this set was given with the device of this bus and device number at this port.
    pub(super) fn contains(&self, resource: &str, id: &str, port: &str, address: &str) -> bool {
        let set = self.0.get(&(resource.to_owned(), id.to_owned()));
        set.and_then(|set| set.get(port)).is_some_and(|all| all.contains(address))
    }

    /// Names of the sets of a resource.
    pub(super) fn sets(&self, resource: &str) -> impl Iterator<Item = &str> {
        self.0.keys().filter(move |(of, _)| of == resource).map(|(_, id)| id.as_str())
    }
}

/// Mediated devices that pods have, from any device plug-in. A device that is missing in this list is removed
/// from its pod, so an entry that cannot be parsed is an error.
pub(super) fn mediated_of_kubelet(folder: &Path) -> Result<BTreeSet<String>> {
    let unknown = |why: &str| Error::failed(format!("{} {why}", folder.join(KEPT).display()));
    let entries = entries(folder)?.ok_or_else(|| unknown("is not there"))?;
    let mut uuids = BTreeSet::new();
    for entry in &entries {
        let answer = answer(entry).ok_or_else(|| unknown("has an entry that is not understood"))?;
        let mediated = answer.envs.iter().filter(|(name, _)| name.starts_with(MEDIATED));
        uuids.extend(mediated.flat_map(|(_, uuids)| uuids.split(',').map(str::to_lowercase)));
    }
    Ok(uuids)
}

/// Devices of pods, from any device plug-in: UID of the pod, resource and device ID. Entries that cannot be
/// parsed are skipped.
pub(crate) fn to_pods(folder: &Path) -> Result<Vec<(String, String, String)>> {
    let mut given = Vec::new();
    for entry in entries(folder)?.into_iter().flatten() {
        let (Some(pod), Some(resource)) = (entry["PodUID"].as_str(), entry["ResourceName"].as_str()) else {
            continue;
        };
        let ids = entry["DeviceIDs"].as_object().into_iter().flat_map(|of_numa| of_numa.values());
        let ids = ids.filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        given.extend(ids.map(|id| (pod.to_owned(), resource.to_owned(), id.to_owned())));
    }
    Ok(given)
}

/// Entries of the kubelet's file about devices of containers; `None` without such a file.
fn entries(folder: &Path) -> Result<Option<Vec<Value>>> {
    let file = match Folder::open(folder)?.read(KEPT) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let (mut bytes, path) = (Vec::new(), folder.join(KEPT));
    let cannot = || format!("cannot read {}", path.display());
    file.take(LONGEST).read_to_end(&mut bytes).map_err(|e| Error::io(cannot(), e))?;
    let mut kept: Value =
        serde_json::from_slice(&bytes).map_err(|e| Error::failed(format!("{}: {e}", cannot())))?;
    match kept.pointer_mut("/Data/PodDeviceEntries").map(Value::take) {
        Some(Value::Array(entries)) => Ok(Some(entries)),
        // The kubelet writes null if no pod has a device.
        Some(Value::Null) => Ok(Some(Vec::new())),
        _ => Err(Error::failed(format!("{}: it has no list Data.PodDeviceEntries", cannot()))),
    }
}

/// Answer of a device plug-in for a container.
fn answer(entry: &Value) -> Option<ContainerResponse> {
    let answer = STANDARD.decode(entry["AllocResp"].as_str()?).ok()?;
    ContainerResponse::decode(answer.as_slice()).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    fn answer(name: &str, value: &str) -> String {
        let envs = [(name.to_owned(), value.to_owned())].into();
        STANDARD.encode(ContainerResponse { envs, ..ContainerResponse::default() }.encode_to_vec())
    }

    /// The kubelet's file if no pod has a device.
    pub(in super::super) const NOBODY: &str = r#"{"Data": {"PodDeviceEntries": null}}"#;

    /// The kubelet's file if a pod has this mediated device.
    pub(in super::super) fn with_mediated(uuid: &str) -> String {
        json!({"Data": {"PodDeviceEntries": [{"AllocResp": answer("MDEV_PCI_RESOURCE_V_IO_A", uuid)}]}})
            .to_string()
    }

    #[test]
    fn what_pods_have_is_read_of_the_kubelet() {
        let folder = tempfile::tempdir().unwrap();
        let read = || UsbAssignments::of_kubelet(folder.path());
        assert_eq!(read().unwrap(), UsbAssignments::default(), "a kubelet that has given nothing");
        let answer = answer("USB_RESOURCE_V_IO_DESK", "1:4,1:7");
        let kept = json!({"Checksum": 7, "Data": {"RegisteredDevices": {}, "PodDeviceEntries": [
            {"PodUID": "a", "ContainerName": "compute", "ResourceName": "v.io/desk", "DeviceIDs": {"-1": ["1-1_1-4"]},
             "AllocResp": answer},
            {"ResourceName": "v.io/other", "DeviceIDs": {"0": ["7"]}, "AllocResp": answer},
            {"ResourceName": "v.io/desk", "DeviceIDs": {"0": ["1-9"]}, "AllocResp": "%"},
            {"ResourceName": "v.io/desk", "AllocResp": answer}, {}, 7,
        ]}});
        std::fs::write(folder.path().join(KEPT), kept.to_string()).unwrap();
        let given = read().unwrap();
        assert_eq!(given.sets("v.io/desk").collect::<Vec<_>>(), ["1-1_1-4"]);
        assert_eq!(
            (given.find_set("1-1", "1:4"), given.find_set("1-4", "1:7")),
            (Some("1-1_1-4"), Some("1-1_1-4"))
        );
        assert_eq!(
            (given.find_set("1-1", "1:8"), given.find_set("1-2", "1:4")),
            (None, None),
            "plugged in anew, another port"
        );
        std::fs::write(folder.path().join(KEPT), "no JSON").unwrap();
        assert!(read().unwrap_err().to_string().contains(KEPT));
    }

    #[test]
    fn mediated_devices_of_pods_are_known_whoever_gave_them() {
        let folder = tempfile::tempdir().unwrap();
        let kept = json!({"Data": {"PodDeviceEntries": [
            {"AllocResp": answer("MDEV_PCI_RESOURCE_V_IO_A", "AB,cd")}, {"AllocResp": answer("OTHER", "ef")},
            {"AllocResp": ""},
        ]}});
        std::fs::write(folder.path().join(KEPT), kept.to_string()).unwrap();
        let given = mediated_of_kubelet(folder.path()).unwrap();
        assert_eq!(given.into_iter().collect::<Vec<_>>(), ["ab", "cd"]);
    }

    #[test]
    fn what_would_be_forgotten_is_not_given() {
        let mut given = UsbAssignments::default();
        let at = |port: &str| BTreeMap::from([(port.to_owned(), BTreeSet::from(["1:9".to_owned()]))]);
        assert!((0..MOST).all(|n| given.put("v.io/desk", &format!("1-{n}"), BTreeMap::new())));
        assert!(!given.put("v.io/desk", "2-1", at("2-1")));
        assert!(given.put("v.io/desk", "1-1", at("1-1")));
        assert!(given.find_set("1-1", "1:9").is_some());
    }
}
