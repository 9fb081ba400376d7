//! Event: warnings of kubelets about launcher pods. Some facts (a secret that is missing, a volume that
//! cannot be mounted) are reported in events only.

use crate::objects::{About, Key, Kind, Selector, Use, Warning, World};
use serde_json::Value;

pub(crate) const ABOUT: About = About {
    controller: Use {
        follows: &[Selector { fields: Some("involvedObject.kind=Pod,type=Warning"), ..Selector::ALL }],
        verbs: &[(None, &["create"])],
        ..Use::NONE
    },
    handler: Use { verbs: &[(None, &["create"])], ..Use::NONE },
    read,
    // The name of an event begins with the name of its object.
    touches: |world, key| match key.name.rsplit_once('.') {
        Some((pod, _)) if world.pods.get(&key.namespace, pod).is_some() => {
            super::pod::dependents(world, &Key::new(Kind::Pod, &key.namespace, pod))
        }
        _ => Vec::new(),
    },
    ..About::new("v1", "Event", "events")
};

/// Keeps a warning about a pod in the World. Returns true if it is new.
fn read(world: &mut World, event: &Value) -> bool {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let at = (text("/involvedObject/namespace"), text("/involvedObject/name"));
    let pod = text("/involvedObject/uid");
    let known =
        world.pods.get(&at.0, &at.1).is_some_and(|known| known.meta.uid.as_deref() == Some(pod.as_str()));
    // The scheduler's reason is also in the pod's conditions, where it is updated.
    if !known || text("/reason") == "FailedScheduling" {
        return false;
    }
    let warning = Warning { pod, reason: text("/reason"), message: text("/message") };
    world.warnings.insert(at, warning.clone()) != Some(warning)
}
