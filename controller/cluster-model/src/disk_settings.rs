//! Settings of the CDI object and of the CDIConfig, for imports, uploads, clones and their worker pods.

use api::cdi::{CDIConfigSpec, CloneStrategy};
use api::wire;
use serde_json::{Map, Value};

/// Settings for the filling of disks, parsed when one of both objects changes.
#[derive(Clone, Debug, Default)]
pub struct DiskSettings {
    /// Spec of the CDIConfig. A part that cannot be read counts as unset.
    pub imports: CDIConfigSpec,
    /// Settings of the CDI object for worker pods.
    pub workers: Workers,
    /// Clone strategy that overrides the one of the StorageClass; `None` if unset or unknown.
    pub clones: Option<CloneStrategy>,
}

/// Placement of worker pods and the pull policy of their image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workers {
    /// The pull policy of their image.
    pub pull_policy: Option<String>,
    /// Labels that a node must have.
    pub node_selector: Map<String, Value>,
    /// Affinity rules in the form of a pod.
    pub affinity: Option<Value>,
    /// Node taints that they tolerate, in the form of a pod.
    pub tolerations: Vec<Value>,
}

impl DiskSettings {
    /// The settings in the specs of the effective CDI object and of the CDIConfig.
    pub(crate) fn read(cdi: Option<&Value>, config: Option<&Value>) -> DiskSettings {
        let imports = config.and_then(|spec| wire::read_in_part(spec.clone(), &mut Vec::new()));
        DiskSettings {
            imports: imports.unwrap_or_default(),
            workers: cdi.map(Workers::from_cdi_spec).unwrap_or_default(),
            clones: cdi.and_then(clone_strategy),
        }
    }

    /// Overhead of a file system, in thousandths of its capacity: the value of the StorageClass, or the global
    /// one.
    pub fn overhead(&self, class: Option<&str>) -> Option<u32> {
        let said = self.imports.filesystem_overhead.as_ref()?;
        let of_class = class.and_then(|class| said.storage_class.get(class));
        of_class.or(said.global.as_ref()).map(|share| share.thousandths())
    }
}

impl Workers {
    fn from_cdi_spec(spec: &Value) -> Workers {
        let place = &spec["workload"];
        Workers {
            pull_policy: spec["imagePullPolicy"].as_str().filter(|text| !text.is_empty()).map(str::to_owned),
            node_selector: place["nodeSelector"].as_object().cloned().unwrap_or_default(),
            affinity: Some(&place["affinity"]).filter(|said| said.is_object()).cloned(),
            tolerations: place["tolerations"].as_array().cloned().unwrap_or_default(),
        }
    }
}

fn clone_strategy(spec: &Value) -> Option<CloneStrategy> {
    let said = CloneStrategy::from(spec["cloneStrategyOverride"].as_str()?);
    (!matches!(said, CloneStrategy::Other(_))).then_some(said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::{Key, Kind, World};
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn the_oldest_that_stays_counts() {
        let mut world = World::default();
        for (name, made, going) in
            [("b", 1, Value::Null), ("a", 2, Value::Null), ("old", 0, json!("2026-01-01T00:00:00Z"))]
        {
            let meta = json!({
                "name": name, "creationTimestamp": format!("2026-01-01T00:00:0{made}Z"), "deletionTimestamp": going,
            });
            let spec = json!({
                "imagePullPolicy": "Always", "cloneStrategyOverride": "copy",
                "workload": {"nodeSelector": {"of": name}, "tolerations": [{"key": name}]},
            });
            world.put(Kind::CDI, json!({"metadata": meta, "spec": spec}), Timestamp::UNIX_EPOCH);
        }
        let DiskSettings { workers, clones, .. } = world.disk_settings();
        assert_eq!(
            (&workers.node_selector["of"], workers.pull_policy.as_deref()),
            (&json!("b"), Some("Always"))
        );
        assert_eq!((&workers.tolerations, &workers.affinity), (&vec![json!({"key": "b"})], &None));
        assert_eq!(*clones, Some(CloneStrategy::Copy));
        for (gone, next) in [("b", Some("a")), ("a", None)] {
            world.remove(&Key::new(Kind::CDI, "", gone));
            let workers = &world.disk_settings().workers;
            assert_eq!(workers.node_selector.get("of").and_then(Value::as_str), next);
        }
    }

    #[test]
    fn a_class_has_its_own_overhead_and_others_that_of_all() {
        let mut world = World::default();
        let overhead = |world: &World, class| world.disk_settings().overhead(class);
        assert_eq!(overhead(&world, Some("fast")), None);
        let said = json!({"global": "0.1", "storageClass": {"fast": "0.02"}});
        let object = json!({"metadata": {"name": "config"}, "spec": {"filesystemOverhead": said}});
        world.put(Kind::CDIConfig, object, Timestamp::UNIX_EPOCH);
        assert_eq!(overhead(&world, Some("fast")), Some(20));
        assert_eq!((overhead(&world, Some("slow")), overhead(&world, None)), (Some(100), Some(100)));
        world.remove(&Key::new(Kind::CDIConfig, "", "config"));
        assert_eq!(overhead(&world, Some("fast")), None);
    }
}
