//! The controlling owner of an object, in its `ownerReferences`.

use super::rights::Right;
use super::{IndexKey, Key, Kind};
use api::cdi::annotations::IMPORT_CRON;
use api::meta::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

/// An owner reference to an object of this kind. With foreground deletion, the owner is deleted after the
/// object.
pub fn reference(kind: Kind, owner: &ObjectMeta) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.name(),
        "name": owner.name,
        "uid": owner.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// The controlling owner of an object. The API server permits one.
pub fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().find(|owner| owner.controller == Some(true))
}

/// The index key of an object that has a controlling owner.
pub fn mark(meta: &ObjectMeta) -> Option<IndexKey> {
    controller(meta).map(|owner| IndexKey::Owner(owner.uid.clone()))
}

/// The DataImportCron that an object was created for, by its label. Objects that a DataImportCron leaves
/// behind have no owner.
pub fn import_cron(meta: &ObjectMeta) -> Option<Key> {
    let name = meta.labels.get(IMPORT_CRON)?;
    Some(Key::new(Kind::DataImportCron, meta.namespace.clone()?, name))
}

/// Rights required by the owner references of a written object, in addition to the right to write it. With
/// the admission plugin OwnerReferencesPermissionEnforcement, setting `blockOwnerDeletion` requires `update`
/// on the owner's finalizers.
pub fn rights(written: &Value) -> impl Iterator<Item = Right> + '_ {
    let owners = written["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    owners.filter(|owner| owner["blockOwnerDeletion"] == true).filter_map(|owner| {
        let kind = Kind::ALL.iter().copied().find(|kind| {
            owner["kind"].as_str() == Some(kind.name())
                && owner["apiVersion"].as_str() == Some(kind.api_version())
        })?;
        Some((kind, Some("finalizers"), "update"))
    })
}
