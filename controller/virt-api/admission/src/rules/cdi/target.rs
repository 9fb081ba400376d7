//! The PVC of a DataVolume: size, access modes, class, and external population.

use super::{NAME, name_fits, wrong};
use api::claim::DataReference;
use api::data_volume::Spec;
use api::fault::Fault;

/// Minimum size of a disk.
const LEAST: u64 = 1 << 20;
const MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Validates `pvc` or `storage`.
pub(super) fn check(spec: &Spec, at: &str) -> Result<(), Vec<Fault>> {
    let class = match (&spec.pvc, &spec.storage) {
        (None, None) => return Err(wrong(format!("{at}.PVC"), "Missing Data volume PVC")),
        (Some(_), Some(_)) => {
            let message = "Duplicate storage definition, both target storage and target pvc defined";
            return Err(wrong(format!("{at}.PVC.Storage"), message));
        }
        (Some(pvc), None) => &pvc.storage_class_name,
        (None, Some(storage)) => &storage.storage_class_name,
    };
    size(spec, at)?;
    name_fits(class.as_deref(), NAME)?;
    access_modes(spec, at)
}

/// Validates the size. A clone may take it from its source.
fn size(spec: &Spec, at: &str) -> Result<(), Vec<Fault>> {
    let noun = if spec.pvc.is_some() { "PVC" } else { "Storage" };
    let refused =
        |why: &str| wrong(format!("{at}.{noun}.resources.requests.size"), format!("{noun} size {why}"));
    let is_clone = spec.source_ref.is_some()
        || spec.source.as_ref().is_some_and(|source| source.pvc.is_some() || source.snapshot.is_some());
    match spec.size() {
        Some(size) if size.nanos() <= 0 => Err(refused("can't be equal or less than zero")),
        Some(size) if size.bytes().is_some_and(|bytes| bytes < LEAST) => {
            Err(refused("should be at least 1MiB"))
        }
        None if spec.pvc.is_some() || !is_clone => Err(refused("is missing")),
        _ => Ok(()),
    }
}

fn access_modes(spec: &Spec, at: &str) -> Result<(), Vec<Fault>> {
    let refused = |why: String| Err(wrong(format!("{at}.PVC.accessModes"), why));
    let modes = match (&spec.pvc, &spec.storage) {
        (Some(pvc), _) if pvc.access_modes.is_empty() => {
            return refused("Required value: at least 1 access mode is required".to_owned());
        }
        (Some(pvc), _) if pvc.access_modes.len() > 1 => {
            return refused("PVC multiple accessModes".to_owned());
        }
        (Some(pvc), _) => &pvc.access_modes,
        (None, Some(storage)) => &storage.access_modes,
        (None, None) => return Ok(()),
    };
    match modes.iter().find(|mode| !MODES.contains(&mode.as_str())) {
        Some(mode) => {
            let known = MODES.map(|mode| format!("{mode:?}")).join(", ");
            refused(format!("Unsupported value: \"{mode}\": supported values: {known}"))
        }
        None => Ok(()),
    }
}

/// True if the PVC itself names its source.
pub(super) fn is_filled_otherwise(spec: &Spec) -> bool {
    spec.data_references().iter().any(Option::is_some)
}

/// Validates a PVC with its own source.
pub(super) fn check_population(spec: &Spec, at: &str) -> Result<(), Vec<Fault>> {
    let mut faults = Vec::new();
    if spec.source.is_some() || spec.source_ref.is_some() {
        let message = "External population is incompatible with Source and SourceRef";
        faults.extend(wrong(format!("{at}.source"), message));
    }
    let [source, reference] = spec.data_references();
    let named =
        |one: &DataReference| (one.api_group.clone().unwrap_or_default(), one.kind.clone(), one.name.clone());
    if let (Some(source), Some(reference)) = (source, reference)
        && named(source) != named(reference)
    {
        faults.extend(wrong("", "DataSourceRef and DataSource must match"));
    }
    for (one, field, noun) in
        [(source, "dataSource", "DataSource"), (reference, "dataSourceRef", "DataSourceRef")]
    {
        if let Some(one) = one {
            complete(one, &format!("{at}.{field}"), noun, &mut faults);
        }
    }
    // Upstream accepts it, and its DataVolume waits for ever.
    if faults.is_empty() {
        faults.extend(spec.dropped_data_source(at));
    }
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

fn complete(one: &DataReference, at: &str, noun: &str, faults: &mut Vec<Fault>) {
    if one.namespace.as_deref().is_some_and(|other| !other.is_empty()) {
        faults.extend(wrong(
            format!("{at}.namespace"),
            format!("Invalid value: {noun} namespace not supported"),
        ));
    }
    if one.name.is_empty() {
        faults.extend(wrong(format!("{at}.name"), format!("Required value: {noun} name")));
    }
    if one.kind.is_empty() {
        faults.extend(wrong(format!("{at}.kind"), format!("Required value: {noun} kind")));
    }
    if one.api_group.as_deref().unwrap_or_default().is_empty() && one.kind != "PersistentVolumeClaim" {
        let message = format!("Required value: {noun} apiGroup when kind is not 'PersistentVolumeClaim'");
        faults.extend(wrong(format!("{at}.apiGroup"), message));
    }
}
