//! USB devices that pods were given, in which sets. The kubelet counts sets by their names; and a set is put together of what is there. So a
//! device that a pod may have open is offered in that pod's set alone, until it is plugged in anew: then nobody has it.
//!
//! What pods have that came before this virt-handler the kubelet keeps in a file beside its sockets, with our own answers.

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

/// Sets that are remembered.
const MOST: usize = 4096;
/// The kubelet's file, and the most that is read of it.
const KEPT: &str = "kubelet_internal_checkpoint";
const LONGEST: u64 = 16 << 20;
/// Between the ports in the name of a set.
pub(super) const BETWEEN: &str = "_";

/// The sets by their resources and names. Of each port, the bus and number of the device that the pod was given there; of what the kubelet
/// says of a pod with several sets, those of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Given(BTreeMap<(String, String), BTreeMap<String, BTreeSet<String>>>);

impl Given {
    /// Of the kubelet's file in this folder; of an entry that is not understood, nothing.
    pub(super) fn of_kubelet(folder: &Path) -> Result<Given> {
        let mut given = Given::default();
        for entry in entries(folder)?.into_iter().flatten() {
            given.keep(&entry);
        }
        Ok(given)
    }

    fn keep(&mut self, entry: &Value) -> Option<()> {
        let resource = entry["ResourceName"].as_str()?;
        let answer = answer(entry)?;
        let addresses: Vec<&str> = answer.envs.get(&variable(USB, resource))?.split(',').collect();
        let ids = entry["DeviceIDs"].as_object()?.values().filter_map(Value::as_array).flatten();
        let ids: Vec<&str> = ids.filter_map(Value::as_str).collect();
        let all: BTreeSet<String> = addresses.iter().map(|&address| address.to_owned()).collect();
        for id in &ids {
            let ports: Vec<&str> = id.split(BETWEEN).collect();
            // Which device of several sets is at which port is not said.
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

    /// A pod was given this. False where so many were that it would be forgotten.
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

    /// The name of the set in which a pod was given the device at a port, with this bus and number.
    pub(super) fn of(&self, port: &str, address: &str) -> Option<&str> {
        let is_in =
            |set: &BTreeMap<String, BTreeSet<String>>| set.get(port).is_some_and(|all| all.contains(address));
        self.0.iter().find(|(_, set)| is_in(set)).map(|((_, id), _)| id.as_str())
    }

    /// This set was given with the device at this port that has this bus and number.
    pub(super) fn has(&self, resource: &str, id: &str, port: &str, address: &str) -> bool {
        let set = self.0.get(&(resource.to_owned(), id.to_owned()));
        set.and_then(|set| set.get(port)).is_some_and(|all| all.contains(address))
    }

    /// The names of the sets of a resource.
    pub(super) fn sets(&self, resource: &str) -> impl Iterator<Item = &str> {
        self.0.keys().filter(move |(of, _)| of == resource).map(|(_, id)| id.as_str())
    }
}

/// The mediated devices that pods have, whichever device plugin gave them. Who is not in this list loses a device: what is not
/// understood is an error.
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

/// Devices that pods have: the uid of the pod, the resource and the device, whichever device plugin gave them; of an entry that
/// is not understood, nothing.
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

/// What the kubelet keeps in this folder of devices that containers have; nothing where it keeps no file.
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
        // As the kubelet writes that nobody has anything.
        Some(Value::Null) => Ok(Some(Vec::new())),
        _ => Err(Error::failed(format!("{}: it has no list Data.PodDeviceEntries", cannot()))),
    }
}

/// What a device plugin answered for a container.
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

    /// The kubelet's file where no pod has anything.
    pub(in super::super) const NOBODY: &str = r#"{"Data": {"PodDeviceEntries": null}}"#;

    /// The kubelet's file where a pod has this mediated device.
    pub(in super::super) fn with_mediated(uuid: &str) -> String {
        json!({"Data": {"PodDeviceEntries": [{"AllocResp": answer("MDEV_PCI_RESOURCE_V_IO_A", uuid)}]}})
            .to_string()
    }

    #[test]
    fn what_pods_have_is_read_of_the_kubelet() {
        let folder = tempfile::tempdir().unwrap();
        let read = || Given::of_kubelet(folder.path());
        assert_eq!(read().unwrap(), Given::default(), "a kubelet that has given nothing");
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
        assert_eq!((given.of("1-1", "1:4"), given.of("1-4", "1:7")), (Some("1-1_1-4"), Some("1-1_1-4")));
        assert_eq!(
            (given.of("1-1", "1:8"), given.of("1-2", "1:4")),
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
        let mut given = Given::default();
        let at = |port: &str| BTreeMap::from([(port.to_owned(), BTreeSet::from(["1:9".to_owned()]))]);
        assert!((0..MOST).all(|n| given.put("v.io/desk", &format!("1-{n}"), BTreeMap::new())));
        assert!(!given.put("v.io/desk", "2-1", at("2-1")));
        assert!(given.put("v.io/desk", "1-1", at("1-1")));
        assert!(given.of("1-1", "1:9").is_some());
    }
}
