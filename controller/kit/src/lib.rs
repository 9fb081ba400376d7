//! Test tools for the packages of `controller/`: an API server in memory that lists, watches, records the rights that
//! requests take, and fails on demand ([`api_server`]); and a process of one of our programs (`running`).
//!
//! **May be used** in the tests of every package of `controller/` above `cluster-model`, and in suites of the whole
//! tree. **Absent:** servers other than the API server, and other shared parts of tests: see the package `tests`.

// Tests should fail at once and loudly.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::print_stderr)]

pub mod api_server;
mod running;

pub use api_server::{ApiServer, failure, json_patch, store_data_source};
pub use running::{Running, free_address, mount};

use cluster_model::plan::merge;
use http::Request;
use serde_json::Value;

/// Head of a metrics request of a monitor. Answering it takes the rights of a TokenReview and a
/// SubjectAccessReview.
pub fn monitors_request() -> http::request::Parts {
    let request = Request::get("/metrics").header("authorization", "Bearer monitor-1").body(());
    request.unwrap().into_parts().0
}

/// Applies a merge patch that is guarded by a resource version; `None` if the object has another version by
/// now.
pub fn patched(mut object: Value, change: &Value, version: Option<&str>) -> Option<Value> {
    if version.is_some_and(|version| object["metadata"]["resourceVersion"] != version) {
        return None;
    }
    merge(&mut object, change);
    Some(object)
}
