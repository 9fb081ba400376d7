//! The PVC of a DataVolume.
//!
//! ```text
//!  spec.pvc ──────────────────────────────────────────────► as it stands
//!  spec.storage ─► class ─► modes that are left out ─► size, with room for the file system ─► not below the smallest
//!                             │
//!                             ├─ the PVC is there: its own        a StorageProfile may change meanwhile
//!                             └─ else: of the sets of its StorageProfile the first, or the first that fits
//! ```

use super::clone::Size;
use super::size::Overhead;
use crate::storage_profile;
use api::cdi::ClaimPropertySet;
pub(super) use api::cdi::annotations::BIND_AT_ONCE as AT_ONCE;
use api::cdi::annotations::{EXTERNAL_POPULATION, GROWN_FOR};
use api::claim::ClaimSpec;
use api::data_volume::{ContentType, DataVolume, Spec, Storage};
use api::wire::Wire;
use cluster_model::objects::{Kind, PersistentVolumeClaim, StorageClass, World, owner};
use cluster_model::uploads::{CONTENT_TYPE, TARGET};
use serde_json::{Map, Value, json};

/// Labels of every PVC that is created here, as upstream has them.
pub(super) const WORKER_OBJECT: [(&str, &str); 4] = [
    ("app", "containerized-data-importer"),
    ("app.kubernetes.io/managed-by", "cdi-controller"),
    ("app.kubernetes.io/component", "storage"),
    ("alerts.k8s.io/KubePersistentVolumeFillingUp", "disabled"),
];
/// Smallest size of a disk, in bytes.
const LEAST: u64 = 1 << 20;
/// The access mode and the volume mode that every provisioner can do.
const ONE: &str = "ReadWriteOnce";
const FILE_SYSTEM: &str = "Filesystem";

/// The PVC that a DataVolume requests, with all defaults.
#[derive(Debug)]
pub(super) struct RequestedClaim<'a> {
    /// Spec of the PVC to create.
    pub(super) spec: ClaimSpec,
    /// The class it will be of, if one is known.
    pub(super) class: Option<&'a StorageClass>,
    /// Bytes of the disk: of a device, unset.
    pub(super) disk: Option<u64>,
    /// Bytes of a clone whose disk becomes larger than its source.
    pub(super) grows: Option<u64>,
}

impl<'a> RequestedClaim<'a> {
    /// The PVC of a DataVolume, or the reason why its spec does not define one.
    pub(super) fn new(
        volume: &DataVolume,
        world: &'a World,
        overhead: Overhead,
    ) -> Result<RequestedClaim<'a>, String> {
        RequestedClaim::with_source(volume, world, overhead, None)
    }

    /// The PVC of a clone of a disk of this size, which is also the size of the PVC if the spec has none.
    pub(super) fn of_clone(
        volume: &DataVolume,
        world: &'a World,
        overhead: Overhead,
        source: Size,
    ) -> Result<RequestedClaim<'a>, String> {
        let mut wanted = RequestedClaim::with_source(volume, world, overhead, Some(source))?;
        let asked = wanted.spec.storage().and_then(api::quantity::Quantity::bytes).unwrap_or(0);
        // What the two have in common is compared: PVCs of a kind as they are, and else the disk.
        let (is, least) = match (source.is_block, wanted.disk) {
            (true, Some(disk)) => (disk, source.disk),
            (false, None) => (asked, source.disk),
            (true, None) | (false, Some(_)) => (asked, source.claim),
        };
        if is < least {
            return Err(format!(
                "target resources requests storage size is smaller than the source: {is} bytes, and the source has {least}"
            ));
        }
        wanted.grows = wanted.disk.filter(|disk| is > least && *disk > source.disk);
        Ok(wanted)
    }

    fn with_source(
        volume: &DataVolume,
        world: &'a World,
        overhead: Overhead,
        source: Option<Size>,
    ) -> Result<RequestedClaim<'a>, String> {
        let Spec { pvc, storage, .. } = &volume.spec;
        let is_archive = volume.spec.content_type == Some(ContentType::Archive);
        let wanted = match (pvc, storage) {
            (Some(spec), _) => as_it_stands(spec, world, is_archive, overhead)?,
            (None, Some(storage)) => filled_in(volume, storage, world, overhead, source)?,
            (None, None) => return Err("it has neither spec.storage nor spec.pvc".to_owned()),
        };
        if is_archive && wanted.spec.is_block() {
            return Err("ContentType Archive cannot have block volumeMode".to_owned());
        }
        Ok(wanted)
    }

    /// The same PVC, made from another object by its storage.
    pub(super) fn made_from(&self, source: Option<api::claim::DataReference>) -> RequestedClaim<'a> {
        let mut spec = self.spec.clone();
        if source.is_some() {
            spec.data_source = source;
        }
        RequestedClaim { spec, ..*self }
    }

    /// The request that the existing PVC was made of: the default StorageClass may have changed since.
    pub(super) fn of_existing(self, claim: &PersistentVolumeClaim, world: &'a World) -> RequestedClaim<'a> {
        let name = claim.spec.storage_class_name.clone();
        let class = name.as_deref().and_then(|name| world.storage_classes.get("", name));
        // One that was made larger for its image takes a larger disk.
        let is_grown = claim.meta.annotations.contains_key(GROWN_FOR);
        let grown = claim.spec.storage().filter(|_| is_grown).and_then(api::quantity::Quantity::bytes);
        let grown = grown.map(|bytes| Overhead::for_class(world, name.as_deref()).disk_in(bytes));
        let disk = self.disk.map(|disk| disk.max(grown.unwrap_or(0)));
        RequestedClaim { spec: ClaimSpec { storage_class_name: name, ..self.spec }, class, disk, ..self }
    }
}

/// The PVC of a DataVolume as an object, with these annotations beside the usual.
pub(super) fn object(volume: &DataVolume, wanted: &RequestedClaim<'_>, notes: &[(&str, String)]) -> Value {
    let meta = &volume.metadata;
    let is_passed_on = |name: &str| {
        name.split_once('/')
            .is_some_and(|(prefix, _)| prefix == "kubevirt.io" || prefix.ends_with(".kubevirt.io"))
    };
    let mut labels: Map<String, Value> = (meta.labels.iter())
        .filter(|(name, _)| is_passed_on(name))
        .map(|(name, value)| (name.clone(), json!(value)))
        .collect();
    labels.extend(WORKER_OBJECT.iter().map(|(label, value)| ((*label).to_owned(), json!(value))));
    let content = match &volume.spec.content_type {
        Some(ContentType::Archive) => "archive",
        _ => "kubevirt",
    };
    let mut annotations = Map::new();
    annotations.insert(CONTENT_TYPE.to_owned(), json!(content));
    annotations.insert("cdi.kubevirt.io/createdForDataVolume".to_owned(), json!(meta.uid));
    if volume.spec.source.as_ref().is_some_and(|source| source.upload.is_some()) {
        annotations.insert(TARGET.to_owned(), json!(""));
    }
    annotations.extend(notes.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    if volume.spec.is_populated_externally() {
        annotations.insert(EXTERNAL_POPULATION.to_owned(), json!("true"));
    }
    // VMIs that use a preallocated disk must not discard its blocks.
    if volume.spec.preallocation == Some(true) {
        annotations.insert(super::standalone_claim::PREALLOCATION.to_owned(), json!("true"));
    }
    if meta.annotations.contains_key(AT_ONCE) {
        annotations.insert(AT_ONCE.to_owned(), json!(""));
    }
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner::reference(Kind::DataVolume, meta)],
        },
        "spec": wanted.spec.write(),
    })
}

fn as_it_stands<'a>(
    spec: &ClaimSpec,
    world: &'a World,
    is_archive: bool,
    overhead: Overhead,
) -> Result<RequestedClaim<'a>, String> {
    let bytes = spec.storage().and_then(api::quantity::Quantity::bytes);
    let bytes = bytes.ok_or("PVC size is missing: spec.pvc.resources.requests.storage")?;
    if spec.access_modes.is_empty() {
        return Err("Required value: at least 1 access mode is required: spec.pvc.accessModes".to_owned());
    }
    let mut spec = spec.clone();
    let class = class(&mut spec, world, is_archive);
    let overhead = overhead.or_that_of(world, spec.storage_class_name.as_deref());
    let disk = (!spec.is_block()).then(|| overhead.disk_in(bytes));
    if disk.is_some_and(|disk| disk < LEAST) {
        return Err(format!("a PVC of {bytes} bytes is too small for a disk of 1 MiB"));
    }
    Ok(RequestedClaim { spec, class, disk, grows: None })
}

fn filled_in<'a>(
    volume: &DataVolume,
    storage: &Storage,
    world: &'a World,
    overhead: Overhead,
    source: Option<Size>,
) -> Result<RequestedClaim<'a>, String> {
    let is_archive = volume.spec.content_type == Some(ContentType::Archive);
    let requests = storage.resources.as_ref().and_then(|resources| resources.requests.get("storage"));
    let said = requests.and_then(api::quantity::Quantity::bytes);
    let disk = said.or(source.map(|source| source.disk));
    // A clone without a size requests at least as much as its source did.
    let least = source.filter(|source| said.is_none() && !source.is_block).map_or(0, |source| source.claim);
    let disk = disk.ok_or("Storage size is missing: spec.storage.resources.requests.storage")?;
    if disk < LEAST {
        return Err("Storage size should be at least 1MiB".to_owned());
    }
    let text = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let mut spec = ClaimSpec {
        access_modes: storage.access_modes.clone(),
        selector: storage.selector.clone(),
        resources: storage.resources.clone(),
        volume_name: text(&storage.volume_name),
        storage_class_name: storage.storage_class_name.clone(),
        volume_mode: text(&storage.volume_mode).filter(|mode| mode != "FromStorageProfile"),
        data_source: storage.data_source.clone(),
        data_source_ref: storage.data_source_ref.clone(),
        ..ClaimSpec::default()
    };
    let class = class(&mut spec, world, is_archive);
    let overhead = overhead.or_that_of(world, spec.storage_class_name.as_deref());
    let meta = &volume.metadata;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    match world.pvcs.get(&text(&meta.namespace), &text(&meta.name)) {
        Some(claim) => {
            spec.access_modes.clone_from(&claim.spec.access_modes);
            spec.volume_mode.clone_from(&claim.spec.volume_mode);
        }
        None => take_modes(&mut spec, class, world, is_archive)?,
    }
    let bytes = match spec.is_block() {
        true => disk,
        false => overhead.claim_for(disk).ok_or("the size is beyond 16 EiB")?,
    };
    let least = if spec.is_block() { 0 } else { least };
    let bytes = bytes.max(class.map_or(0, storage_profile::smallest)).max(least);
    if bytes > disk || requests.is_none() {
        let resources = spec.resources.get_or_insert_default();
        resources.requests.insert("storage".to_owned(), api::quantity::Quantity::of_bytes(bytes));
        if let Some(limit) = resources.limits.get("storage").and_then(api::quantity::Quantity::bytes)
            && limit < bytes
        {
            resources.limits.insert("storage".to_owned(), api::quantity::Quantity::of_bytes(bytes));
        }
    }
    let disk = (!spec.is_block()).then_some(disk);
    Ok(RequestedClaim { spec, class, disk, grows: None })
}

/// Takes missing access modes and volume mode from the StorageProfile of the class. Without a class, and if
/// the profile has none, the modes that every provisioner supports are used.
fn take_modes(
    spec: &mut ClaimSpec,
    class: Option<&StorageClass>,
    world: &World,
    is_archive: bool,
) -> Result<(), String> {
    if is_archive && spec.volume_mode.is_none() {
        spec.volume_mode = Some(FILE_SYSTEM.to_owned());
    }
    let sets = class.map(|class| storage_profile::claim_property_sets(world, class));
    let sets = sets.as_deref().unwrap_or_default();
    if let (true, None, true, Some(class)) =
        (spec.access_modes.is_empty(), &spec.volume_mode, sets.is_empty(), class)
    {
        let name = class.meta.name.as_deref().unwrap_or_default();
        return Err(format!(
            "Spec is missing accessMode and volumeMode, cannot get access mode from StorageProfile {name}: \
             its provisioner {} makes no volumes; set spec.storage.storageClassName to another StorageClass",
            class.provisioner
        ));
    }
    ClaimPropertySet::fill(sets, &mut spec.access_modes, &mut spec.volume_mode);
    if spec.access_modes.is_empty() {
        spec.access_modes.push(ONE.to_owned());
    }
    Ok(())
}

/// The class of the PVC, written by name, since the default class may change.
fn class<'a>(spec: &mut ClaimSpec, world: &'a World, is_archive: bool) -> Option<&'a StorageClass> {
    if spec.storage_class_name.as_deref() == Some("") {
        return None;
    }
    let class = world.storage_class(spec.storage_class_name.as_deref(), !is_archive)?;
    spec.storage_class_name = class.meta.name.clone();
    Some(class)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    fn volume(spec: &Value) -> DataVolume {
        let labels = json!({"instancetype.kubevirt.io/default-preference": "f", "app": "mine", "notkubevirt.io/a": "b"});
        let meta = json!({"name": "disk", "namespace": "n", "uid": "1", "labels": labels, "annotations": {AT_ONCE: ""}});
        api::wire::read(json!({"metadata": meta, "spec": spec})).unwrap()
    }

    fn world() -> World {
        let mut world = World::default();
        let annotations = json!({"storageclass.kubernetes.io/is-default-class": "true"});
        let class = json!({"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "p"});
        world.put(Kind::StorageClass, class, Timestamp::UNIX_EPOCH);
        world
    }

    fn storage(mode: Option<&str>) -> Value {
        json!({"source": {"blank": {}}, "storage": {"resources": {"requests": {"storage": "1Gi"}}, "volumeMode": mode}})
    }

    #[test]
    fn storage_is_filled_in_and_has_room_for_its_file_system() {
        let world = world();
        let volume = volume(&storage(None));
        let wanted = RequestedClaim::new(&volume, &world, Overhead::default()).unwrap();
        assert_eq!(wanted.disk, Some(1 << 30));
        let object = object(&volume, &wanted, &[]);
        assert_eq!(
            object["spec"],
            json!({
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Filesystem",
                "storageClassName": "fast",
                "resources": {"requests": {"storage": "1138166334"}},
            })
        );
        let labels = &object["metadata"]["labels"];
        assert_eq!(labels["instancetype.kubevirt.io/default-preference"], "f");
        assert_eq!(
            (&labels["app"], &labels["notkubevirt.io/a"]),
            (&json!("containerized-data-importer"), &Value::Null)
        );
        assert_eq!(object["metadata"]["annotations"][AT_ONCE], "");
    }

    #[test]
    fn a_device_is_as_large_as_the_disk_and_a_pvc_is_taken_as_it_stands() {
        let world = world();
        let wanted = |spec| {
            RequestedClaim::new(&volume(&spec), &world, Overhead::default())
                .map(|wanted| (wanted.spec, wanted.disk))
        };
        let (spec, disk) = wanted(storage(Some("Block"))).unwrap();
        assert_eq!((spec.storage().unwrap().as_str(), disk), ("1Gi", None));
        let pvc = json!({"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}});
        let (spec, disk) = wanted(json!({"source": {"blank": {}}, "pvc": pvc})).unwrap();
        assert_eq!((spec.storage().unwrap().as_str(), disk), ("1Gi", Some(966 << 20)));
    }

    /// A cluster whose default class can do what `sets` says.
    fn profiled(sets: &Value) -> World {
        let mut world = world();
        let profile = json!({"metadata": {"name": "fast"}, "spec": {"claimPropertySets": sets}});
        world.put(Kind::StorageProfile, profile, Timestamp::UNIX_EPOCH);
        world
    }

    fn sets() -> Value {
        json!([
            {"accessModes": ["ReadWriteMany"], "volumeMode": "Block"},
            {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "volumeMode": "Filesystem"},
        ])
    }

    /// Access modes and volume mode that a DataVolume gets whose `storage` says these.
    fn modes(world: &World, said: &Value) -> (Vec<String>, Option<String>) {
        let mut spec = storage(None);
        cluster_model::plan::merge(&mut spec["storage"], said);
        let spec = RequestedClaim::new(&volume(&spec), world, Overhead::default()).unwrap().spec;
        (spec.access_modes, spec.volume_mode)
    }

    #[test]
    fn modes_that_are_left_out_are_those_of_the_storage_profile() {
        let world = profiled(&sets());
        let of = |said: Value| {
            let (access, volume) = modes(&world, &said);
            (access.join(" "), volume.unwrap_or_default())
        };
        let is = |access: &str, volume: &str| (access.to_owned(), volume.to_owned());
        assert_eq!(of(json!({})), is("ReadWriteMany", "Block"));
        assert_eq!(of(json!({"volumeMode": "FromStorageProfile"})), is("ReadWriteMany", "Block"));
        let filesystem = of(json!({"volumeMode": "Filesystem"}));
        assert_eq!(filesystem, is("ReadWriteOnce ReadOnlyMany", "Filesystem"));
        let read_by_many = of(json!({"accessModes": ["ReadOnlyMany"], "volumeMode": "FromStorageProfile"}));
        assert_eq!(read_by_many, is("ReadOnlyMany", "Filesystem"));
        assert_eq!(of(json!({"accessModes": ["ReadWriteMany"]})), is("ReadWriteMany", "Block"));
        // In no set: Kubernetes' own default.
        assert_eq!(of(json!({"accessModes": ["ReadWriteOncePod"]})), is("ReadWriteOncePod", ""));
        let both = of(json!({"accessModes": ["ReadWriteOnce"], "volumeMode": "Block"}));
        assert_eq!(both, is("ReadWriteOnce", "Block"));
        // Without a class there is no profile.
        assert_eq!(of(json!({"storageClassName": ""})), is("ReadWriteOnce", ""));
    }

    #[test]
    fn a_volume_mode_that_is_in_no_set_gets_what_every_provisioner_can_do() {
        let world = profiled(&json!([{"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}]));
        let (access, volume) = modes(&world, &json!({"volumeMode": "Filesystem"}));
        assert_eq!((access.join(" ").as_str(), volume.as_deref()), ("ReadWriteOnce", Some("Filesystem")));
    }

    #[test]
    fn an_archive_is_in_a_file_system_though_devices_are_preferred() {
        let world = profiled(&sets());
        let mut spec = storage(None);
        spec["contentType"] = json!("archive");
        let volume = volume(&spec);
        let wanted = RequestedClaim::new(&volume, &world, Overhead::default()).unwrap();
        assert_eq!(wanted.spec.volume_mode.as_deref(), Some("Filesystem"));
        assert_eq!(wanted.spec.access_modes, ["ReadWriteOnce", "ReadOnlyMany"]);
    }

    /// The PVC is what it is, whatever the StorageProfile has become; a size is of that PVC.
    #[test]
    fn a_pvc_that_is_there_keeps_its_modes() {
        let mut world = profiled(&sets());
        let spec = json!({"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"});
        let claim = json!({"metadata": {"name": "disk", "namespace": "n", "uid": "2"}, "spec": spec});
        world.put(Kind::PersistentVolumeClaim, claim, Timestamp::UNIX_EPOCH);
        let volume = volume(&storage(None));
        let wanted = RequestedClaim::new(&volume, &world, Overhead::default()).unwrap();
        assert_eq!(wanted.spec.access_modes, ["ReadWriteOnce"]);
        assert_eq!((wanted.spec.is_block(), wanted.disk), (false, Some(1 << 30)));
    }

    #[test]
    fn small_requests_grow_to_the_smallest_volume_of_the_class() {
        let mut world = profiled(&sets());
        let annotations = json!({
            "storageclass.kubernetes.io/is-default-class": "true",
            "cdi.kubevirt.io/minimumSupportedPvcSize": "4Gi",
        });
        let class = json!({"metadata": {"name": "fast", "annotations": annotations}, "provisioner": "p"});
        world.put(Kind::StorageClass, class, Timestamp::UNIX_EPOCH);
        let asked = |mode: &str, size: &str| {
            let mut spec = storage(Some(mode));
            spec["storage"]["resources"] =
                json!({"requests": {"storage": size}, "limits": {"storage": size}});
            let wanted = RequestedClaim::new(&volume(&spec), &world, Overhead::default()).unwrap();
            let resources = wanted.spec.resources.unwrap();
            let bytes = |sizes: &std::collections::BTreeMap<String, api::quantity::Quantity>| {
                sizes["storage"].bytes().unwrap()
            };
            (bytes(&resources.requests), bytes(&resources.limits), wanted.disk)
        };
        let gib = |count: u64| count << 30;
        assert_eq!(asked("Block", "1Gi"), (gib(4), gib(4), None));
        assert_eq!(asked("Block", "5Gi"), (gib(5), gib(5), None));
        assert_eq!(asked("Filesystem", "1Gi"), (gib(4), gib(4), Some(gib(1))));
        assert_eq!(asked("Filesystem", "5Gi").2, Some(gib(5)));
        assert!(asked("Filesystem", "5Gi").0 > gib(5));
    }

    #[test]
    fn a_class_that_makes_no_volumes_is_refused_by_name() {
        let mut world = world();
        let class = json!({"metadata": {"name": "buckets"}, "provisioner": "rook-ceph.ceph.rook.io/bucket"});
        world.put(Kind::StorageClass, class, Timestamp::UNIX_EPOCH);
        let mut spec = storage(None);
        spec["storage"]["storageClassName"] = json!("buckets");
        let why = RequestedClaim::new(&volume(&spec), &world, Overhead::default()).unwrap_err();
        assert!(
            why.starts_with("Spec is missing accessMode and volumeMode, cannot get access mode from StorageProfile buckets"),
            "{why}"
        );
    }

    #[test]
    fn what_is_no_pvc_is_refused_by_name() {
        let world = world();
        let refused = |spec| RequestedClaim::new(&volume(&spec), &world, Overhead::default()).unwrap_err();
        let pvc = json!({"resources": {"requests": {"storage": "1Gi"}}});
        assert!(refused(json!({"pvc": pvc})).contains("access mode"));
        let small = json!({"resources": {"requests": {"storage": "1Ki"}}});
        assert!(refused(json!({"storage": small})).contains("1MiB"));
        let mut archive = storage(Some("Block"));
        archive["contentType"] = json!("archive");
        assert_eq!(refused(archive), "ContentType Archive cannot have block volumeMode");
    }
}
