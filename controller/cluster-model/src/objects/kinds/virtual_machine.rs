//! VirtualMachine (VM): the persistent definition of a guest.

use super::data_volume;
use super::kubevirt::removed_with;
use super::virtual_machine_instance::{claim_keys, claim_of};
use super::virtual_machine_pool;
use crate::objects::about::kept;
use crate::objects::store::{StoredObject, read};
use crate::objects::{About, IndexKey, Key, Kind, Selector, Use, World, owner};
use api::instancetype::{Matcher, Role};
use api::meta::ObjectMeta;
use api::vm::VirtualMachine;
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    kept: kept!(vms),
    controller: Use {
        follows: &[Selector::ALL],
        verbs: &[
            // VMs of pools are created and deleted.
            (None, &["create", "delete", "get", "patch"]),
            (Some("status"), &["patch"]),
            (Some("finalizers"), &["update"]),
        ],
        ..Use::NONE
    },
    // Serves subresources of VMs, and checks that none is left before the installation is deleted. The
    // installation's admission policies restrict the fields that are written.
    api: Use { verbs: &[(None, &["get", "list", "patch"]), (Some("status"), &["patch"])], ..Use::NONE },
    removed: |world, key| drop(world.failing.remove(&(key.namespace.clone(), key.name.clone()))),
    // A VMI waits for its VM to remove its finalizer, and a pool counts its VMs.
    touches: |world, key| {
        let both = [key.clone(), Key::new(Kind::VirtualMachineInstance, &key.namespace, &key.name)];
        both.into_iter().chain(virtual_machine_pool::of_vm(world, key)).chain(removed_with(world)).collect()
    },
    ..About::new("kubevirt.io/v1", "VirtualMachine", "virtualmachines")
};

impl StoredObject for VirtualMachine {
    fn parse(object: Value) -> Option<Self> {
        read(object)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn index_keys(&self) -> Vec<IndexKey> {
        let volumes = self.spec.template.iter().flat_map(|template| &template.spec.volumes);
        let made = self.spec.data_volume_templates.iter();
        let made = made.filter_map(|template| template.metadata.as_ref()?.name.as_deref());
        owner::mark(&self.metadata)
            .into_iter()
            .chain(claim_keys(&self.metadata, volumes.filter_map(claim_of).chain(made)))
            .chain(Role::ALL.into_iter().flat_map(|role| size_keys(self, role)))
            .collect()
    }
}

/// The VMs that reference an instance type, a preference or a revision of one.
pub(super) fn sized_by(world: &World, key: &Key) -> Vec<Key> {
    let named = IndexKey::Instancetype(key.kind.name().to_owned(), key.namespace.clone(), key.name.clone());
    world.indexed_by(&named).cloned().collect()
}

/// True if the VM infers its instance type or its preference from a volume.
pub(super) fn infers(vm: &VirtualMachine) -> bool {
    let from_volume = |role| {
        Matcher::from_spec(&vm.spec, role).is_some_and(|matcher| !matcher.infer_from_volume.is_empty())
    };
    Role::ALL.into_iter().any(from_volume)
}

/// Index keys of the object that the VM takes its instance type or preference from.
fn size_keys(vm: &VirtualMachine, role: Role) -> Vec<IndexKey> {
    let namespace = vm.metadata.namespace.clone().unwrap_or_default();
    let Some(matcher) = Matcher::from_spec(&vm.spec, role) else { return Vec::new() };
    if !matcher.revision_name.is_empty() {
        let kind = Kind::ControllerRevision.name().to_owned();
        return vec![IndexKey::Instancetype(kind, namespace, matcher.revision_name.to_owned())];
    }
    if !matcher.infer_from_volume.is_empty() {
        return sources(vm, &namespace);
    }
    let kind = matcher.matched().into_iter();
    let mark = kind.map(|kind| {
        let within = kind.within(&namespace).to_owned();
        IndexKey::Instancetype(kind.kind().to_owned(), within, matcher.name.to_owned())
    });
    mark.collect()
}

/// Index keys of the sources that the disks of a VM are cloned from. Their labels may name an instance type.
fn sources(vm: &VirtualMachine, namespace: &str) -> Vec<IndexKey> {
    let specs = vm.spec.data_volume_templates.iter().map(|template| &template.spec);
    specs.flat_map(|spec| data_volume::sources(spec, namespace)).collect()
}
