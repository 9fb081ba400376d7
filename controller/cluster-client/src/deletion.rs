//! Response to a deletion: what is left of the object.
//!
//! ```text
//! Status                                          gone
//! the object, held by a finalizer or by a kubelet  being deleted
//! the object, held by nothing                      gone; the last state of it
//! ```
//!
//! A program that does not record it counts the object until a watch reports the deletion, and may choose
//! another one to delete meanwhile.

use super::object::meta;
use cluster_model::objects::Key;
use serde_json::Value;

/// A deletion that the API server has accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Deletion {
    pub key: Key,
    pub uid: String,
    /// The object as the API server returned it.
    pub object: Option<Value>,
    pub is_gone: bool,
}

impl Deletion {
    /// Reads the response; `None` if it does not tell what was deleted.
    pub(super) fn read(key: Key, uid: String, answer: Value) -> Option<Deletion> {
        let text = |pointer: &str| answer.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        if text("/kind") == "Status" {
            let is_gone = text("/status") == "Success";
            let uid = if uid.is_empty() { text("/details/uid").to_owned() } else { uid };
            return (is_gone && !uid.is_empty()).then_some(Deletion { key, uid, object: None, is_gone });
        }
        let there = meta(&answer);
        let of = there.uid.filter(|of| uid.is_empty() || *of == uid)?;
        let waits = answer["metadata"]["deletionGracePeriodSeconds"].as_i64().is_some_and(|left| left > 0);
        let is_held = there.deletion_timestamp.is_some() && (waits || !there.finalizers.is_empty());
        Some(Deletion { key, uid: of, object: Some(answer), is_gone: !is_held })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::{PlanResult, Writer};
    use cluster_model::members::Members;
    use cluster_model::objects::Kind;
    use cluster_model::plan::{Plan, Step};
    use kit::ApiServer;
    use serde_json::json;

    #[test]
    fn a_response_tells_whether_the_object_is_gone() {
        let key = Key::new(Kind::Pod, "n", "a");
        let object = |fields: Value| {
            let mut object = json!({"metadata": {"namespace": "n", "name": "a", "uid": "1"}});
            cluster_model::plan::merge(&mut object["metadata"], &fields);
            object
        };
        let going = json!("2026-01-01T00:00:00Z");
        let status = |uid: Value| json!({"kind": "Status", "status": "Success", "details": {"uid": uid}});
        for (uid, answer, expected) in [
            ("1", status(json!("1")), Some(("1", true))),
            ("1", status(Value::Null), Some(("1", true))),
            ("", status(json!("2")), Some(("2", true))),
            ("", status(Value::Null), None),
            ("1", json!({"kind": "Status", "status": "Failure"}), None),
            ("1", object(json!({})), Some(("1", true))),
            ("1", object(json!({"deletionTimestamp": going, "finalizers": ["a"]})), Some(("1", false))),
            (
                "1",
                object(json!({"deletionTimestamp": going, "deletionGracePeriodSeconds": 30})),
                Some(("1", false)),
            ),
            (
                "1",
                object(json!({"deletionTimestamp": going, "deletionGracePeriodSeconds": 0})),
                Some(("1", true)),
            ),
            ("2", object(json!({})), None),
            ("1", Value::Null, None),
        ] {
            let read = Deletion::read(key.clone(), uid.to_owned(), answer.clone());
            let read = read.as_ref().map(|deletion| (deletion.uid.as_str(), deletion.is_gone));
            assert_eq!(read, expected, "{answer}");
        }
    }

    #[tokio::test]
    async fn the_response_to_a_deletion_is_recorded() {
        let server = ApiServer::default();
        let writer = Writer::new(server.client(), "virt-controller");
        for (finalizers, is_gone) in [(json!([]), true), (json!(["example.com/held"]), false)] {
            let object = json!({"metadata": {"namespace": "n", "name": "a", "finalizers": finalizers}});
            server.put_object(Kind::VirtualMachine, object);
            let key = Key::new(Kind::VirtualMachine, "n", "a");
            let there = server.object(&key.path()).unwrap();
            let mut plan = Plan::default();
            plan.delete(key, &meta(&there));
            let PlanResult { deletions, failed, .. } = writer.carry_out(plan).await;
            assert!(failed.is_none(), "{failed:?}");
            let [deletion] = &deletions[..] else { panic!("{deletions:?}") };
            assert_eq!((json!(deletion.uid), deletion.is_gone), (there["metadata"]["uid"].clone(), is_gone));
        }
    }

    /// A change of the same plan does not count.
    #[tokio::test]
    async fn an_object_that_another_client_changed_is_not_deleted() {
        for (is_guarded, is_changed, changes, is_kept) in [
            (true, false, false, false),
            (true, false, true, false),
            (true, true, false, true),
            (false, true, false, false),
        ] {
            let server = ApiServer::default();
            let writer = Writer::new(server.client(), "virt-controller");
            let key = Key::new(Kind::VirtualMachine, "n", "a");
            let object = json!({"metadata": {"namespace": "n", "name": "a", "labels": {"app": "web"}}});
            server.put_object(Kind::VirtualMachine, object);
            let there = server.object(&key.path()).unwrap();
            let seen = meta(&there);
            if is_changed {
                let mut other = there.clone();
                other["metadata"]["labels"] = json!({});
                server.put(&key.path(), other);
            }
            let mut plan = Plan::default();
            if changes {
                let mut next = there.clone();
                next["metadata"]["annotations"] = json!({"a": "b"});
                plan.update(Kind::VirtualMachine, &seen, &there, &next, true);
            }
            match is_guarded {
                true => plan.delete_unchanged(key.clone(), &seen),
                false => plan.delete(key.clone(), &seen),
            }
            let failed = writer.carry_out(plan).await.failed.map(|(_, error)| error.kind());
            let expected = is_kept.then_some(ErrorKind::Conflict);
            assert_eq!(
                (failed, server.object(&key.path()).is_some()),
                (expected, is_kept),
                "{is_guarded} {changes}"
            );
        }
    }

    #[tokio::test]
    async fn the_objects_that_stay_are_counted_on_all_pages() {
        let server = ApiServer::default();
        let writer = Writer::new(server.client(), "virt-controller");
        let owner = json!({"apiVersion": "v1", "kind": "a", "name": "web", "uid": "1", "controller": true});
        for number in 0..300 {
            let labels = json!({"app": if number < 290 { "web" } else { "other" }});
            let metadata = json!({"namespace": "n", "name": format!("web-{number}"), "labels": labels, "ownerReferences": [owner]});
            server.put_object(Kind::VirtualMachine, json!({"metadata": metadata}));
        }
        for (text, least, is_enough) in
            [("app=web", 290, true), ("app=web", 291, false), ("", 290, true), ("", 291, false)]
        {
            let members = Members {
                kind: Kind::VirtualMachine,
                namespace: "n".into(),
                owner: "1".into(),
                selector: api::wire::read(json!({"matchLabels": {"app": "web"}})).unwrap(),
                selector_text: text.into(),
                least,
            };
            let plan = Plan { steps: vec![Step::RequireMembers(members)], again: None };
            let failed = writer.carry_out(plan).await.failed.map(|(_, error)| error.kind());
            assert_eq!(failed, (!is_enough).then_some(ErrorKind::Conflict), "{text} {least}");
        }
    }
}
