//! What a plan is carried out by: the API server itself, or one in memory.

use crate::error::{Error, ErrorKind, Result};
use crate::signing_key::{self, Pair};
use cluster_model::objects::Key;
use cluster_model::plan::Mounts;
use serde_json::Value;

/// An API server, one object at a time. What it refuses has its kind: `Exists`, `Gone`, `Conflict`.
pub trait Server: Sync {
    /// The object as it is.
    fn get(&self, key: &Key) -> impl Future<Output = Result<Value>> + Send;

    /// Makes an object.
    fn create(&self, key: &Key, object: &Value) -> impl Future<Output = Result<Value>> + Send;

    /// Changes an object, or the part of it that stands behind a path of its own. A `resourceVersion` in the change is
    /// the one that the object must still have.
    fn patch(
        &self,
        key: &Key,
        change: &Value,
        part: Option<&str>,
    ) -> impl Future<Output = Result<Value>> + Send;

    /// Changes an object of this owner and no other one's (`Refused`), without reading it first: its labels, its first owner, its
    /// data.
    fn patch_of(&self, key: &Key, owner: &str, change: &Value) -> impl Future<Output = Result<Value>> + Send {
        async move {
            let there = self.get(key).await?;
            if is_of(&there, owner) { self.patch(key, change, None).await } else { Err(not_of(key)) }
        }
    }

    /// Deletes an object, if it has this uid; where that is empty, whichever it is.
    fn delete(&self, key: &Key, uid: &str) -> impl Future<Output = Result<Value>> + Send;

    /// Asks for the eviction of a pod, if it has this uid: disruption budgets and webhooks are asked before it is deleted.
    fn evict(&self, key: &Key, uid: &str) -> impl Future<Output = Result<Value>> + Send {
        // Where nobody is asked, an eviction is a deletion.
        self.delete(key, uid)
    }

    /// The name of a pod that may run and mounts a PVC, whoever made it ([`crate::usage`]).
    fn mounter(&self, claim: &Key, by: Mounts) -> impl Future<Output = Result<Option<String>>> + Send;

    /// A page of the ResourceSlices of a driver on a node; `more`: the word of the page before.
    fn slices(
        &self,
        driver: &str,
        node: &str,
        more: Option<&str>,
    ) -> impl Future<Output = Result<Value>> + Send;

    /// A new key pair that signs upload tokens. It takes a while, and holds up nobody else.
    fn signing_key(&self) -> impl Future<Output = Result<Pair>> + Send {
        signing_key::make_aside()
    }
}

/// The first owner of an object has this uid.
pub(crate) fn is_of(object: &Value, owner: &str) -> bool {
    !owner.is_empty() && object["metadata"]["ownerReferences"][0]["uid"] == owner
}

/// What is said of an object of another owner, which may not be changed either.
pub(crate) fn not_of(key: &Key) -> Error {
    let what =
        format!("{key} is there already, and is not of this PVC: delete it, or give the PVC another name");
    Error::new(ErrorKind::Refused, what)
}
