//! `CDIConfig`: the settings of imports, uploads and clones. Only the object [`CONFIG`] counts.

use crate::cdi::Percent;
use crate::kubevirt::{ContainerResources, TlsVersion};
use crate::meta::{Empty, LocalReference, ObjectMeta};
use crate::{object, string_enum};
use std::collections::BTreeMap;

/// The name of the only CDIConfig that counts.
pub const CONFIG: &str = "config";

object! {
    /// CDIConfig: settings of imports, uploads and clones. The object with the name `config` is in use.
    pub struct CDIConfig {
        /// API version of this object: `cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `CDIConfig`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the CDIConfig.
        pub metadata: ObjectMeta = "metadata",
        /// Settings as written by the administrator of the cluster.
        pub spec: CDIConfigSpec = "spec",
        /// Settings in use, written by the control plane.
        pub status: Option<CDIConfigStatus> = "status",
    }
}

object! {
    /// Settings as written by the administrator of the cluster.
    pub struct CDIConfigSpec {
        /// URL of the upload proxy for clients. Unset: the address of its Ingress or Route.
        pub upload_proxy_url_override: Option<String> = "uploadProxyURLOverride",
        /// HTTP proxy of the importer pods. Unset: no proxy.
        pub import_proxy: Option<ImportProxy> = "importProxy",
        /// Name of the StorageClass of scratch space. Without effect: no scratch space is used.
        pub scratch_space_storage_class: Option<String> = "scratchSpaceStorageClass",
        /// Compute resources of the worker pods: importers, upload servers and cloners.
        pub pod_resource_requirements: Option<ContainerResources> = "podResourceRequirements",
        /// Names of enabled feature gates, for example `HonorWaitForFirstConsumer`.
        pub feature_gates: Vec<String> = "featureGates",
        /// Completion of labelled PVCs from the StorageProfile at admission. Default: `Enabled`.
        pub webhook_pvc_rendering: Option<WebhookPvcRendering> = "webhookPvcRendering",
        /// Share of a filesystem volume that is reserved for the filesystem itself.
        pub filesystem_overhead: Option<FilesystemOverhead> = "filesystemOverhead",
        /// Preallocates all blocks of disk images, unless the DataVolume sets it. Default: false.
        pub preallocation: Option<bool> = "preallocation",
        /// Registries that are contacted without TLS verification: `HOST` or `HOST:PORT`.
        pub insecure_registries: Vec<String> = "insecureRegistries",
        /// Deprecated, without effect: seconds until a complete DataVolume is deleted.
        pub data_volume_ttl_seconds: Option<i64> = "dataVolumeTTLSeconds",
        /// TLS versions and cipher suites of the servers. Default: `Intermediate`.
        pub tls_security_profile: Option<TlsSecurityProfile> = "tlsSecurityProfile",
        /// Secrets for pulling the container images of worker pods.
        pub image_pull_secrets: Vec<LocalReference> = "imagePullSecrets",
        /// Verbosity of the logs of the worker pods, from 0 to 9. Default: 1.
        pub log_verbosity: Option<i64> = "logVerbosity",
    }
}

object! {
    /// Settings in use, written by the control plane.
    pub struct CDIConfigStatus {
        /// URL of the upload proxy for clients, for example `virtctl image-upload`.
        pub upload_proxy_url: Option<String> = "uploadProxyURL",
        /// CA certificates of the upload proxy in PEM.
        pub upload_proxy_ca: Option<String> = "uploadProxyCA",
        /// HTTP proxy of the importer pods.
        pub import_proxy: Option<ImportProxy> = "importProxy",
        /// Name of the StorageClass of scratch space. Never set: no scratch space is used.
        pub scratch_space_storage_class: Option<String> = "scratchSpaceStorageClass",
        /// Compute resources of the worker pods: importers, upload servers and cloners.
        pub default_pod_resource_requirements: Option<ContainerResources> = "defaultPodResourceRequirements",
        /// Share of a filesystem volume that is reserved for the filesystem itself.
        pub filesystem_overhead: Option<FilesystemOverhead> = "filesystemOverhead",
        /// Preallocates all blocks of disk images, unless the DataVolume sets it.
        pub preallocation: Option<bool> = "preallocation",
        /// Secrets for pulling the container images of worker pods.
        pub image_pull_secrets: Vec<LocalReference> = "imagePullSecrets",
    }
}

object! {
    /// HTTP proxy of the importer pods.
    pub struct ImportProxy {
        /// URL of the proxy for HTTP: `http://USER:PASSWORD@HOST:PORT`.
        pub http_proxy: Option<String> = "HTTPProxy",
        /// URL of the proxy for HTTPS: `http://USER:PASSWORD@HOST:PORT`.
        pub https_proxy: Option<String> = "HTTPSProxy",
        /// Hosts, domains and networks that are contacted without the proxy, separated by commas.
        pub no_proxy: Option<String> = "noProxy",
        /// Name of a ConfigMap in the namespace of the installation with the CA certificates of the proxy in
        /// PEM: `trusted-ca-proxy-bundle-cm`. Unset: the system's CAs.
        pub trusted_ca_proxy: Option<String> = "trustedCAProxy",
    }
}

object! {
    /// Share of a filesystem volume that is reserved for the filesystem itself.
    pub struct FilesystemOverhead {
        /// Share for every StorageClass without its own, from `0` to `1`. Default: `0.06`.
        pub global: Option<Percent> = "global",
        /// Share by the name of the StorageClass, from `0` to `1`.
        pub storage_class: BTreeMap<String, Percent> = "storageClass",
    }
}

object! {
    /// TLS versions and cipher suites of the servers.
    pub struct TlsSecurityProfile {
        /// Type of the profile. Only `Custom` has settings of its own.
        pub r#type: TlsProfileType = "type",
        /// Empty object for the profile `Old`.
        pub old: Option<Empty> = "old",
        /// Empty object for the profile `Intermediate`.
        pub intermediate: Option<Empty> = "intermediate",
        /// Empty object for the profile `Modern`.
        pub modern: Option<Empty> = "modern",
        /// TLS versions and cipher suites of the profile `Custom`.
        pub custom: Option<CustomTlsProfile> = "custom",
    }
}

object! {
    /// TLS versions and cipher suites of the profile `Custom`.
    pub struct CustomTlsProfile {
        /// Permitted cipher suites by their OpenSSL names.
        pub ciphers: Vec<String> = "ciphers",
        /// Minimum TLS version that the servers accept.
        pub min_tls_version: Option<TlsVersion> = "minTLSVersion",
    }
}

string_enum! {
    /// Completion of labelled PVCs from the StorageProfile at admission.
    pub enum WebhookPvcRendering {
        Enabled = "Enabled",
        Disabled = "Disabled",
    }
}

string_enum! {
    /// Type of a TLS profile.
    pub enum TlsProfileType {
        Old = "Old",
        Intermediate = "Intermediate",
        Modern = "Modern",
        Custom = "Custom",
    }
}
