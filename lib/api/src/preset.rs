//! `VirtualMachineInstancePreset` of `kubevirt.io/v1`, deprecated: parts of the virtual hardware of the VMIs
//! with certain labels.
//!
//! ```text
//! presets of the namespace ─ selector matches the labels of the VMI ─► chosen
//!        two of them set one field to different values ─► the VMI is refused
//!        each field that the VMI leaves unset ─► set;   values of the VMI stay
//! ```
//!
//! A preset applies to new VMIs only.

use crate::fault::{Fault, Reason};
use crate::meta::{LabelSelector, ObjectMeta};
use crate::object;
use crate::vmi::{Clock, Domain, VirtualMachineInstance};
use crate::wire::Wire;

/// Warning of the API server for each use of the kind.
pub const DEPRECATED: &str =
    "kubevirt.io/v1 VirtualMachineInstancePresets is now deprecated and will be removed in v2.";
/// Annotation that excludes a VMI from all presets, if its value is `true`.
pub const EXCLUDE: &str = "virtualmachineinstancepresets.admission.kubevirt.io/exclude";
/// Prefix of the annotations of a VMI that name its presets.
const MARK: &str = "virtualmachinepreset.kubevirt.io/";
/// Longest name of an annotation, after its domain.
const LONGEST: usize = 63;
/// Most presets of one VMI: each is compared with each.
const MOST: usize = 32;
/// Size of the largest preset in bytes: all of them are kept in memory. Also the size of all presets of one
/// VMI together, which are compared and copied for each review.
pub const LARGEST: usize = 64 << 10;

object! {
    /// VirtualMachineInstancePreset, deprecated: virtual hardware of the VMIs with certain labels.
    pub struct VirtualMachineInstancePreset {
        /// API version of this object: `kubevirt.io/v1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VirtualMachineInstancePreset`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the preset: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Selector of the VMIs, and the virtual hardware that they get.
        pub spec: Spec = "spec",
    }
}

object! {
    /// Selector of the VMIs, and the virtual hardware that they get.
    pub struct Spec {
        /// Label selector of the VMIs in the namespace of the preset; an empty selector matches all VMIs.
        pub selector: LabelSelector = "selector",
        /// Virtual hardware for VMIs that leave the field unset: `resources.requests`, `cpu`, `firmware`,
        /// `clock`, `features`, `devices.watchdog` and `ioThreadsPolicy`.
        pub domain: Option<Domain> = "domain",
    }
}

/// Faults of a preset.
pub fn faults(preset: &VirtualMachineInstancePreset) -> Vec<Fault> {
    let mut faults = Vec::new();
    if preset.spec.domain.is_none() {
        faults.push(Fault::new("spec.domain", Reason::Required, "missing domain."));
    }
    let size = size(preset);
    if size > LARGEST {
        let what = format!("spec is {size} bytes long; the limit is {LARGEST}");
        faults.push(Fault::new("spec", Reason::Invalid, what));
    }
    faults
}

/// A warning for each field of a preset that has no effect.
pub fn warnings(preset: &VirtualMachineInstancePreset) -> Vec<String> {
    let Some(domain) = &preset.spec.domain else { return Vec::new() };
    let mut rest = domain.clone();
    drop(take_effective(&mut rest));
    let mut left = Vec::new();
    field_paths(&rest.write(), "spec.domain", &mut left);
    left.into_iter().map(|field| format!("{field}: no effect in a preset, set it in the VMI")).collect()
}

/// Paths of the fields that remain, with each field of `devices` and `resources`.
fn field_paths(value: &serde_json::Value, at: &str, found: &mut Vec<String>) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let path = format!("{at}.{name}");
        match name.as_str() {
            "devices" | "resources" => field_paths(value, &path, found),
            _ => found.push(path),
        }
    }
}

/// The preset with only the fields that have an effect, to save memory.
#[must_use]
pub fn reduced(mut preset: VirtualMachineInstancePreset) -> VirtualMachineInstancePreset {
    preset.spec.domain = preset.spec.domain.as_mut().map(take_effective);
    let ObjectMeta { name, namespace, uid, resource_version, .. } = preset.metadata;
    preset.metadata = ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() };
    preset
}

/// Takes the fields with an effect out of a domain.
fn take_effective(domain: &mut Domain) -> Domain {
    let mut taken = Domain {
        cpu: domain.cpu.take(),
        firmware: domain.firmware.take(),
        clock: domain.clock.take(),
        features: domain.features.take(),
        io_threads_policy: domain.io_threads_policy.take(),
        ..Domain::default()
    };
    taken.devices.watchdog = domain.devices.watchdog.take();
    if let Some(resources) = &mut domain.resources {
        taken.resources.get_or_insert_default().requests = std::mem::take(&mut resources.requests);
    }
    taken
}

/// The presets that a new VMI gets. If they are too many or too large, the result has just enough to show
/// that.
pub fn matching<'a>(
    presets: impl Iterator<Item = &'a VirtualMachineInstancePreset>,
    vmi: &ObjectMeta,
) -> impl Iterator<Item = &'a VirtualMachineInstancePreset> {
    let ObjectMeta { labels, annotations, .. } = vmi;
    let is_excluded = annotations.get(EXCLUDE).is_some_and(|said| said == "true");
    // A preset in the annotations was applied before: virt-controller applies presets before the webhook
    // does, and the API server may call the webhook twice.
    let has = move |preset: &VirtualMachineInstancePreset| {
        let name = preset.metadata.name.as_deref().unwrap_or_default();
        annotations.contains_key(&format!("{MARK}{name}"))
    };
    let mut together = 0;
    presets
        .filter(move |_| !is_excluded)
        .filter(move |preset| preset.spec.selector.matches(labels))
        .filter(move |preset| !has(preset))
        .take(MOST + 1)
        .take_while(move |preset| {
            let before = together;
            together += size(preset);
            before <= LARGEST
        })
}

/// Size of a preset's spec in bytes.
fn size(preset: &VirtualMachineInstancePreset) -> usize {
    preset.spec.write().to_string().len()
}

/// Applies the presets of the namespace to a new VMI. Returns warnings about their use and about fields that
/// were not applied. An error is the reason why the VMI must not be created.
pub fn apply<'a>(
    presets: impl Iterator<Item = &'a VirtualMachineInstancePreset>,
    vmi: &mut VirtualMachineInstance,
) -> Result<Vec<String>, String> {
    let matching: Vec<_> = matching(presets, &vmi.metadata).collect();
    bounded(&matching)?;
    let named = |preset: &'a VirtualMachineInstancePreset| {
        Some((preset.metadata.name.as_deref()?, preset.spec.domain.as_ref()?))
    };
    let chosen: Vec<(&str, &Domain)> = matching.into_iter().filter_map(named).collect();
    for (at, (name, domain)) in chosen.iter().enumerate() {
        for (other, before) in &chosen[..at] {
            if let [first, rest @ ..] = &conflicts(domain, before)[..] {
                let fields = rest.iter().fold((*first).to_owned(), |all, field| format!("{all}, {field}"));
                let what = format!(
                    "VirtualMachinePresets cannot be applied due to conflicts: presets '{name}' and '{other}' conflict: {fields}"
                );
                return Err(what);
            }
        }
    }
    let mut warnings = Vec::new();
    for (name, domain) in chosen {
        let left = conflicts(domain, &vmi.spec.domain).join(", ");
        let is_applied = merge(domain, &mut vmi.spec.domain);
        if is_applied {
            // Kubernetes does not allow a longer name of an annotation.
            if name.len() <= LONGEST {
                vmi.metadata.annotations.insert(format!("{MARK}{name}"), crate::vm::API_VERSION.to_owned());
            }
            warnings.push(DEPRECATED.to_owned());
        }
        if !left.is_empty() {
            let what = if is_applied { "Some settings were not applied for" } else { "Unable to apply" };
            warnings
                .push(format!("{what} VirtualMachineInstancePreset '{name}': the VMI has another {left}"));
        }
    }
    warnings.dedup();
    Ok(warnings)
}

/// Checks the number and the total size of the matching presets against [`MOST`] and [`LARGEST`]: [`apply`] compares each pair
/// of them.
fn bounded(matching: &[&VirtualMachineInstancePreset]) -> Result<(), String> {
    let hint = format!("delete some, or set the annotation {EXCLUDE}");
    if matching.len() > MOST {
        return Err(format!(
            "more than {MOST} VirtualMachineInstancePresets match the labels of the VMI: {hint}"
        ));
    }
    if matching.iter().map(|preset| size(preset)).sum::<usize>() > LARGEST {
        return Err(format!(
            "the VirtualMachineInstancePresets that match the labels of the VMI have more than {LARGEST} bytes \
             together: {hint}"
        ));
    }
    Ok(())
}

/// Fields that two presets set to different values.
fn conflicts<'a>(one: &'a Domain, other: &'a Domain) -> Vec<&'static str> {
    fn differ<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
        one.zip(other).is_some_and(|(one, other)| one != other)
    }
    let resources = one.resources.as_ref().zip(other.resources.as_ref());
    let requests = resources.is_some_and(|(one, other)| {
        one.requests.iter().any(|(name, value)| differ(Some(value), other.requests.get(name)))
    });
    let (ours, theirs) = (one.clock.as_ref(), other.clock.as_ref());
    let clock = |clock: &Clock| (clock.utc.clone(), clock.timezone.clone());
    let timer = |clock: Option<&'a Clock>| clock.and_then(|clock| clock.timer.as_ref());
    let parts = [
        ("spec.resources.requests", requests),
        ("spec.cpu", differ(one.cpu.as_ref(), other.cpu.as_ref())),
        ("spec.firmware", differ(one.firmware.as_ref(), other.firmware.as_ref())),
        ("spec.clock", differ(ours.map(clock).as_ref(), theirs.map(clock).as_ref())),
        ("spec.clock.timer", differ(timer(ours), timer(theirs))),
        ("spec.features", differ(one.features.as_ref(), other.features.as_ref())),
        ("spec.devices.watchdog", differ(one.devices.watchdog.as_ref(), other.devices.watchdog.as_ref())),
        ("spec.ioThreadsPolicy", differ(one.io_threads_policy.as_ref(), other.io_threads_policy.as_ref())),
    ];
    parts.into_iter().filter(|(_, differs)| *differs).map(|(part, _)| part).collect()
}

/// Sets unset fields of a VMI. Returns true if the VMI has any field of the preset with the same value.
fn merge(preset: &Domain, vmi: &mut Domain) -> bool {
    fn fill<T: Clone + PartialEq>(given: &Option<T>, field: &mut Option<T>) -> bool {
        given.as_ref().is_some_and(|given| field.get_or_insert_with(|| given.clone()) == given)
    }
    let mut is_applied = false;
    if let Some(resources) = preset.resources.as_ref().filter(|resources| !resources.requests.is_empty()) {
        let requests = &mut vmi.resources.get_or_insert_default().requests;
        if requests.is_empty() {
            requests.clone_from(&resources.requests);
        }
        is_applied |= *requests == resources.requests;
    }
    is_applied |= fill(&preset.cpu, &mut vmi.cpu);
    is_applied |= fill(&preset.firmware, &mut vmi.firmware);
    is_applied |= fill(&preset.clock, &mut vmi.clock);
    if let (Some(given), Some(clock)) = (&preset.clock, &mut vmi.clock) {
        is_applied |= fill(&given.timer, &mut clock.timer);
    }
    is_applied |= fill(&preset.features, &mut vmi.features);
    is_applied |= fill(&preset.devices.watchdog, &mut vmi.devices.watchdog);
    is_applied |= fill(&preset.io_threads_policy, &mut vmi.io_threads_policy);
    is_applied
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire;
    use serde_json::{Value, json};

    fn preset(name: &str, domain: &Value) -> VirtualMachineInstancePreset {
        let selector = json!({"matchLabels": {"app": "web"}});
        wire::read(json!({"metadata": {"name": name}, "spec": {"selector": selector, "domain": domain}}))
            .unwrap()
    }

    fn vmi(app: &str, domain: &Value) -> VirtualMachineInstance {
        wire::read(json!({"metadata": {"labels": {"app": app}}, "spec": {"domain": domain}})).unwrap()
    }

    #[test]
    fn what_a_vmi_leaves_open_is_filled_and_what_it_says_stays() {
        let small =
            preset("small", &json!({"cpu": {"cores": 2}, "resources": {"requests": {"memory": "64M"}}}));
        let mut made = vmi("web", &json!({"devices": {}}));
        assert_eq!(apply([&small].into_iter(), &mut made), Ok(vec![DEPRECATED.to_owned()]));
        let domain = made.spec.domain.write();
        assert_eq!(
            (&domain["cpu"]["cores"], &domain["resources"]["requests"]["memory"]),
            (&json!(2), &json!("64M"))
        );
        assert_eq!(made.metadata.annotations["virtualmachinepreset.kubevirt.io/small"], "kubevirt.io/v1");

        // What was completed since is not taken for the VMI's own.
        made.spec.domain.cpu.as_mut().unwrap().sockets = Some(1);
        assert_eq!(apply([&small].into_iter(), &mut made), Ok(Vec::new()));

        let mut own = vmi("web", &json!({"devices": {}, "cpu": {"cores": 4}}));
        let told = apply([&small].into_iter(), &mut own).unwrap();
        assert_eq!(own.spec.domain.write()["cpu"]["cores"], 4);
        let said = "Some settings were not applied for VirtualMachineInstancePreset 'small': the VMI has another spec.cpu";
        assert_eq!(told, [DEPRECATED, said]);

        let cpu = preset("cpu", &json!({"cpu": {"cores": 2}}));
        let mut own = vmi("web", &json!({"devices": {}, "cpu": {"cores": 4}}));
        let told = apply([&cpu].into_iter(), &mut own).unwrap();
        assert_eq!(
            told,
            ["Unable to apply VirtualMachineInstancePreset 'cpu': the VMI has another spec.cpu"]
        );
        assert!(own.metadata.annotations.is_empty());
    }

    #[test]
    fn a_vmi_of_other_labels_and_one_that_says_so_get_nothing() {
        let small = preset("small", &json!({"cpu": {"cores": 2}}));
        let mut other = vmi("db", &json!({"devices": {}}));
        assert_eq!(apply([&small].into_iter(), &mut other), Ok(Vec::new()));
        let mut excluded = vmi("web", &json!({"devices": {}}));
        excluded.metadata.annotations.insert(EXCLUDE.to_owned(), "true".to_owned());
        assert_eq!(apply([&small].into_iter(), &mut excluded), Ok(Vec::new()));
        assert_eq!((other.spec.domain.cpu, excluded.spec.domain.cpu), (None, None));
    }

    #[test]
    fn presets_that_contradict_each_other_and_too_many_are_refused() {
        let (two, four) =
            (preset("two", &json!({"cpu": {"cores": 2}})), preset("four", &json!({"cpu": {"cores": 4}})));
        let mut made = vmi("web", &json!({"devices": {}}));
        let why = apply([&two, &four].into_iter(), &mut made).unwrap_err();
        assert!(why.ends_with("presets 'four' and 'two' conflict: spec.cpu"), "{why}");
        let many: Vec<_> = (0..=MOST).map(|number| preset(&format!("p{number}"), &json!({}))).collect();
        assert!(apply(many.iter(), &mut made).unwrap_err().contains("more than 32"));
        assert_eq!(apply(many[1..].iter(), &mut made), Ok(Vec::new()));
    }

    /// Each is as large as one may be, and they agree: nothing but their sum speaks against them.
    #[test]
    fn presets_are_refused_by_what_they_say_together() {
        let large = |number: usize| {
            let mut requests: serde_json::Map<String, Value> =
                (0..2500).map(|at| (format!("example.com/r{at}"), json!("1"))).collect();
            requests.insert(format!("example.com/own{number}"), json!("1"));
            preset(&format!("p{number}"), &json!({"resources": {"requests": requests}}))
        };
        let many: Vec<_> = (0..MOST).map(large).collect();
        assert!(many.iter().all(|preset| faults(preset).is_empty()));
        let mut made = vmi("web", &json!({"devices": {}}));
        let why = apply(many.iter(), &mut made).unwrap_err();
        assert!(why.contains("more than 65536 bytes together: delete some"), "{why}");
        assert_eq!(matching(many.iter(), &made.metadata).count(), 2, "a review has copies of them");
        assert_eq!(apply(many[..1].iter(), &mut made), Ok(vec![DEPRECATED.to_owned()]));
    }

    #[test]
    fn what_no_vmi_gets_of_a_preset_is_not_kept() {
        let domain = json!({
            "cpu": {"cores": 2}, "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
            "memory": {"guest": "1Gi"}, "devices": {"watchdog": {"name": "w"}, "autoattachSerialConsole": true},
        });
        let mut whole = preset("a", &domain);
        whole.metadata.labels.insert("app".to_owned(), "web".to_owned());
        let kept = reduced(whole);
        assert!(warnings(&kept).is_empty() && kept.metadata.labels.is_empty(), "{kept:?}");
        let (mut of_all, mut of_kept) =
            (vmi("web", &json!({"devices": {}})), vmi("web", &json!({"devices": {}})));
        assert_eq!(
            apply([&preset("a", &domain)].into_iter(), &mut of_all),
            apply([&kept].into_iter(), &mut of_kept)
        );
        assert_eq!(of_all, of_kept);
    }

    #[test]
    fn what_no_vmi_gets_is_named() {
        let domain = json!({
            "cpu": {"cores": 2}, "memory": {"guest": "1Gi"}, "resources": {"limits": {"cpu": "1"}},
            "devices": {"watchdog": {"name": "w"}, "autoattachSerialConsole": true},
        });
        let told = warnings(&preset("a", &domain));
        let fields: Vec<&str> = told.iter().filter_map(|told| told.split(':').next()).collect();
        assert_eq!(
            fields,
            [
                "spec.domain.devices.autoattachSerialConsole",
                "spec.domain.memory",
                "spec.domain.resources.limits"
            ]
        );
        let none: VirtualMachineInstancePreset = wire::read(json!({"spec": {}})).unwrap();
        assert_eq!(faults(&none)[0].message, "missing domain.");
        let features: Vec<Value> =
            (0..5000).map(|number| json!({"name": format!("feature{number}")})).collect();
        assert_eq!(faults(&preset("a", &json!({"cpu": {"features": features}})))[0].field, "spec");
    }
}
