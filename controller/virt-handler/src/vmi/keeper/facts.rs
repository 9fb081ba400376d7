//! Facts of the cluster about one attempt at a VMI: the VMI, its pod, the settings. Pure.

use super::KeeperInput;
use super::migration::Role;
use super::state::Links;
use crate::error::Result;
use crate::network;
use crate::pod::{Layout, Pod, PodFolder, Pods};
use crate::vmi::apply;
use crate::vmi::decide::HandOverFailure;
use crate::vmi::permitted::Permitted;
use api::launcher;
use api::machine::Machine;
use api::vmi::{InterfaceStatus, Phase, VirtualMachineInstance};
use api::wire::Wire;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Facts about one attempt at a VMI.
#[derive(Debug)]
pub(super) struct Facts {
    /// Object that `vmi` was read from.
    pub(super) object: Arc<Value>,
    pub(super) vmi: VirtualMachineInstance,
    pub(super) permitted: Permitted,
    /// Part of this node.
    pub(super) role: Role,
    /// Newest object of the pod: container IDs are known later than the pod.
    pub(super) pod: Arc<Pod>,
    /// Folder of the pod, or the reason why the pod has none that can be used.
    pub(super) place: Result<Arc<PodFolder>, HandOverFailure>,
}

impl Facts {
    /// Facts from the first input; an error if the VMI cannot be read.
    pub(super) fn new(pods: &Pods, input: KeeperInput, pod: Arc<Pod>) -> Result<Facts> {
        let vmi = seen_by(input.role, apply::read((*input.object).clone())?);
        let place = match Layout::parse(&pod) {
            Ok(layout) => Ok(Arc::new(PodFolder::new(pods, layout))),
            Err(e) => Err(HandOverFailure { message: e.chain(), hopeless: false }),
        };
        let KeeperInput { object, permitted, role, .. } = input;
        Ok(Facts { object, vmi, permitted, role, pod, place })
    }

    /// Takes a newer input. Returns true if the settings changed.
    pub(super) fn update(&mut self, input: KeeperInput) -> bool {
        if is_newer(&input.object, &self.object) {
            match apply::read((*input.object).clone()) {
                Ok(vmi) => (self.object, self.vmi) = (input.object, seen_by(input.role, vmi)),
                Err(e) => tracing::error!("{}", e.chain()),
            }
        }
        // A launcher may run longer than the object of its pod. Another pod is another attempt.
        if let Some(pod) = input.pod
            && pod.metadata.uid == self.pod.metadata.uid
        {
            self.pod = pod;
        }
        self.role = input.role;
        let is_other = self.permitted != input.permitted;
        self.permitted = input.permitted;
        is_other
    }

    /// Takes the VMI as the API server answered.
    pub(super) fn set(&mut self, object: Value, vmi: VirtualMachineInstance) {
        (self.object, self.vmi) = (Arc::new(object), seen_by(self.role, vmi));
    }

    /// The VMI for the launcher.
    pub(super) fn object_of_launcher(&self) -> Value {
        let mut object = (*self.object).clone();
        if self.role == Role::Target
            && let Some(volumes) = object.pointer_mut("/spec/volumes")
        {
            let migrated = self.vmi.status.iter().flat_map(|status| &status.migrated_volumes);
            for volume in migrated {
                let own = self.vmi.spec.volumes.iter().find(|own| own.name == volume.volume_name);
                let there = volumes.as_array_mut().into_iter().flatten();
                let there = there.filter(|there| there["name"] == volume.volume_name.as_str());
                there.zip(own).for_each(|(there, own)| *there = own.write());
            }
        }
        object
    }

    /// Namespace and name of the VMI.
    pub(super) fn name(&self) -> String {
        let meta = &self.vmi.metadata;
        let said = |text: &Option<String>| text.clone().unwrap_or_default();
        format!("{}/{}", said(&meta.namespace), said(&meta.name))
    }

    /// True if the VMI has ended.
    pub(super) fn is_final(&self) -> bool {
        is_final(&self.object)
    }

    /// True if the VMI runs on this node, according to its status.
    pub(super) fn is_running(&self) -> bool {
        self.role == Role::Guest
            && self.vmi.status.as_ref().is_some_and(|status| status.phase == Some(Phase::Running))
    }

    /// True if the guest runs on emulated processors.
    pub(super) fn is_emulated(&self) -> bool {
        self.place.as_ref().is_ok_and(|place| !place.layout().kvm)
    }

    /// Checked description of a VMI that was handed over. Faults are reported at the hand-over.
    pub(super) fn machine(&self) -> Option<Machine> {
        Machine::check_again(&self.vmi).ok()
    }

    /// Interfaces of the spec, as this node made them and as the launcher reports them.
    pub(super) fn interfaces(
        &self,
        links: &Links,
        launcher: Option<&launcher::State>,
    ) -> Vec<InterfaceStatus> {
        if self.vmi.spec.domain.devices.interfaces.is_empty() {
            return Vec::new();
        }
        let ips: Vec<String> = self.pod.status.pod_ips.iter().map(|ip| ip.ip.clone()).collect();
        let mut all =
            self.machine().map(|machine| network::status(&machine, links, &ips)).unwrap_or_default();
        // The launcher's report counts, not the wanted state.
        if let Some(launcher) = launcher {
            for one in &mut all {
                if let Some(up) = one.name.as_ref().and_then(|name| launcher.links.get(name)) {
                    one.link_state = Some(if *up { "up" } else { "down" }.into());
                }
            }
        }
        all
    }

    /// MAC addresses of the interfaces of the spec.
    pub(super) fn macs(&self, links: &Links, launcher: Option<&launcher::State>) -> BTreeSet<String> {
        let known = self.vmi.status.iter().flat_map(|status| &status.interfaces);
        let known = known.filter(|one| one.name.is_some()).cloned();
        let all = self.interfaces(links, launcher).into_iter().chain(known);
        all.filter_map(|one| Some(one.mac?.to_ascii_lowercase())).collect()
    }
}

/// The VMI as a node with this part of its life has it: the target of a migration has the new PVCs of copied disks.
fn seen_by(role: Role, mut vmi: VirtualMachineInstance) -> VirtualMachineInstance {
    if role == Role::Target {
        vmi.replace_migrated_claims();
    }
    vmi
}

/// True if `this` has a higher version, or if the versions are not numbers.
fn is_newer(this: &Value, than: &Value) -> bool {
    let version = |object: &Value| -> Option<u128> {
        object.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()
    };
    match (version(this), version(than)) {
        (Some(this), Some(than)) => this > than,
        _ => true,
    }
}

/// True if the VMI has ended.
pub(crate) fn is_final(object: &Value) -> bool {
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    phase.is_some_and(|phase| Phase::from(phase).is_final())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vmi::keeper::tests::{pod, vmi};
    use serde_json::json;

    #[test]
    fn the_target_of_a_migration_has_the_new_pvcs_and_its_launcher_too() {
        let mut object = vmi();
        object["spec"]["volumes"] = json!([{"name": "data", "dataVolume": {"name": "old"}}]);
        object["spec"]["domain"]["devices"]["disks"] = json!([{"name": "data", "disk": {}}]);
        let info = |name: &str| json!({"claimName": name});
        object["status"]["migratedVolumes"] =
            json!([{"volumeName": "data", "sourcePVCInfo": info("old"), "destinationPVCInfo": info("new")}]);
        object["status"]["volumeStatus"] =
            json!([{"name": "data", "target": "", "persistentVolumeClaimInfo": info("old")}]);
        let object = Arc::new(object);
        for (role, expected) in [
            (Role::Guest, json!([{"name": "data", "dataVolume": {"name": "old"}}])),
            (Role::Target, json!([{"name": "data", "persistentVolumeClaim": {"claimName": "new"}}])),
        ] {
            let input =
                KeeperInput { object: object.clone(), pod: None, permitted: Permitted::NotKnown, role };
            let mut facts = Facts::new(&Pods::played("/none"), input, pod()).unwrap();
            assert_eq!(facts.object_of_launcher()["spec"]["volumes"], expected);
            let known = |facts: &Facts| facts.vmi.status.as_ref().unwrap().volume_status[0].clone();
            let claim = known(&facts).persistent_volume_claim_info.unwrap().claim_name.unwrap();
            assert_eq!(claim, if role == Role::Target { "new" } else { "old" });
            facts.set((*object).clone(), apply::read((*object).clone()).unwrap());
            assert_eq!(facts.object_of_launcher()["spec"]["volumes"], expected, "after a write");
        }
    }

    #[test]
    fn an_older_object_and_the_pod_of_another_attempt_are_not_taken() {
        let object = |version: &str| {
            let mut object = vmi();
            object["metadata"]["resourceVersion"] = json!(version);
            Arc::new(object)
        };
        let input = |version: &str, pod: Option<Arc<Pod>>, permitted: Permitted| KeeperInput {
            object: object(version),
            pod,
            permitted,
            role: Role::Guest,
        };
        let nothing = || Permitted::Nothing("kubevirt".into());
        let of_pod = |uid: &str, name: &str| {
            let mut pod = (*pod()).clone();
            (pod.metadata.uid, pod.metadata.name) = (uid.into(), name.into());
            Some(Arc::new(pod))
        };
        let first = input("10", None, nothing());
        let mut facts = Facts::new(&Pods::played("/none"), first, pod()).unwrap();
        let known = |facts: &Facts| {
            let version = facts.vmi.metadata.resource_version.clone().unwrap();
            (version, facts.pod.metadata.uid.clone(), facts.pod.metadata.name.clone())
        };
        let tuple = |version: &str, name: &str| (version.to_owned(), "pod-uid".to_owned(), name.to_owned());
        assert!(!facts.update(input("9", of_pod("another", "b"), nothing())));
        assert_eq!(known(&facts), tuple("10", "virt-launcher-a"));
        assert!(facts.update(input("11", of_pod("pod-uid", "c"), Permitted::NotKnown)), "other settings");
        assert_eq!(known(&facts), tuple("11", "c"));
        assert!(!facts.update(input("12", None, Permitted::NotKnown)));
        assert_eq!(known(&facts), tuple("12", "c"), "the pod that is gone stays known");
    }
}
