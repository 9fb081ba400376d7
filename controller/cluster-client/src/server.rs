//! Targets of a plan: the API server, or a server in memory for tests.

use crate::error::{Error, ErrorKind, Result};
use crate::signing_key::{self, Pair};
use cluster_model::members::Members;
use cluster_model::objects::{Key, LauncherPods};
use cluster_model::plan::Mounts;
use serde_json::Value;

/// An API server, one object at a time. Refused requests have an error kind: `Exists`, `Gone`, `Conflict`.
pub trait Server: Sync {
    fn get(&self, key: &Key) -> impl Future<Output = Result<Value>> + Send;

    /// Reads an object; `None` if it does not exist.
    fn find(&self, key: &Key) -> impl Future<Output = Result<Option<Value>>> + Send {
        async move {
            match self.get(key).await {
                Err(error) if error.kind() == ErrorKind::Gone => Ok(None),
                found => found.map(Some),
            }
        }
    }

    fn create(&self, key: &Key, object: &Value) -> impl Future<Output = Result<Value>> + Send;

    /// Changes an object, or a subresource of it. A `resourceVersion` in the change must match that of the
    /// object.
    fn patch(
        &self,
        key: &Key,
        change: &Value,
        part: Option<&str>,
    ) -> impl Future<Output = Result<Value>> + Send;

    /// Changes labels, first owner and data of an object of this owner, without reading it first. `Refused`
    /// if it has another owner.
    fn patch_of(&self, key: &Key, owner: &str, change: &Value) -> impl Future<Output = Result<Value>> + Send {
        async move {
            let there = self.get(key).await?;
            if is_of(&there, owner) { self.patch(key, change, None).await } else { Err(not_of(key)) }
        }
    }

    /// Deletes an object if it has this uid and this version; with an empty one, any.
    fn delete(&self, key: &Key, uid: &str, version: &str) -> impl Future<Output = Result<Value>> + Send;

    /// Evicts a pod if it has this uid, subject to disruption budgets and webhooks.
    fn evict(&self, key: &Key, uid: &str) -> impl Future<Output = Result<Value>> + Send {
        // Without budgets and webhooks, an eviction is a deletion.
        self.delete(key, uid, "")
    }

    /// The name of a running pod that mounts a PVC, of any owner ([`crate::usage`]).
    fn mounter(&self, claim: &Key, by: Mounts) -> impl Future<Output = Result<Option<String>>> + Send;

    /// True if the least number of an owner's objects stays.
    fn has_members(&self, members: &Members) -> impl Future<Output = Result<bool>> + Send;

    /// A launcher pod of one of these VMIs, of all pods in the namespace.
    fn launcher_of(
        &self,
        namespace: &str,
        vmis: &[LauncherPods],
    ) -> impl Future<Output = Result<Option<Value>>> + Send;

    /// A page of the ResourceSlices of a driver on a node. `more` is the continue token of the previous page.
    fn slices(
        &self,
        driver: &str,
        node: &str,
        more: Option<&str>,
    ) -> impl Future<Output = Result<Value>> + Send;

    /// Creates a key pair that signs upload tokens. It takes about a second, and blocks no other task.
    fn signing_key(&self) -> impl Future<Output = Result<Pair>> + Send {
        signing_key::make_aside()
    }
}

/// True if the first owner of an object has this uid.
pub(crate) fn is_of(object: &Value, owner: &str) -> bool {
    !owner.is_empty() && object["metadata"]["ownerReferences"][0]["uid"] == owner
}

/// Error for an object of another owner, which may not be changed either.
pub(crate) fn not_of(key: &Key) -> Error {
    let what =
        format!("{key} is there already, and is not of this PVC: delete it, or give the PVC another name");
    Error::new(ErrorKind::Refused, what)
}
