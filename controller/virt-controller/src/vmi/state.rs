//! The PVC in which EFI variables and the TPM of a VM outlive its VMIs.
//!
//! ```text
//!  efi.persistent, tpm.persistent ─► by label, or by upstream's older name ─► there: used
//!                                                                            └► not: made, of 10Mi, with a file system
//!  class   vmStateStorageClass ─► the default one for disks of VMs ─► the default one ─► none: the VMI waits, and says so
//!  access  ReadWriteMany, where the StorageProfile of the class has it with a file system; else ReadWriteOnce
//! ```
//!
//! **Guarantees.** The name follows from the uid of the VM, so no controller makes a second one. It is the VM's, and goes
//! with it; that of a VMI without a VM goes with the VMI. A PVC that another VM looks after (one of the same name that is
//! gone, while the garbage collector has not come yet) is not used: it would go while the guest writes to it.
//!
//! **Live migration.** Variables and TPM go with the guest's memory into a new PVC (`migration::copied_claims`), which has the same label.
//! The old one keeps `moved-to`, and is not used any more. While no program knows where the guest is (`moving-to`), the VMI waits.

use super::outcome::Outcome;
use super::waiting::wait;
use super::{PATIENCE, VmiReconcile};
use crate::storage_profile;
use api::machine::Machine;
use api::meta::ObjectMeta;
use api::vmi::VirtualMachineInstance;
use cluster_model::claim_moves::{MOVED_TO, MOVING_TO};
use cluster_model::config::Config;
use cluster_model::objects::{IndexKey, Key, Kind, PersistentVolumeClaim, World, names, owner};
use cluster_model::plan::Step;
use cluster_model::state::{SIZE, STATE_FOR};
use serde_json::{Value, json};

/// Name of the PVC of the VMI's state, if it has one, and the step that creates it; an outcome if the VMI
/// waits for it.
pub(super) fn state(
    input: &VmiReconcile<'_>,
    machine: &Machine,
    config: &Config,
) -> Result<(Option<String>, Option<Step>), Outcome> {
    if !machine.keeps_state() {
        return Ok((None, None));
    }
    let (name, step) = find_or_create(input.world, input.vmi, machine, config).map_err(|message| {
        // The end of a PVC that another VM owns does not touch this key.
        let again = input.now.checked_add(PATIENCE).unwrap_or(input.now);
        wait(input, "FailedBackendStorageCreate", &message).retry_at(again)
    })?;
    Ok((Some(name), step))
}

/// Name of the PVC of a VMI that is to run, and the step that creates it if it is missing; or the reason why
/// there can be none.
fn find_or_create(
    world: &World,
    vmi: &VirtualMachineInstance,
    machine: &Machine,
    config: &Config,
) -> Result<(String, Option<Step>), String> {
    let (name, owner) = (machine.name.as_str(), looks_after(&vmi.metadata));
    let uid = owner["uid"].as_str().unwrap_or_default();
    let claims = StateClaims::of(world, &machine.namespace, name, uid);
    if let Some(message) = claims.lost(&machine.namespace) {
        return Err(message);
    }
    let Some(claim) = claims.current() else {
        let own = claims.own;
        if let Some(taken) = world.pvcs.get(&machine.namespace, &own) {
            return Err(of_another(taken));
        }
        let key = Key::new(Kind::PersistentVolumeClaim, machine.namespace.clone(), own.clone());
        let object = object(world, &key, name, &owner, config);
        let object = object.map_err(|why| format!("Failed to create backend storage: {why}"))?;
        return Ok((own, Some(Step::Create { key, object })));
    };
    let found = claim.meta.name.clone().unwrap_or_default();
    let shown = format!("PVC {}/{found}", machine.namespace);
    if claim.meta.deletion_timestamp.is_some() {
        return Err(format!("{shown}, which keeps EFI variables and TPM of the VM, is being deleted"));
    }
    if claim.is_block() {
        return Err(format!(
            "{shown} is a block device, and EFI variables and TPM of the VM need a file system: delete the PVC, and \
             another is created"
        ));
    }
    Ok((found, None))
}

/// The message about a PVC of our name that another VM owns.
fn of_another(claim: &PersistentVolumeClaim) -> String {
    let [namespace, name] =
        [&claim.meta.namespace, &claim.meta.name].map(|said| said.as_deref().unwrap_or_default());
    let owner = owner::controller(&claim.meta);
    let whose = owner
        .map(|owner| format!("{} {} with uid {}", owner.kind, owner.name, owner.uid))
        .unwrap_or_default();
    format!(
        "PVC {namespace}/{name}, which would keep EFI variables and TPM of the VM, belongs to {whose}: delete the \
         PVC, and another is created"
    )
}

/// True for a VMI whose EFI variables or TPM are kept.
pub(crate) fn keeps_state(vmi: &VirtualMachineInstance) -> bool {
    let domain = &vmi.spec.domain;
    let tpm = domain.devices.tpm.as_ref().filter(|tpm| tpm.enabled != Some(false));
    let loader = domain.firmware.as_ref().and_then(|firmware| firmware.bootloader.as_ref());
    let efi = loader.and_then(|loader| loader.efi.as_ref());
    tpm.is_some_and(|tpm| tpm.persistent == Some(true)) || efi.is_some_and(|efi| efi.persistent == Some(true))
}

/// The PVC of a VMI's state, where there is one.
pub(super) fn find<'a>(world: &'a World, vmi: &VirtualMachineInstance) -> Option<&'a PersistentVolumeClaim> {
    if !keeps_state(vmi) {
        return None;
    }
    let meta = &vmi.metadata;
    let (namespace, name) = (meta.namespace.as_deref()?, meta.name.as_deref()?);
    let owner = looks_after(meta);
    StateClaims::of(world, namespace, name, owner["uid"].as_str()?).current()
}

/// PVCs that may keep the state of a VM.
struct StateClaims<'a> {
    /// Name that follows from the uid of the VM.
    own: String,
    /// True if another VM owns the PVC of that name.
    is_taken: bool,
    /// Candidates, in the order of preference: the PVC of that name, PVCs with upstream's label, and the PVC with the name that upstream
    /// once used. PVCs that a live migration may still give up are left out.
    all: Vec<&'a PersistentVolumeClaim>,
}

impl<'a> StateClaims<'a> {
    fn of(world: &'a World, namespace: &str, name: &str, uid: &str) -> StateClaims<'a> {
        let mark = IndexKey::StateOf(namespace.to_owned(), names::label(name));
        let mut labelled: Vec<_> =
            world.indexed_by(&mark).filter_map(|key| world.pvcs.get(&key.namespace, &key.name)).collect();
        labelled.sort_by(|one, other| one.meta.name.cmp(&other.meta.name));
        let own = names::state(name, uid);
        let (first, older) =
            (world.pvcs.get(namespace, &own), world.pvcs.get(namespace, &format!("{STATE_FOR}-{name}")));
        let is_ours = |claim: &PersistentVolumeClaim| {
            owner::controller(&claim.meta).is_none_or(|owner| owner.uid == uid)
        };
        let is_taken = first.is_some_and(|claim| !is_ours(claim));
        let all = first.into_iter().chain(labelled).chain(older);
        let all = all.filter(|claim| is_ours(claim) && claim.moved_by().is_none()).collect();
        StateClaims { own, is_taken, all }
    }

    /// The PVC that the VM keeps its state in. One of our own name counts while it is being deleted, too.
    fn current(&self) -> Option<&'a PersistentVolumeClaim> {
        let is_current = |claim: &&PersistentVolumeClaim| {
            let is_going =
                claim.meta.deletion_timestamp.is_some() && claim.meta.name.as_ref() != Some(&self.own);
            claim.moved_to().is_none() && !is_going && !self.is_left(claim)
        };
        if self.is_taken { None } else { self.all.iter().copied().find(is_current) }
    }

    /// True for the target of a migration that did not end with the guest there: the PVC that it was copied from is there, too.
    fn is_left(&self, claim: &PersistentVolumeClaim) -> bool {
        let is_source = |source: &&&PersistentVolumeClaim| source.meta.name.as_deref() == claim.moved_from();
        let source = self.all.iter().find(is_source);
        source.is_some_and(|source| source.moved_to() != claim.meta.name.as_deref())
    }

    /// Message about a state whose PVC is not known, or is gone.
    fn lost(&self, namespace: &str) -> Option<String> {
        let name = |claim: &'a PersistentVolumeClaim| claim.meta.name.as_deref().unwrap_or_default();
        let all = || self.all.iter().copied();
        if let Some((old, new)) = all().find_map(|claim| Some((name(claim), claim.moving_to()?))) {
            return Some(format!(
                "a live migration moves EFI variables and TPM of the VM from PVC {namespace}/{old} to PVC {new}, or has ended without a \
                 result: once no launcher pod uses either, run 'kubectl annotate pvc -n {namespace} {old} {MOVING_TO}-', and before that, if \
                 the guest has run on PVC {new}, 'kubectl annotate pvc -n {namespace} {old} {MOVED_TO}={new}'"
            ));
        }
        let (old, new) = all().find_map(|claim| Some((name(claim), claim.moved_to()?)))?;
        self.current().is_none().then(|| {
            format!(
                "EFI variables and TPM of the VM are on PVC {new} since a live migration, and it is gone, or has neither the label \
                 {STATE_FOR} nor the VM as its owner: to go back to those of PVC {namespace}/{old}, remove its annotation {MOVED_TO}"
            )
        })
    }
}

/// The owner of the PVC: the VM, or a VMI without one.
fn looks_after(vmi: &ObjectMeta) -> Value {
    match owner::controller(vmi).filter(|owner| owner.kind == Kind::VirtualMachine.name()) {
        Some(vm) => json!({
            "apiVersion": vm.api_version,
            "kind": vm.kind,
            "name": vm.name,
            "uid": vm.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }),
        None => owner::reference(Kind::VirtualMachineInstance, vmi),
    }
}

fn object(world: &World, key: &Key, name: &str, owner: &Value, config: &Config) -> Result<Value, String> {
    let said = config.state_storage_class.as_deref();
    let class = world.storage_class(said, true).ok_or_else(|| match said {
        Some(class) => format!(
            "StorageClass {class}, which vmStateStorageClass of the KubeVirt object names, does not exist; create \
             it, or name another"
        ),
        None => "no default storage class found; set vmStateStorageClass of the KubeVirt object, or make a StorageClass \
                 the default one"
            .to_owned(),
    })?;
    let sets = storage_profile::claim_property_sets(world, class);
    let has = |mode: &str| {
        let mut of_files = sets.iter().filter(|set| set.volume_mode == "Filesystem");
        of_files.any(|set| set.access_modes.iter().any(|one| one == mode))
    };
    let mode = match (has("ReadWriteMany"), has("ReadWriteOnce")) {
        (true, _) => "ReadWriteMany",
        (false, true) => "ReadWriteOnce",
        // As upstream: a StorageClass in the settings is taken as a choice for VMs that move.
        (false, false) if said.is_some() => "ReadWriteMany",
        (false, false) => "ReadWriteOnce",
    };
    Ok(json!({
        "apiVersion": Kind::PersistentVolumeClaim.api_version(),
        "kind": Kind::PersistentVolumeClaim.name(),
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {STATE_FOR: names::label(name)},
            "ownerReferences": [owner],
        },
        "spec": {
            "accessModes": [mode],
            "volumeMode": "Filesystem",
            "storageClassName": class.meta.name,
            "resources": {"requests": {"storage": SIZE}},
        },
    }))
}

#[cfg(test)]
mod tests {
    use crate::sim::{Sim, vmi};
    use cluster_model::objects::{Attempt, Failure, Key, Kind};
    use serde_json::{Value, json};

    fn kept(name: &str) -> Value {
        let mut object = vmi(name);
        object["spec"]["domain"]["devices"]["tpm"] = json!({"persistent": true});
        object
    }

    fn class(sim: &mut Sim, name: &str, annotation: &str) {
        let meta = json!({"name": name, "annotations": {annotation: "true"}});
        sim.put(Kind::StorageClass, json!({"metadata": meta, "provisioner": "p"}));
    }

    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

    /// The PVC that the pod of a VMI mounts for its state.
    fn mounted(sim: &Sim, key: &Key) -> Key {
        let pod = sim.get(&sim.pod_of(key).expect("a pod"));
        let volumes = pod["spec"]["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|volume| volume["name"] == "vm-state").expect("vm-state");
        let name = volume["persistentVolumeClaim"]["claimName"].as_str().unwrap();
        let mounts = pod["spec"]["containers"][0]["volumeMounts"].as_array().unwrap();
        let mount = mounts.iter().find(|mount| mount["name"] == "vm-state").expect("a mount");
        assert_eq!(mount["mountPath"], cluster_model::state::MOUNT);
        Key::new(Kind::PersistentVolumeClaim, "n", name)
    }

    #[test]
    fn the_state_of_a_vmi_gets_a_pvc_that_is_its_own() {
        let mut sim = Sim::new();
        class(&mut sim, "fast", DEFAULT);
        let key = sim.put(Kind::VirtualMachineInstance, kept("web"));
        sim.settle();
        let claim = mounted(&sim, &key);
        assert!(claim.name.starts_with("persistent-state-for-web-"), "{}", claim.name);
        let object = sim.get(&claim);
        assert_eq!(object["metadata"]["labels"]["persistent-state-for"], "web");
        assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], sim.get(&key)["metadata"]["uid"]);
        assert_eq!(
            object["spec"],
            json!({
                "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem", "storageClassName": "fast",
                "resources": {"requests": {"storage": "10Mi"}},
            })
        );
        let told = &sim.get(&key)["status"]["volumeStatus"][0];
        assert_eq!(
            (&told["name"], &told["persistentVolumeClaimInfo"]["claimName"]),
            (&json!(claim.name), &json!(claim.name))
        );
        let alone = sim.put(Kind::VirtualMachineInstance, vmi("plain"));
        sim.settle();
        let pod = sim.get(&sim.pod_of(&alone).unwrap()).to_string();
        assert!(!pod.contains("vm-state"), "{pod}");
    }

    #[test]
    fn the_state_of_a_vm_is_the_vms_and_its_next_vmi_has_the_same() {
        let mut sim = Sim::new();
        class(&mut sim, "fast", DEFAULT);
        let vm = json!({"metadata": {"namespace": "n", "name": "web"}, "spec": {"runStrategy": "Manual", "template": {"spec": {"domain": {"devices": {}}}}}});
        let vm = sim.put(Kind::VirtualMachine, vm);
        let uid = sim.get(&vm)["metadata"]["uid"].clone();
        let mut object = kept("web");
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web", "uid": uid, "controller": true, "blockOwnerDeletion": true}]);
        let key = sim.put(Kind::VirtualMachineInstance, object);
        sim.settle();
        let claim = mounted(&sim, &key);
        let owners = &sim.get(&claim)["metadata"]["ownerReferences"];
        assert_eq!((&owners[0]["kind"], &owners[0]["uid"]), (&json!("VirtualMachine"), &uid));
        assert_eq!(claim.name, cluster_model::objects::names::state("web", uid.as_str().unwrap()));
    }

    #[test]
    fn a_pvc_that_upstream_made_is_used_and_that_of_another_vm_is_not() {
        for (name, owner, used) in [
            ("persistent-state-for-web-x7k2p", None, true),
            ("persistent-state-for-web-x7k2p", Some("another"), false),
        ] {
            let mut sim = Sim::new();
            class(&mut sim, "fast", DEFAULT);
            let owners = owner.map(|uid| {
                json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "web", "uid": uid, "controller": true}])
            });
            let meta = json!({"namespace": "n", "name": name, "labels": {"persistent-state-for": "web"},
                              "ownerReferences": owners.unwrap_or(json!([]))});
            sim.put(
                Kind::PersistentVolumeClaim,
                json!({"metadata": meta, "spec": {"volumeMode": "Filesystem"}}),
            );
            let key = sim.put(Kind::VirtualMachineInstance, kept("web"));
            sim.settle();
            assert_eq!(mounted(&sim, &key).name == name, used, "{owner:?}");
        }
    }

    #[test]
    fn a_pvc_of_our_own_name_that_another_looks_after_is_not_used_and_it_is_said_whose_it_is() {
        for (owner, used) in [("another", false), ("its own", true)] {
            let mut sim = Sim::new();
            class(&mut sim, "fast", DEFAULT);
            let key = sim.put(Kind::VirtualMachineInstance, kept("web"));
            let uid = sim.uid(&key);
            let owner = if used { uid.as_str() } else { owner };
            let owners = json!([{"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": "db", "uid": owner, "controller": true}]);
            let name = cluster_model::objects::names::state("web", &uid);
            let meta = json!({"namespace": "n", "name": name, "ownerReferences": owners});
            sim.put(
                Kind::PersistentVolumeClaim,
                json!({"metadata": meta, "spec": {"volumeMode": "Filesystem"}}),
            );
            sim.settle();
            if used {
                assert_eq!(mounted(&sim, &key).name, name);
                continue;
            }
            assert_eq!(sim.pod_of(&key), None);
            let (_, reason, message) = sim.condition(&key, "Synchronized").unwrap();
            assert_eq!(reason, "FailedBackendStorageCreate");
            assert!(message.contains(&name), "{message}");
            assert!(message.contains("belongs to VirtualMachine db with uid another"), "{message}");
        }
    }

    #[test]
    fn without_a_class_a_vmi_waits_and_says_why() {
        let mut sim = Sim::new();
        let key = sim.put(Kind::VirtualMachineInstance, kept("web"));
        sim.settle();
        assert_eq!(sim.pod_of(&key), None);
        let (_, reason, message) = sim.condition(&key, "Synchronized").unwrap();
        assert_eq!(reason, "FailedBackendStorageCreate");
        assert!(message.contains("no default storage class found"), "{message}");
        class(&mut sim, "fast", "storageclass.kubevirt.io/is-default-virt-class");
        sim.settle();
        assert!(sim.pod_of(&key).is_some());
        assert_eq!(sim.condition(&key, "Synchronized"), None);
    }

    #[test]
    fn the_class_of_the_settings_is_taken_and_with_it_what_it_can_do() {
        let mut sim = Sim::new();
        let object = json!({
            "metadata": {"namespace": "kubevirt", "name": "kubevirt", "resourceVersion": "99"},
            "spec": {"configuration": {"vmStateStorageClass": "shared"}},
        });
        sim.world.put(Kind::KubeVirt, object, sim.now);
        class(&mut sim, "fast", DEFAULT);
        let key = sim.put(Kind::VirtualMachineInstance, kept("web"));
        sim.settle();
        let (_, _, message) = sim.condition(&key, "Synchronized").unwrap();
        assert!(message.contains("StorageClass shared, which vmStateStorageClass"), "{message}");
        class(&mut sim, "shared", "other");
        let sets = json!([{"accessModes": ["ReadWriteOnce", "ReadWriteMany"], "volumeMode": "Filesystem"}]);
        let profile = json!({"metadata": {"name": "shared"}, "spec": {"claimPropertySets": sets}});
        sim.put(Kind::StorageProfile, profile);
        sim.settle();
        let spec = &sim.get(&mounted(&sim, &key))["spec"];
        assert_eq!(
            (&spec["storageClassName"], &spec["accessModes"]),
            (&json!("shared"), &json!(["ReadWriteMany"]))
        );
    }

    #[test]
    fn a_pvc_that_is_refused_is_said() {
        let mut sim = Sim::new();
        class(&mut sim, "fast", DEFAULT);
        let key = sim.put(Kind::VirtualMachineInstance, kept("web"));
        let retry = sim.now + jiff::SignedDuration::from_secs(60);
        let message = "exceeded quota: small".to_owned();
        let about = Attempt::Make(Kind::PersistentVolumeClaim);
        sim.world.failures.insert(key.clone(), Failure { about, message: message.clone(), times: 1, retry });
        sim.settle();
        assert_eq!(sim.pod_of(&key), None);
        let (_, reason, said) = sim.condition(&key, "Synchronized").unwrap();
        assert_eq!((reason.as_str(), said), ("FailedBackendStorageCreate", message));
    }
}
