//! Node resources of VMIs' pods: the CPUs that their launchers may run on, from the kernel, and GPUs, from
//! the kubelet.

use crate::blocking::Blocking;
use crate::devices;
use crate::launchers::Entry;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit of a look.
const PATIENCE: Duration = Duration::from_secs(2);
/// Prefix of resources whose devices are exported, as in KubeVirt, and the most devices of a node.
const GPUS: &str = "nvidia.com";
const MOST: usize = 1024;
/// Longest name of a resource, and of a device.
const LONGEST: usize = 128;

/// Reader of the node's resources.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    /// Folder of the kubelet's file about devices of pods.
    folder: PathBuf,
    blocking: Blocking,
}

/// Node resources that VMIs' pods have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PreviousSample {
    /// Number of CPUs that a launcher may run on, by the UID of its VMI.
    pub(super) cpus: BTreeMap<String, u64>,
    pub(super) gpus: Vec<Gpu>,
}

/// A GPU that the launcher pod of a VMI was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gpu {
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) resource: String,
    pub(super) uuid: String,
}

impl Host {
    /// Reader for the node whose kubelet has this folder of device plug-ins.
    pub(crate) fn new(folder: PathBuf) -> Host {
        Host { folder, blocking: Blocking::new("the measures of the node", 1) }
    }

    /// Current resources of the pods of these VMIs. Values that cannot be read are left out.
    pub(super) async fn read_usage(&self, entries: Vec<Entry>) -> PreviousSample {
        let folder = self.folder.clone();
        let look = move || {
            let cpus = entries.iter().filter_map(|entry| {
                let cpus = entry.process.as_ref()?.cpus().ok()?;
                Some((entry.uid.clone(), cpus.len() as u64))
            });
            let cpus = cpus.collect();
            let gpus = match entries.iter().any(|entry| entry.has_devices) {
                true => gpus(&entries, devices::given_to_pods(&folder)?),
                false => Vec::new(),
            };
            Ok(PreviousSample { cpus, gpus })
        };
        let had = self.blocking.run("looking at what pods have of the node", PATIENCE, look).await;
        had.unwrap_or_else(|e| {
            tracing::debug!("{}", e.chain());
            PreviousSample::default()
        })
    }
}

/// GPUs of launcher pods, from the UID of the pod, the resource and the device ID.
fn gpus(entries: &[Entry], given: Vec<(String, String, String)>) -> Vec<Gpu> {
    let is_told = |text: &str| text.len() <= LONGEST && !text.chars().any(char::is_control);
    let gpu = |(uid, resource, uuid): (String, String, String)| {
        let entry = entries.iter().find(|entry| entry.pod.1 == uid && !uid.is_empty())?;
        let is_gpu = resource.starts_with(GPUS) && is_told(&resource) && is_told(&uuid);
        let (namespace, pod) = (entry.namespace.clone(), entry.pod.0.clone());
        is_gpu.then_some(Gpu { namespace, pod, resource, uuid })
    };
    given.into_iter().filter_map(gpu).take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measures::tests::entry;
    use serde_json::json;

    #[tokio::test]
    async fn gpus_are_those_of_launcher_pods_and_of_the_resources_that_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let given = |pod: &str, resource: &str, ids: serde_json::Value| json!({"PodUID": pod, "ContainerName": "compute", "ResourceName": resource, "DeviceIDs": ids, "AllocResp": ""});
        let kept = json!({"Data": {"PodDeviceEntries": [
            given("uid of the pod of a", "nvidia.com/A10", json!({"0": ["GPU-1", "GPU-2"], "-1": ["GPU-3"]})),
            given("uid of the pod of a", "devices.kubevirt.io/kvm", json!({"-1": ["kvm1"]})),
            given("uid-x", "nvidia.com/A10", json!({"-1": ["GPU-9"]})),
            given("uid of the pod of a", "nvidia.com/A10", json!({"-1": ["x".repeat(4096)]})),
        ]}});
        std::fs::write(folder.path().join("kubelet_internal_checkpoint"), kept.to_string()).unwrap();
        let (mut has, other) = (entry("a"), entry("b"));
        has.has_devices = true;
        let host = Host::new(folder.path().to_owned());
        let mut uuids: Vec<String> = host
            .read_usage(vec![has.clone(), other.clone()])
            .await
            .gpus
            .into_iter()
            .map(|gpu| gpu.uuid)
            .collect();
        uuids.sort();
        assert_eq!(uuids, ["GPU-1", "GPU-2", "GPU-3"]);
        // Without devices of VMIs, the file is not read.
        has.has_devices = false;
        assert_eq!(host.read_usage(vec![has, other]).await.gpus, []);
    }
}
