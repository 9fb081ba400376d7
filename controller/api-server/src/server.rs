//! What a plan is carried out by: the API server itself, or one in memory.

use crate::error::Result;
use crate::signing_key::{self, Pair};
use kubernetes::objects::Key;
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

    /// Deletes an object, if it has this uid; where that is empty, whichever it is.
    fn delete(&self, key: &Key, uid: &str) -> impl Future<Output = Result<Value>> + Send;

    /// A new key pair that signs upload tokens. It takes a while, and holds up nobody else.
    fn signing_key(&self) -> impl Future<Output = Result<Pair>> + Send {
        signing_key::make_aside()
    }
}
