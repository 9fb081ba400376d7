//! VirtualMachinePool: stored whole, since there are few.

use super::kubevirt::removed_with;
use crate::objects::about::kept;
use crate::objects::store::StoredObject as _;
use crate::objects::{About, Key, Kind, Selector, Use, World, key, owner};
use api::pool::API_VERSION;

pub(crate) const ABOUT: About = About {
    kept: kept!(pools),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["delete"]), (Some("status"), &["patch"]), (Some("finalizers"), &["update"])],
        ..Use::NONE
    },
    // Checks that none is left before the installation is deleted.
    api: Use { verbs: &[(None, &["list"])], ..Use::NONE },
    touches: |world, key| [key.clone()].into_iter().chain(removed_with(world)).collect(),
    ..About::new(API_VERSION, "VirtualMachinePool", "virtualmachinepools")
};

/// The pool that owns a VM. If the VM is gone or has no owner, any pool of its namespace may miss it.
pub(super) fn of_vm(world: &World, vm: &Key) -> Vec<Key> {
    let owner = world.vms.get(&vm.namespace, &vm.name).and_then(|vm| owner::controller(&vm.metadata));
    match owner {
        Some(owner) if owner.kind == Kind::VirtualMachinePool.name() => {
            vec![Key::new(Kind::VirtualMachinePool, &*vm.namespace, &*owner.name)]
        }
        Some(_) => Vec::new(),
        None => world
            .pools
            .in_namespace(&vm.namespace)
            .map(|pool| key(Kind::VirtualMachinePool, pool.meta()))
            .collect(),
    }
}
