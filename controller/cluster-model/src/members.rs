//! Objects that a pool or a replica set counts: those that stay when it deletes others because there are too many.

use crate::metadata::SCALE_IN;
use crate::objects::{Kind, owner};
use api::meta::{LabelSelector, ObjectMeta};
use api::vmi::Phase;
use serde_json::Value;

/// The objects of an owner that stay, and their least number.
#[derive(Clone, Debug, PartialEq)]
pub struct Members {
    /// Kind of the objects.
    pub kind: Kind,
    pub namespace: String,
    /// UID of the owner.
    pub owner: String,
    pub selector: LabelSelector,
    /// The selector as text, for the API server; empty if it has no such form.
    pub selector_text: String,
    /// Least number of objects that stay.
    pub least: usize,
}

impl Members {
    /// True if the object is one of those that stay: it has the owner and the labels, it has not ended and is not
    /// being deleted, and it is not chosen for deletion.
    pub fn includes(&self, object: &Value) -> bool {
        let meta: ObjectMeta =
            api::wire::read_in_part(object["metadata"].clone(), &mut Vec::new()).unwrap_or_default();
        owner::controller(&meta).is_some_and(|owner| owner.uid == self.owner)
            && meta.deletion_timestamp.is_none()
            && self.selector.matches(&meta.labels)
            && !is_chosen(&meta, &self.owner)
            && !object["status"]["phase"].as_str().is_some_and(|phase| Phase::from(phase).is_final())
    }
}

/// True if an object is chosen for deletion by the owner of this UID.
pub fn is_chosen(meta: &ObjectMeta, owner: &str) -> bool {
    meta.annotations.get(SCALE_IN).is_some_and(|chosen_by| chosen_by == owner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_that_left_or_go_do_not_stay() {
        let selector = json!({"matchLabels": {"app": "web"}});
        let members = Members {
            kind: Kind::VirtualMachineInstance,
            namespace: "n".into(),
            owner: "1".into(),
            selector: api::wire::read(selector).unwrap(),
            selector_text: "app=web".into(),
            least: 1,
        };
        for (change, expected) in [
            (json!({}), true),
            (json!({"metadata": {"labels": {}}}), false),
            (json!({"metadata": {"labels": {"app": "web", "more": "a"}}}), true),
            (json!({"metadata": {"ownerReferences": null}}), false),
            (json!({"metadata": {"ownerReferences": [{"uid": "2", "controller": true}]}}), false),
            (json!({"metadata": {"ownerReferences": [{"uid": "1"}]}}), false),
            (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), false),
            (json!({"metadata": {"annotations": {SCALE_IN: "1"}}}), false),
            (json!({"metadata": {"annotations": {SCALE_IN: "2"}}}), true),
            (json!({"metadata": null}), false),
            (json!({"status": {"phase": "Running"}}), true),
            (json!({"status": {"phase": "Succeeded"}}), false),
            (json!({"status": {"phase": "Failed"}}), false),
            (json!({"status": "Failed"}), true),
        ] {
            let owner =
                json!({"apiVersion": "v1", "kind": "a", "name": "web", "uid": "1", "controller": true});
            let labels = json!({"app": "web"});
            let mut object = json!({"metadata": {"labels": labels, "ownerReferences": [owner]}});
            for (part, fields) in change.as_object().unwrap() {
                match fields.as_object() {
                    Some(fields) => {
                        fields.iter().for_each(|(name, value)| object[part][name] = value.clone())
                    }
                    None => object[part] = fields.clone(),
                }
            }
            assert_eq!(members.includes(&object), expected, "{change}");
        }
    }
}
