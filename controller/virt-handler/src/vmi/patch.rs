//! From one status of a VMI to another as a merge patch. Pure.
//!
//! The status is written by two programs. The patch names what differs alone, and whoever sends it guards it with the
//! version that was looked at ([`cluster_client`]): if anything has changed since, nothing is written.

use api::vmi::Status;
use api::wire::Wire as _;
use cluster_model::plan::difference;
use serde_json::{Value, json};

/// The patch that makes `old` `new`; nothing when they are the same.
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
