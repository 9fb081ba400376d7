//! Effect of each field of the CDI object, and of the settings in it and in the CDIConfig: two lists, like
//! that of the KubeVirt object ([`crate::kubevirt::served`]).
//!
//! ```text
//! FIELDS, CONFIG_FIELDS ─┬─ unserved, unserved_config ─┬─► virt-api: a warning for each field that is set and has no effect
//!                        │                             └─► virt-controller: the condition `SettingsServed` on the CDI object
//!                        └─ docs/reference/cdi.md, written by a test
//! ```
//!
//! A CDI object of upstream must be accepted here, so no field is refused for its presence.

use crate::kubevirt::served::Served::{self, No, Values, Yes};
use crate::kubevirt::served::{Unserved, unserved_of};
use serde_json::Value;

/// Name of the only ConfigMap that `importProxy.trustedCAProxy` may name, in the namespace of the
/// installation. virt-controller has no permission to read others.
pub const PROXY_AUTHORITIES: &str = "trusted-ca-proxy-bundle-cm";

/// The fields of a CDI object below `spec`, in the order of the schema, without those of `config`.
pub const FIELDS: &[(&str, Served)] = &[
    ("imagePullPolicy", Yes),
    ("uninstallStrategy", Values(&["RemoveWorkloads", "BlockUninstallIfWorkloadsExist"])),
    ("infra", No("the manifests set placement and replicas of the components")),
    ("workload", Yes),
    (
        "customizeComponents",
        No("of its programs, customizeComponents of the KubeVirt object patches cdi-uploadproxy"),
    ),
    ("cloneStrategyOverride", Values(&["copy", "snapshot", "csi-clone"])),
    ("certConfig", No("upload CAs are valid for 48 hours, and the certificates that they sign for 24 hours")),
    (
        "priorityClass",
        No(
            "it applies to the control plane, whose manifests set it; each DataVolume sets the priority class of its worker pods",
        ),
    ),
];

/// The fields of a CDIConfig below `spec`, and of a CDI object below `spec.config`.
pub const CONFIG_FIELDS: &[(&str, Served)] = &[
    ("uploadProxyURLOverride", Yes),
    ("importProxy.HTTPProxy", Yes),
    ("importProxy.HTTPSProxy", Yes),
    ("importProxy.noProxy", Yes),
    ("importProxy.trustedCAProxy", Values(&[PROXY_AUTHORITIES])),
    ("scratchSpaceStorageClass", No("there is no scratch space")),
    ("podResourceRequirements", Yes),
    ("featureGates", Values(&["HonorWaitForFirstConsumer", "WebhookPvcRendering"])),
    ("webhookPvcRendering", Values(&["Enabled", "Disabled"])),
    ("filesystemOverhead", Yes),
    ("preallocation", Yes),
    ("insecureRegistries", Yes),
    ("dataVolumeTTLSeconds", No("deprecated, and without effect in CDI too")),
    (
        "tlsSecurityProfile",
        No(
            "`tlsConfiguration` of the KubeVirt object applies to cdi-uploadproxy, and worker pods use only TLS 1.3",
        ),
    ),
    ("imagePullSecrets", Yes),
    ("logVerbosity", Yes),
];

/// The fields of a CDI object that are set and have no effect.
pub fn unserved(object: &Value) -> Vec<Unserved> {
    let mut found = unserved_of(FIELDS, &object["spec"], "spec");
    found.extend(unserved_of(CONFIG_FIELDS, &object["spec"]["config"], "spec.config"));
    found
}

/// The fields of a CDIConfig that are set and have no effect.
pub fn unserved_config(object: &Value) -> Vec<Unserved> {
    unserved_of(CONFIG_FIELDS, &object["spec"], "spec")
}
