//! Merge patch between two statuses of a VMI. Pure.
//!
//! Two programs write the status. The patch contains only the differences, and the caller sends it with the
//! resource version that it was computed from ([`cluster_client`]): if the object has changed since, nothing
//! is written.

use api::vmi::Status;
use api::wire::Wire as _;
use cluster_model::plan::difference;
use serde_json::{Value, json};

/// Patch from `old` to `new`; `None` if they are equal.
pub fn patch(old: Option<&Status>, new: &Status) -> Option<Value> {
    let of = |status: Value| json!({"status": status});
    let old = old.map_or_else(|| json!({}), |old| of(old.write()));
    difference(&old, &of(new.write()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::vmi::Phase;

    fn status(value: Value) -> Status {
        api::wire::read(value).unwrap()
    }

    #[test]
    fn only_what_differs_is_written() {
        let old = status(json!({"phase": "Scheduled", "nodeName": "a", "reason": "x", "ours": 1}));
        let mut new = old.clone();
        assert_eq!(patch(Some(&old), &new), None);
        new.phase = Some(Phase::Running);
        new.reason = None;
        assert_eq!(patch(Some(&old), &new), Some(json!({"status": {"phase": "Running", "reason": null}})));
    }

    #[test]
    fn a_vmi_without_a_status_gets_all_of_it() {
        let new = status(json!({"phase": "Running"}));
        assert_eq!(patch(None, &new), Some(json!({"status": new.write()})));
    }
}
