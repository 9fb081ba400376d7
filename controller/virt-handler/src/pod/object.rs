//! Pods of the API server: the fields that virt-handler reads.

use api::launcher::Ending;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: Meta,
    pub spec: Spec,
    pub status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    pub name: String,
    pub uid: String,
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Spec {
    pub containers: Vec<Container>,
    pub volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    pub name: String,
    pub command: Vec<String>,
    pub args: Vec<String>,
    pub resources: Resources,
    pub volume_mounts: Vec<Mount>,
    pub volume_devices: Vec<Device>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub limits: BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Mount {
    pub name: String,
    pub mount_path: String,
    pub sub_path: Option<String>,
    pub sub_path_expr: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Device {
    pub name: String,
    pub device_path: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    pub name: String,
    pub empty_dir: Option<Value>,
    pub secret: Option<SecretVolume>,
    pub persistent_volume_claim: Option<ClaimVolume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimVolume {
    pub claim_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SecretVolume {
    pub secret_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    pub phase: String,
    pub reason: Option<String>,
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    pub container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodIp {
    pub ip: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerStatus {
    pub name: String,
    #[serde(rename = "containerID")]
    pub container_id: String,
    pub state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    pub terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminated {
    pub exit_code: i64,
    pub reason: Option<String>,
    pub message: Option<String>,
}

impl Pod {
    /// Parses a pod of the API server; `None` if that fails, which is logged.
    pub fn read(object: &Value) -> Option<Pod> {
        Pod::deserialize(object)
            .inspect_err(|e| tracing::warn!("cannot parse a pod of the API server: {e}"))
            .ok()
    }

    /// Runtime ID of a container, which is part of its cgroup's name; `None` before its creation.
    pub fn container_id(&self, container: &str) -> Option<&str> {
        let status = self.status.container_statuses.iter().find(|status| status.name == container)?;
        // `containerd://ID`, `cri-o://ID`
        let (_, id) = status.container_id.rsplit_once("://")?;
        let is_id = !id.is_empty() && id.bytes().all(|letter| letter.is_ascii_alphanumeric());
        is_id.then_some(id)
    }

    /// Ending of the VMI, as its launcher wrote it into the termination message of this container.
    pub fn ending(&self, container: &str) -> Option<Ending> {
        let status = self.status.container_statuses.iter().find(|status| status.name == container)?;
        Ending::of_termination(status.state.terminated.as_ref()?.message.as_deref()?)
    }

    /// Description of the end of this container, or of the pod; `None` before the end.
    pub fn end_description(&self, container: &str) -> Option<String> {
        let status = self.status.container_statuses.iter().find(|status| status.name == container);
        if let Some(end) = status.and_then(|status| status.state.terminated.as_ref()) {
            let reason = end.reason.as_deref().unwrap_or("ended");
            let words = end.message.as_deref().map(Ending::readable).filter(|words| !words.is_empty());
            let words = words.map_or_else(String::new, |words| format!(", {words}"));
            return Some(format!("{reason}, exit code {}{words}", end.exit_code));
        }
        match self.status.phase.as_str() {
            "Failed" | "Succeeded" => {
                Some(self.status.reason.clone().unwrap_or_else(|| "the pod has ended".into()))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_container_is_the_runtimes_without_its_name() {
        let id = |said: &str| {
            let statuses = serde_json::json!([
                {"name": "sidecar", "containerID": "containerd://00"}, {"name": "compute", "containerID": said},
            ]);
            let pod = Pod::read(&serde_json::json!({"status": {"containerStatuses": statuses}})).unwrap();
            pod.container_id("compute").map(str::to_owned)
        };
        assert_eq!(id("containerd://01ab").as_deref(), Some("01ab"));
        assert_eq!(id("cri-o://01ab").as_deref(), Some("01ab"));
        for odd in ["", "01ab", "containerd://", "containerd://../01ab"] {
            assert_eq!(id(odd), None, "{odd}");
        }
        assert_eq!(Pod::default().container_id("compute"), None);
    }
}
