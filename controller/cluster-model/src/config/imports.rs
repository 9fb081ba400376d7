//! Settings of imports, uploads and clones: the CDIConfig object, read live.

use crate::objects::World;
use api::cdi::{CDIConfigSpec, CONFIG};
use api::wire;

/// The settings. A part that cannot be read counts as unset.
pub fn read(world: &World) -> CDIConfigSpec {
    let object = world.cdi_configs.get("", CONFIG);
    let spec = object.and_then(|object| object.object.get("spec")).cloned();
    spec.and_then(|spec| wire::read_in_part(spec, &mut Vec::new())).unwrap_or_default()
}

/// Overhead of a file system, in thousandths of its capacity: the value of the StorageClass, or the global
/// one.
pub fn overhead(world: &World, class: Option<&str>) -> Option<u32> {
    let said = read(world).filesystem_overhead?;
    let of_class = class.and_then(|class| said.storage_class.get(class)).cloned();
    of_class.or(said.global).map(|share| share.thousandths())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Kind;
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn a_class_has_its_own_overhead_and_others_that_of_all() {
        let mut world = World::default();
        assert_eq!(overhead(&world, Some("fast")), None);
        let said = json!({"global": "0.1", "storageClass": {"fast": "0.02"}});
        let object = json!({"metadata": {"name": "config"}, "spec": {"filesystemOverhead": said}});
        world.put(Kind::CDIConfig, object, Timestamp::UNIX_EPOCH);
        assert_eq!(overhead(&world, Some("fast")), Some(20));
        assert_eq!((overhead(&world, Some("slow")), overhead(&world, None)), (Some(100), Some(100)));
    }
}
