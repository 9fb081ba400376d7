//! What is installed, and how it is taken away.

use crate::duration::Duration;
use crate::kubevirt::{ComponentConfig, Configuration, CustomizeComponents};
use crate::meta::LocalReference;
use crate::{object, words};

object! {
    /// What is wanted of the installation.
    pub struct Spec {
        /// The tag of the images.
        pub image_tag: Option<String> = "imageTag",
        /// The registry of the images.
        pub image_registry: Option<String> = "imageRegistry",
        /// When images are pulled: `Always`, `IfNotPresent` or `Never`.
        pub image_pull_policy: Option<String> = "imagePullPolicy",
        /// Secrets that open the registry.
        pub image_pull_secrets: Vec<LocalReference> = "imagePullSecrets",
        /// The namespace of Prometheus; not said, the usual ones are tried.
        pub monitor_namespace: Option<String> = "monitorNamespace",
        /// The namespace of the ServiceMonitor; not said is that of Prometheus.
        pub service_monitor_namespace: Option<String> = "serviceMonitorNamespace",
        /// The service account of Prometheus.
        pub monitor_account: Option<String> = "monitorAccount",
        /// What happens to running instances when the installation is updated; not said is nothing.
        pub workload_update_strategy: Option<WorkloadUpdateStrategy> = "workloadUpdateStrategy",
        /// Whether it can be taken away while there are machines; not said, it can, and they go with it.
        pub uninstall_strategy: Option<UninstallStrategy> = "uninstallStrategy",
        /// How long certificates are good for.
        pub certificate_rotate_strategy: Option<CertificateRotateStrategy> = "certificateRotateStrategy",
        /// Goes into the label `app.kubernetes.io/version` of what is installed.
        pub product_version: Option<String> = "productVersion",
        /// Goes into the label `app.kubernetes.io/part-of` of what is installed.
        pub product_name: Option<String> = "productName",
        /// Goes into the label `app.kubernetes.io/component` of what is installed.
        pub product_component: Option<String> = "productComponent",
        /// The port by which two clusters move machines between them.
        pub synchronization_port: Option<String> = "synchronizationPort",
        /// How machines are made.
        pub configuration: Option<Configuration> = "configuration",
        /// Where the components of the control plane run, and how many of each.
        pub infra: Option<ComponentConfig> = "infra",
        /// Where machines can run.
        pub workloads: Option<ComponentConfig> = "workloads",
        /// Changes to what is installed.
        pub customize_components: Option<CustomizeComponents> = "customizeComponents",
    }
}

object! {
    /// What happens to running instances when the installation is updated.
    pub struct WorkloadUpdateStrategy {
        /// How they reach the new version; the first that is possible. None means that they stay as they are.
        pub workload_update_methods: Vec<WorkloadUpdateMethod> = "workloadUpdateMethods",
        /// How many are evicted at a time; not said is 10.
        pub batch_eviction_size: Option<i64> = "batchEvictionSize",
        /// How long it takes until the next are evicted; not said is 1 m.
        pub batch_eviction_interval: Option<Duration> = "batchEvictionInterval",
    }
}

object! {
    /// How long certificates are good for.
    pub struct CertificateRotateStrategy {
        /// Certificates of an authority of our own.
        pub self_signed: Option<SelfSigned> = "selfSigned",
    }
}

object! {
    /// Certificates of an authority of our own.
    pub struct SelfSigned {
        /// Deprecated: `ca.duration`.
        pub ca_rotate_interval: Option<Duration> = "caRotateInterval",
        /// Deprecated: `server.duration`.
        pub cert_rotate_interval: Option<Duration> = "certRotateInterval",
        /// Deprecated: `ca.renewBefore`.
        pub ca_overlap_interval: Option<Duration> = "caOverlapInterval",
        /// The authority's own; not said is 7 days, renewed a fifth before the end.
        pub ca: Option<CertConfig> = "ca",
        /// Those of servers and clients; not said is 1 day, renewed a fifth before the end.
        pub server: Option<CertConfig> = "server",
    }
}

object! {
    /// How long a certificate is good for.
    pub struct CertConfig {
        /// From its beginning to its end.
        pub duration: Option<Duration> = "duration",
        /// How long before its end there is a new one.
        pub renew_before: Option<Duration> = "renewBefore",
    }
}

words! {
    /// How an instance reaches a new version.
    pub enum WorkloadUpdateMethod {
        /// It moves to a new pod.
        LiveMigrate = "LiveMigrate",
        /// Its pod is evicted.
        Evict = "Evict",
    }
}

words! {
    /// Whether the installation can be taken away while there are machines.
    pub enum UninstallStrategy {
        /// They go with it.
        RemoveWorkloads = "RemoveWorkloads",
        /// It stays until they are gone.
        BlockUninstallIfWorkloadsExist = "BlockUninstallIfWorkloadsExist",
    }
}
