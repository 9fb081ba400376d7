//! The ConfigMap `kubevirt-config`, in which KubeVirt up to 0.35 had its settings. Older guides still create it.
//!
//! ```text
//!  data of the ConfigMap ─► KEYS ─┬─► a field of the KubeVirt object, where that says nothing ─► Adoption::taken
//!                                 └─► no effect, for a reason                              ─► Adoption::unserved
//! ```
//!
//! **The KubeVirt object always wins.** A setting is written into a field that is unset, once: the annotation
//! [`TAKEN`] records the value. A field that was changed or removed since stays as it is. Where the ConfigMap has
//! another value later, the field follows, unless the KubeVirt object says otherwise meanwhile. A setting stays
//! when the ConfigMap is deleted: it is a setting of the KubeVirt object from then on.

use super::served::{DEPRECATED, Unserved};
use crate::machine::hardware::{MOST, is_folder};
use crate::quantity::Quantity;
use serde_json::{Map, Value, json};

/// Name of the ConfigMap, in the namespace of the installation.
pub const NAME: &str = "kubevirt-config";
/// The annotation of the KubeVirt object with the settings that were taken from the ConfigMap: a JSON object with
/// the value of each field.
pub const TAKEN: &str = "kubevirt.io/taken-from-kubevirt-config";
/// Most bytes of a text, and most entries of a list.
const LONGEST: usize = 253;
const ENTRIES: usize = 64;
/// Most keys without effect that are named.
const NAMED: usize = 32;
const NOT_READ: &str = "it is not read from a ConfigMap";

/// Form of a value in the ConfigMap, where every value is text.
#[derive(Clone, Copy)]
enum Form {
    /// `true` or `false`.
    Flag,
    /// A whole number from one to another.
    Number(u32, u32),
    Quantity,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A text without spaces.
    Text,
    /// A path of a directory.
    Folder,
    /// Texts between commas.
    List,
    /// `KEY=VALUE`, one a line.
    Labels,
    /// Not read, for this reason.
    No(&'static str),
}

use Form::{Flag, Folder, Labels, List, No, Number, Word};

/// Each key, its field below `spec` of the KubeVirt object, and its form.
const KEYS: &[(&str, &str, Form)] = &[
    ("cpu-allocation-ratio", "configuration.developerConfiguration.cpuAllocationRatio", Number(1, MOST)),
    ("cpu-request", "configuration.cpuRequest", Form::Quantity),
    ("debug.useEmulation", "configuration.developerConfiguration.useEmulation", Flag),
    ("default-cpu-model", "configuration.cpuModel", Form::Text),
    (
        "default-network-interface",
        "configuration.network.defaultNetworkInterface",
        Word(&["bridge", "masquerade"]),
    ),
    ("dev.imagePullPolicy", "configuration.imagePullPolicy", Word(&["Always", "IfNotPresent", "Never"])),
    ("emulated-machines", "configuration.emulatedMachines", List),
    ("feature-gates", "configuration.developerConfiguration.featureGates", List),
    ("machine-type", "configuration.machineType", Form::Text),
    ("memBalloonStatsPeriod", "configuration.memBalloonStatsPeriod", Number(0, MOST)),
    ("memory-overcommit", "configuration.developerConfiguration.memoryOvercommit", Number(1, MOST)),
    ("migrations", "configuration.migrations", No(NOT_READ)),
    ("node-selectors", "configuration.developerConfiguration.nodeSelectors", Labels),
    ("ovmfPath", "configuration.ovmfPath", Folder),
    ("permitBridgeInterfaceOnPodNetwork", "configuration.network.permitBridgeInterfaceOnPodNetwork", Flag),
    ("permitSlirpInterface", "configuration.network.permitSlirpInterface", No(DEPRECATED)),
    ("permittedHostDevices", "configuration.permittedHostDevices", No(NOT_READ)),
    (
        "pvc-tolerate-less-space-up-to-percent",
        "configuration.developerConfiguration.pvcTolerateLessSpaceUpToPercent",
        Number(0, 100),
    ),
    ("selinuxLauncherType", "configuration.selinuxLauncherType", Form::Text),
    ("smbios", "configuration.smbios", No(NOT_READ)),
    ("supported-guest-agent", "configuration.supportedGuestAgentVersions", No(DEPRECATED)),
];

/// Fields that hold in place of another one: where the first is set, the second has nothing to say.
const STRONGER: [(&str, &str); 4] = [
    ("configuration.architectureConfiguration.amd64.emulatedMachines", "configuration.emulatedMachines"),
    ("configuration.architectureConfiguration.amd64.machineType", "configuration.machineType"),
    ("configuration.architectureConfiguration.amd64.ovmfPath", "configuration.ovmfPath"),
    ("imagePullPolicy", "configuration.imagePullPolicy"),
];

/// Result of reading the ConfigMap into a KubeVirt object.
#[derive(Debug, Default, PartialEq)]
pub struct Adoption {
    /// Settings that were written into the object now: `KEY as spec.FIELD`.
    pub taken: Vec<String>,
    /// Keys without effect.
    pub unserved: Vec<Unserved>,
}

/// Writes the settings of the ConfigMap's `data` into a KubeVirt object, where it says nothing about them.
pub fn adopt(data: &Value, object: &mut Value) -> Adoption {
    let mut adoption = Adoption::default();
    let mut record = record(object);
    let before = record.clone();
    for (key, text) in data.as_object().into_iter().flatten() {
        let text = text.as_str().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        match adopt_one(key, text, object, &mut record) {
            Ok(Some(field)) => adoption.taken.push(format!("{key} as spec.{field}")),
            Ok(None) => {}
            Err(_) if adoption.unserved.len() == NAMED => {}
            Err(why) => {
                let key: String = key.chars().take(64).collect();
                adoption.unserved.push(Unserved { field: format!("ConfigMap {NAME}, key {key}"), why });
            }
        }
    }
    if record != before {
        object["metadata"]["annotations"][TAKEN] = json!(Value::Object(record).to_string());
    }
    adoption
}

/// The field that is written now, or the reason why the key has no effect.
fn adopt_one(
    key: &str,
    text: &str,
    object: &mut Value,
    record: &mut Map<String, Value>,
) -> Result<Option<&'static str>, String> {
    let Some((_, field, form)) = KEYS.iter().find(|(name, ..)| *name == key) else {
        return Err("KubeVirt has no setting of this name".to_owned());
    };
    if let No(why) = form {
        return Err(format!("{why}; the field of today is spec.{field}"));
    }
    let value = form.read(text).map_err(|wanted| {
        let text: String = text.chars().take(64).collect();
        format!("{text:?} is not {wanted}; the field of today is spec.{field}")
    })?;
    let spec = &object["spec"];
    let mut stronger = STRONGER.iter().filter(|(_, weaker)| weaker == field);
    if let Some((stronger, _)) = stronger.find(|(stronger, _)| !is_unset(at(spec, stronger))) {
        return Err(format!("the KubeVirt object has spec.{stronger}, which holds"));
    }
    let (current, known) = (at(spec, field), record.get(*field));
    if *current == value {
        return Ok(None);
    }
    let is_ours = known.is_some_and(|known| known == current) || known.is_none() && is_unset(current);
    let is_new = known.is_some_and(|known| *known != value) && is_unset(current);
    if !(is_ours || is_new) {
        return Err(format!("the KubeVirt object decides, by spec.{field}"));
    }
    if !set(object, field, value.clone()) {
        return Err(format!("the KubeVirt object has no place for spec.{field}"));
    }
    record.insert((*field).to_owned(), value);
    Ok(Some(*field))
}

/// The settings that were taken before.
fn record(object: &Value) -> Map<String, Value> {
    let text = object["metadata"]["annotations"][TAKEN].as_str().unwrap_or_default();
    let mut record: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    record.retain(|field, _| KEYS.iter().any(|(_, known, _)| known == field));
    record
}

fn at<'v>(spec: &'v Value, field: &str) -> &'v Value {
    field.split('.').fold(spec, |value, step| &value[step])
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Sets a field below `spec`. Returns false if something else is in its way.
fn set(object: &mut Value, field: &str, value: Value) -> bool {
    let mut place = object;
    for step in ["spec"].into_iter().chain(field.split('.')) {
        if place.is_null() {
            *place = json!({});
        }
        let Some(fields) = place.as_object_mut() else { return false };
        place = fields.entry(step).or_insert(Value::Null);
    }
    *place = value;
    true
}

impl Form {
    /// The value in the form of the KubeVirt object, or what it would have to be.
    fn read(self, text: &str) -> Result<Value, String> {
        let is_text = |text: &str| {
            !text.is_empty() && text.len() <= LONGEST && text.chars().all(|c| c.is_ascii_graphic())
        };
        let read = match self {
            Flag => text.parse::<bool>().ok().map(|flag| json!(flag)),
            Number(least, most) => {
                let number = text.parse::<u32>().ok().filter(|number| (least..=most).contains(number));
                number.map(|number| json!(number))
            }
            Form::Quantity => {
                let quantity = Quantity::parse(text).ok().filter(|quantity| quantity.nanos() >= 0);
                quantity.map(|quantity| json!(quantity.as_str()))
            }
            Word(known) => known.contains(&text).then(|| json!(text)),
            Form::Text => is_text(text).then(|| json!(text)),
            Folder => is_folder(text).then(|| json!(text)),
            List => {
                let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
                let entries: Vec<&str> = entries.take(ENTRIES + 1).collect();
                let is_right = entries.len() <= ENTRIES && entries.iter().all(|entry| is_text(entry));
                (is_right && !entries.is_empty()).then(|| json!(entries))
            }
            Labels => {
                let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).take(ENTRIES + 1);
                let label = |line: &str| {
                    let (key, value) = line.split_once('=')?;
                    let is_right =
                        is_text(key) && (value.is_empty() || is_text(value)) && !value.contains('=');
                    is_right.then(|| (key.to_owned(), json!(value)))
                };
                let labels: Option<Map<String, Value>> = lines.map(label).collect();
                labels.filter(|labels| labels.len() <= ENTRIES).map(Value::Object)
            }
            No(_) => None,
        };
        read.ok_or_else(|| self.description())
    }

    fn description(self) -> String {
        match self {
            Flag => "true or false".to_owned(),
            Number(least, most) => format!("a number from {least} to {most}"),
            Form::Quantity => "a quantity, at least 0".to_owned(),
            Word(known) => format!("one of {}", known.join(", ")),
            Form::Text => format!("a text without spaces, of at most {LONGEST} bytes"),
            Folder => "the path of a directory from the root".to_owned(),
            List => format!("a list of at most {ENTRIES} texts, with commas between them"),
            Labels => format!("a list of at most {ENTRIES} lines KEY=VALUE"),
            No(why) => why.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
