//! `CDI`: the installation of CDI, and the settings of the CDIConfig.

use crate::cdi::{CDIConfigSpec, CloneStrategy, Condition};
use crate::kubevirt::{CertConfig, ComponentPatch, NodePlacement, UninstallStrategy};
use crate::meta::ObjectMeta;
use crate::pod::{Affinity, Toleration};
use crate::{object, string_enum};
use serde_json::Value;
use std::collections::BTreeMap;

object! {
    /// CDI: the installation of imports, uploads and clones, and its configuration.
    pub struct CDI {
        /// API version of this object: `cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `CDI`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the CDI object: name, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Desired state of the installation: placement and configuration.
        pub spec: CDISpec = "spec",
        /// Observed state of the installation, written by the control plane.
        pub status: Option<CDIStatus> = "status",
    }
}

object! {
    /// Desired state of the installation: placement and configuration.
    pub struct CDISpec {
        /// Pull policy of container images: `Always`, `IfNotPresent` or `Never`.
        pub image_pull_policy: Option<String> = "imagePullPolicy",
        /// Strategy for removing the installation while DataVolumes exist. Default: `RemoveWorkloads`.
        pub uninstall_strategy: Option<UninstallStrategy> = "uninstallStrategy",
        /// Placement and replicas of the components of the control plane.
        pub infra: Option<CDIComponentConfig> = "infra",
        /// Placement of the worker pods: importers, upload servers and cloners.
        pub workload: Option<NodePlacement> = "workload",
        /// Patches and arguments for installed components.
        pub customize_components: Option<CDICustomizeComponents> = "customizeComponents",
        /// Clone strategy of every StorageClass. Unset: that of the StorageProfile.
        pub clone_strategy_override: Option<CloneStrategy> = "cloneStrategyOverride",
        /// Settings of imports, uploads and clones, copied to the CDIConfig.
        pub config: Option<CDIConfigSpec> = "config",
        /// Lifetime and renewal of the TLS certificates.
        pub cert_config: Option<CDICertConfig> = "certConfig",
        /// Name of the PriorityClass of the control plane. Without effect: the manifests name it.
        pub priority_class: Option<String> = "priorityClass",
    }
}

object! {
    /// Placement and replicas of the components of the control plane.
    pub struct CDIComponentConfig {
        /// Labels that a node must have. Unset: every node qualifies.
        pub node_selector: BTreeMap<String, String> = "nodeSelector",
        /// Affinity rules for nodes and other pods, in the form of a pod's `affinity`.
        pub affinity: Option<Value> = "affinity" as Option<Affinity>,
        /// Node taints that the pods tolerate, in the form of a pod's `tolerations`.
        pub tolerations: Vec<Value> = "tolerations" as Vec<Toleration>,
        /// Number of replicas of the controller.
        pub deployment_replicas: Option<u32> = "deploymentReplicas",
        /// Number of replicas of the API server.
        pub api_server_replicas: Option<u32> = "apiServerReplicas",
        /// Number of replicas of the upload proxy.
        pub upload_proxy_replicas: Option<u32> = "uploadProxyReplicas",
    }
}

object! {
    /// Patches and arguments for installed components.
    pub struct CDICustomizeComponents {
        /// Patches for single objects of the installation.
        pub patches: Vec<ComponentPatch> = "patches",
        /// Additional command line arguments of the components.
        pub flags: Option<CDIFlags> = "flags",
    }
}

object! {
    /// Additional command line arguments of the components: name and value.
    pub struct CDIFlags {
        /// Additional arguments of the API server.
        pub api: BTreeMap<String, String> = "api",
        /// Additional arguments of the controller.
        pub controller: BTreeMap<String, String> = "controller",
        /// Additional arguments of the upload proxy.
        pub upload_proxy: BTreeMap<String, String> = "uploadProxy",
    }
}

object! {
    /// Lifetime and renewal of the TLS certificates.
    pub struct CDICertConfig {
        /// Certificates of the certificate authorities. Default: 48 hours, renewed at 24 hours.
        pub ca: Option<CertConfig> = "ca",
        /// Certificates of the servers. Default: 24 hours, renewed at 12 hours.
        pub server: Option<CertConfig> = "server",
        /// Certificates of the clients. Default: 24 hours, renewed at 12 hours.
        pub client: Option<CertConfig> = "client",
    }
}

object! {
    /// Observed state of the installation.
    pub struct CDIStatus {
        /// Phase of the installation; empty at first.
        pub phase: Option<CDIPhase> = "phase",
        /// Conditions of the installation: `Available`, `Progressing`, `Degraded` and `SettingsServed`.
        pub conditions: Vec<Condition> = "conditions",
        /// Version of the component that manages the installation.
        pub operator_version: Option<String> = "operatorVersion",
        /// Target version of the installation.
        pub target_version: Option<String> = "targetVersion",
        /// Version of the installation in use.
        pub observed_version: Option<String> = "observedVersion",
    }
}

string_enum! {
    /// Phase of the installation; empty at first.
    pub enum CDIPhase {
        Deploying = "Deploying",
        Deployed = "Deployed",
        Deleting = "Deleting",
        Deleted = "Deleted",
        Error = "Error",
        Upgrading = "Upgrading",
    }
}
