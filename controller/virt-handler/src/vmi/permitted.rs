//! Settings of the cluster for VMIs, as known to a keeper.

use crate::error::{Error, Result};
use api::machine::{Machine, Settings};
use api::vmi::VirtualMachineInstance;
use std::sync::Arc;

/// Settings of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Permitted {
    /// Unknown yet: no VMI is started, and nothing is reported.
    #[default]
    NotKnown,
    /// No KubeVirt object in this namespace: no VMI is started, and that is reported.
    Nothing(String),
    /// Settings of the KubeVirt object.
    By(Arc<Settings>),
}

impl Permitted {
    /// True while the settings are unknown.
    pub(crate) fn is_not_known(&self) -> bool {
        *self == Permitted::NotKnown
    }

    /// The settings, if there are any.
    pub(crate) fn settings(&self) -> Option<&Settings> {
        match self {
            Permitted::By(settings) => Some(settings),
            Permitted::NotKnown | Permitted::Nothing(_) => None,
        }
    }

    /// Checked description of a VMI, if it is permitted. The webhooks have made the same check if they were
    /// in place.
    pub(crate) fn machine(&self, vmi: &VirtualMachineInstance) -> Result<Machine> {
        match self {
            Permitted::NotKnown => {
                Err(Error::failed("the settings of the KubeVirt object are not known yet"))
            }
            Permitted::Nothing(home) => Err(Error::failed(format!(
                "there is no KubeVirt object in the namespace {home}: no VMI is started until there is one"
            ))),
            Permitted::By(settings) => Machine::check(vmi, settings).map_err(|faults| {
                let all: Vec<String> = faults.iter().map(ToString::to_string).collect();
                Error::refused(all.join("; "))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use serde_json::json;

    #[test]
    fn a_gate_is_shut_unless_the_cluster_opens_it() {
        let vmi: VirtualMachineInstance = api::wire::read(json!({
            "metadata": {"name": "a", "namespace": "n"},
            "spec": {
                "domain": {
                    "memory": {"guest": "128Mi"},
                    "firmware": {"uuid": "5d307ca9-b3ef-428c-8861-06e72d69f223"},
                    "devices": {"autoattachPodInterface": false, "disks": [{"name": "data", "disk": {"bus": "virtio"}}]}
                },
                "volumes": [{"name": "data", "hostDisk": {"path": "/srv/n/a.img", "type": "Disk"}}]
            }
        }))
        .unwrap();
        let permitting = |gates: &[&str], folders: &str| {
            let gates = json!({"configuration": {"developerConfiguration": {"featureGates": gates}}});
            let folders = json!({"kubevirt.io/host-disk-folders": folders});
            let object = json!({"metadata": {"annotations": folders}, "spec": gates});
            Permitted::By(Arc::new(Settings::of_cluster(&object)))
        };
        let by = |gates: &[&str]| permitting(gates, "/srv");
        let elsewhere = permitting(&["HostDisk"], "/var/lib/disks").machine(&vmi).unwrap_err();
        assert_eq!(elsewhere.kind(), ErrorKind::Refused);
        assert!(elsewhere.to_string().contains("/srv/n/a.img is not in a folder"), "{elsewhere}");
        let mut other = vmi.clone();
        other.metadata.namespace = Some("other".to_owned());
        let others = by(&["HostDisk"]).machine(&other).unwrap_err();
        assert!(others.to_string().contains("to the namespace other (/srv/other)"), "{others}");
        let shut = by(&[]).machine(&vmi).unwrap_err();
        assert_eq!(shut.kind(), ErrorKind::Refused);
        assert!(shut.to_string().contains("HostDisk feature gate is not enabled"), "{shut}");
        assert!(by(&["HostDisk"]).machine(&vmi).is_ok());
        let nothing = Permitted::Nothing("kubevirt".into()).machine(&vmi).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::Failed, "one may come");
        assert!(nothing.to_string().contains("no KubeVirt object in the namespace kubevirt"), "{nothing}");
        assert!(Permitted::default().is_not_known() && Permitted::default().machine(&vmi).is_err());
    }
}
