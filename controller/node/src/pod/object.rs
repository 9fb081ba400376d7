//! A pod as the API server tells it, as far as virt-handler looks at it.

use serde::Deserialize;
use serde_json::Value;

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Pod {
    pub metadata: Meta,
    pub spec: Spec,
    pub status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Meta {
    pub name: String,
    pub uid: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct Spec {
    pub containers: Vec<Container>,
    pub volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs)]
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
#[allow(missing_docs)]
pub struct Resources {
    pub limits: std::collections::BTreeMap<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Mount {
    pub name: String,
    pub mount_path: String,
    pub sub_path: Option<String>,
    pub sub_path_expr: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Device {
    pub name: String,
    pub device_path: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Volume {
    pub name: String,
    pub empty_dir: Option<Value>,
    pub secret: Option<SecretVolume>,
    pub persistent_volume_claim: Option<ClaimVolume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct ClaimVolume {
    pub claim_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct SecretVolume {
    pub secret_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Status {
    pub phase: String,
    pub reason: Option<String>,
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    pub container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct PodIp {
    pub ip: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct ContainerStatus {
    pub name: String,
    pub state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct ContainerState {
    pub terminated: Option<Terminated>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[allow(missing_docs)]
pub struct Terminated {
    pub exit_code: i64,
    pub reason: Option<String>,
    pub message: Option<String>,
}

impl Pod {
    /// A pod of the API server; `None` for what is none.
    pub fn read(object: &Value) -> Option<Pod> {
        Pod::deserialize(object).inspect_err(|e| tracing::warn!("a pod is not understood: {e}")).ok()
    }

    /// How the container of this name ended, or the pod with it, if it has.
    pub fn ended(&self, container: &str) -> Option<String> {
        let status = self.status.container_statuses.iter().find(|status| status.name == container);
        if let Some(end) = status.and_then(|status| status.state.terminated.as_ref()) {
            let reason = end.reason.as_deref().unwrap_or("ended");
            let words = end.message.as_deref().map_or_else(String::new, |words| format!(", {words}"));
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
