//! KubeVirt: the settings of the installation. There is one object; it is stored whole. One in another namespace has no effect, and its
//! conditions say so.

use super::secret::certificates;
use super::storage_profile;
use crate::objects::about::kept;
use crate::objects::{About, IndexKey, Key, Kind, Plain, Selector, StoredObject as _, Use, World, key};
use api::kubevirt::ReferencePolicy;

/// The name of the object.
pub const NAME: &str = "kubevirt";

pub(crate) const ABOUT: About = About {
    kept: kept!(kubevirts),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[(None, &["create", "get", "patch"]), (Some("status"), &["patch"])],
        ..Use::NONE
    },
    api: Use { follows: &[Selector::ALL], ..Use::NONE },
    // virt-handler checks the permissions itself, even if a webhook has checked them before.
    handler: Use { follows: &[Selector::HOME], ..Use::NONE },
    // TLS settings.
    proxy: Use { follows: &[Selector::HOME], ..Use::NONE },
    put: |world, _, _| world.read_settings(),
    removed: |world, _| world.read_settings(),
    // Settings apply to VMIs started from now on. StorageProfiles are written as long as there is a KubeVirt
    // object.
    touches: |world, key| {
        let waiting =
            world.indexed_by(&IndexKey::Waiting).filter(|key| key.kind == Kind::VirtualMachineInstance);
        // Whether an object has an effect depends on the others.
        let first = [key.clone(), certificates(world)].into_iter().chain(all(world));
        let more = super::cdi::all(world).into_iter().chain(storage_profile::all(world));
        let more = more.chain(super::workload::all(world));
        first.chain(waiting.cloned()).chain(more).chain(expanded(world)).collect()
    },
    // A missing KubeVirt object is created.
    listed: |world| vec![Key::new(Kind::KubeVirt, world.facts.namespace.clone(), NAME)],
    ..About::new("kubevirt.io/v1", "KubeVirt", "kubevirts")
};

/// The VMs that reference an instance type or preference, if the policy is to replace references by their
/// values.
fn expanded(world: &World) -> Vec<Key> {
    let policy =
        |object: &Plain| object.object["spec"]["configuration"]["instancetype"]["referencePolicy"].clone();
    if !own(world).any(|object| policy(object) == ReferencePolicy::ExpandAll.as_str()) {
        return Vec::new();
    }
    let named = world.vms.all().filter(|vm| vm.spec.instancetype.is_some() || vm.spec.preference.is_some());
    named.map(|vm| key(Kind::VirtualMachine, &vm.metadata)).collect()
}

/// The KubeVirt objects in the namespace of the installation. The first one is its own.
fn own(world: &World) -> impl Iterator<Item = &Plain> {
    world.kubevirts.in_namespace(&world.facts.namespace)
}

/// The keys of all KubeVirt objects, and of the one to create.
pub(super) fn all(world: &World) -> Vec<Key> {
    let all = world.kubevirts.all().map(|object| key(Kind::KubeVirt, object.meta()));
    let missing = if own(world).next().is_none() { (ABOUT.listed)(world) } else { Vec::new() };
    all.chain(missing).collect()
}

/// Decisions that depend on the remaining VMs, VMIs and replica sets while the installation is removed: the
/// webhooks are deleted after the last one, and the rest after that.
pub(super) fn removed_with(world: &World) -> Vec<Key> {
    let is_going = |object: &&Plain| object.meta().deletion_timestamp.is_some();
    let stays = own(world).any(|object| !is_going(&object));
    let webhooks = (!stays).then(|| certificates(world));
    let going = own(world).filter(is_going).map(|object| key(Kind::KubeVirt, object.meta()));
    webhooks.into_iter().chain(going).collect()
}
