//! CDIConfig `config`: the address of cdi-uploadproxy and the authorities of its certificate (`virtctl
//! image-upload` and other clients read it), and the share of a file system that is kept free beside a disk.
//!
//! A missing object is created. Its spec is the administrator's, or comes from the CDI object
//! ([`crate::cdi::config`]). Of its status, only the fields named above are written.

use api::cdi::CONFIG;
use cluster_model::objects::{Key, Kind, StoredObject as _, World};
use cluster_model::plan::Plan;
use serde_json::{Value, json};

/// The share of a file system that is reserved for the file system itself, as `datavolume` counts it.
const OVERHEAD: &str = "0.06";

/// Adds the steps for the CDIConfig. `bundle`: the authorities of our programs, as PEM.
pub(super) fn decide(world: &World, bundle: &str, plan: &mut Plan) {
    let kind = Kind::CDIConfig;
    let Some(is) = world.cdi_configs.get("", CONFIG) else {
        let object = json!({
            "apiVersion": kind.api_version(),
            "kind": kind.name(),
            "metadata": {"name": CONFIG},
            "spec": {},
        });
        return plan.create(Key::new(kind, "", CONFIG), object);
    };
    if is.meta().deletion_timestamp.is_some() {
        return;
    }
    let mut should = is.object.clone();
    if let Some(spec) = crate::cdi::config(world) {
        should["spec"] = spec;
    }
    let mut status = is.object["status"].as_object().cloned().unwrap_or_default();
    status.insert("uploadProxyCA".into(), json!(bundle));
    status.insert("filesystemOverhead".into(), json!({"global": OVERHEAD}));
    match should["spec"]["uploadProxyURLOverride"].as_str().filter(|url| !url.is_empty()) {
        Some(url) => drop(status.insert("uploadProxyURL".into(), json!(url))),
        None => drop(status.remove("uploadProxyURL")),
    }
    should["status"] = Value::Object(status);
    // The status is not a subresource.
    plan.update(kind, &is.meta, &is.object, &should, false);
}
