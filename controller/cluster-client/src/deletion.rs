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
    use crate::{PlanResult, Writer};
    use cluster_model::objects::Kind;
    use cluster_model::plan::Plan;
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
}
