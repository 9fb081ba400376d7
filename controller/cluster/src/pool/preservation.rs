//! The disks of a VM that its pool deletes and whose disks it keeps (`statePreservation: Offline`).
//!
//! ```text
//!  VM ◄─owner─ DataVolume ◄─owner─ PVC            the VM is taken out of the owners, and only then deleted: the garbage collector
//!     ◄─owner─ PVC of EFI variables and TPM       leaves all of it. A VM that gets the number later finds both by their names.
//! ```
//!
//! **Guarantees.** First every disk of a VM is free, then the VM is deleted: where one cannot be written, the VM stays. The VM that comes
//! later is another object, and is made only when the old one is gone, guest and all: two guests never write to one disk.
//! **Caveats.** What is kept has no owner any more, and is never given one: people delete it. A plan that breaks off between both leaves a
//! VM whose disks stay when it is deleted. A DataVolume that failed has nothing to keep, and goes.

use api::datavolume::{DataVolume, Phase};
use api::meta::OwnerReference;
use api::vm::VirtualMachine;
use api::wire::Wire;
use kubernetes::objects::{Kind, Mark, World};
use kubernetes::plan::Plan;
use kubernetes::state::STATE_FOR;
use serde_json::{Value, json};

/// As many disks of a VM as are freed in one round: whoever may write DataVolumes may write any owner.
pub(super) const MOST: usize = 32;

/// Takes a VM out of the owners of its disks. Whether these are all.
pub(super) fn keep(world: &World, vm: &VirtualMachine, plan: &mut Plan) -> bool {
    let Some(uid) = vm.metadata.uid.as_deref() else { return true };
    let mut freed = 0;
    let namespace = vm.metadata.namespace.as_deref().unwrap_or_default();
    // An owner is what somebody wrote: one of another namespace is none.
    for key in world.marked(&Mark::Owner(uid.to_owned())).filter(|key| key.namespace == namespace) {
        let meta = match key.kind {
            Kind::DataVolume => {
                let volume = world.data_volumes.get(namespace, &key.name);
                volume.filter(|volume| !has_failed(volume)).map(|volume| &volume.metadata)
            }
            Kind::PersistentVolumeClaim if is_state(&key.name) => {
                world.pvcs.get(namespace, &key.name).map(|claim| &claim.meta)
            }
            _ => None,
        };
        if let Some(meta) = meta.filter(|meta| meta.deletion_timestamp.is_none()) {
            if freed == MOST {
                return false;
            }
            freed += 1;
            let kept = meta.owner_references.iter().filter(|owner| owner.uid != uid);
            plan.update(key.kind, meta, &owned_by(meta.owner_references.iter()), &owned_by(kept), false);
        }
    }
    true
}

fn has_failed(volume: &DataVolume) -> bool {
    let phase = volume.status.as_ref().and_then(|status| status.phase.as_ref());
    matches!(phase, Some(Phase::Failed))
}

/// A PVC of EFI variables and the TPM, by its name.
fn is_state(name: &str) -> bool {
    name.strip_prefix(STATE_FOR).is_some_and(|rest| rest.starts_with('-'))
}

fn owned_by<'a>(owners: impl Iterator<Item = &'a OwnerReference>) -> Value {
    json!({"metadata": {"ownerReferences": owners.map(Wire::write).collect::<Vec<_>>()}})
}
