//! Desired state of the installation.

use crate::duration::Duration;
use crate::kubevirt::{ComponentConfig, Configuration, CustomizeComponents};
use crate::meta::LocalReference;
use crate::{object, string_enum};

object! {
    /// Desired state of the installation: images, placement and configuration.
    pub struct Spec {
        /// Tag of the images of the components. Unset: that of the installed version.
        pub image_tag: Option<String> = "imageTag",
        /// Registry of the images of the components. Unset: that of the installed version.
        pub image_registry: Option<String> = "imageRegistry",
        /// Image pull policy of the components: `Always`, `IfNotPresent` or `Never`. Unset: the default of
        /// Kubernetes.
        pub image_pull_policy: Option<String> = "imagePullPolicy",
        /// Image pull Secrets for the registry of the components. Unset: anonymous access.
        pub image_pull_secrets: Vec<LocalReference> = "imagePullSecrets",
        /// Namespace of Prometheus. Unset: the usual namespaces are tried.
        pub monitor_namespace: Option<String> = "monitorNamespace",
        /// Namespace of the ServiceMonitor. Default: the namespace of Prometheus.
        pub service_monitor_namespace: Option<String> = "serviceMonitorNamespace",
        /// Name of the ServiceAccount of Prometheus.
        pub monitor_account: Option<String> = "monitorAccount",
        /// Strategy that moves running VMIs to new launcher pods after an update. Unset: running VMIs keep
        /// their launcher pods.
        pub workload_update_strategy: Option<WorkloadUpdateStrategy> = "workloadUpdateStrategy",
        /// Strategy for removing the installation while VMs exist. Default: `RemoveWorkloads`, which deletes
        /// the VMs too.
        pub uninstall_strategy: Option<UninstallStrategy> = "uninstallStrategy",
        /// Lifetime and renewal of the TLS certificates of the components.
        pub certificate_rotate_strategy: Option<CertificateRotateStrategy> = "certificateRotateStrategy",
        /// Value of the label `app.kubernetes.io/version` on installed objects.
        pub product_version: Option<String> = "productVersion",
        /// Value of the label `app.kubernetes.io/part-of` on installed objects.
        pub product_name: Option<String> = "productName",
        /// Value of the label `app.kubernetes.io/component` on installed objects.
        pub product_component: Option<String> = "productComponent",
        /// Port for live migrations between clusters.
        pub synchronization_port: Option<String> = "synchronizationPort",
        /// Configuration of VMs, live migration and the components.
        pub configuration: Option<Configuration> = "configuration",
        /// Placement and replicas of the components of the control plane.
        pub infra: Option<ComponentConfig> = "infra",
        /// Placement of virt-handler, and so of VMIs, on nodes.
        pub workloads: Option<ComponentConfig> = "workloads",
        /// Patches and arguments for installed components.
        pub customize_components: Option<CustomizeComponents> = "customizeComponents",
    }
}

object! {
    /// Strategy that moves running VMIs to new launcher pods after an update.
    pub struct WorkloadUpdateStrategy {
        /// Methods of the update in order of preference. Empty: running VMIs are not updated.
        pub workload_update_methods: Vec<WorkloadUpdateMethod> = "workloadUpdateMethods",
        /// Number of VMIs that are evicted at a time. Default: 10.
        pub batch_eviction_size: Option<i64> = "batchEvictionSize",
        /// Time between two batches of evictions, for example `1m`. Default: `1m`.
        pub batch_eviction_interval: Option<Duration> = "batchEvictionInterval",
    }
}

object! {
    /// Lifetime and renewal of the TLS certificates of the components.
    pub struct CertificateRotateStrategy {
        /// Certificates of the installation's own certificate authority (CA).
        pub self_signed: Option<SelfSigned> = "selfSigned",
    }
}

object! {
    /// Certificates of the installation's own certificate authority (CA).
    pub struct SelfSigned {
        /// Deprecated, use `ca.duration`: lifetime of the CA certificate.
        pub ca_rotate_interval: Option<Duration> = "caRotateInterval",
        /// Deprecated, use `server.duration`: lifetime of the other certificates.
        pub cert_rotate_interval: Option<Duration> = "certRotateInterval",
        /// Deprecated, use `ca.renewBefore`: time before the CA certificate's expiry at which it is renewed.
        pub ca_overlap_interval: Option<Duration> = "caOverlapInterval",
        /// Certificate of the CA. Default: 7 days, renewed after four fifths of its lifetime.
        pub ca: Option<CertConfig> = "ca",
        /// Certificates of servers and clients. Default: 1 day, renewed after four fifths of their lifetime.
        pub server: Option<CertConfig> = "server",
    }
}

object! {
    /// Lifetime and renewal of a certificate.
    pub struct CertConfig {
        /// Lifetime of the certificate, for example `24h`.
        pub duration: Option<Duration> = "duration",
        /// Time before the certificate's expiry at which it is renewed, for example `4h`.
        pub renew_before: Option<Duration> = "renewBefore",
    }
}

string_enum! {
    /// Method that moves a running VMI to a new launcher pod.
    pub enum WorkloadUpdateMethod {
        /// Live migration to a new launcher pod.
        LiveMigrate = "LiveMigrate",
        /// Eviction of the launcher pod, which ends the VMI.
        Evict = "Evict",
    }
}

string_enum! {
    /// Strategy for removing the installation while VMs exist.
    pub enum UninstallStrategy {
        /// VMs are deleted with the installation.
        RemoveWorkloads = "RemoveWorkloads",
        /// Removal waits until all VMs are deleted.
        BlockUninstallIfWorkloadsExist = "BlockUninstallIfWorkloadsExist",
    }
}
