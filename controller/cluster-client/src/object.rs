//! Objects as untyped JSON.

use api::meta::ObjectMeta;
use serde_json::Value;

/// Metadata of an object; the default if they cannot be read.
pub(crate) fn meta(object: &Value) -> ObjectMeta {
    api::wire::read_in_part(object["metadata"].clone(), &mut Vec::new()).unwrap_or_default()
}
