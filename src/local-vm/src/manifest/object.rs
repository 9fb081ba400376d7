//! Objects of a manifest, by kind.
//!
//! ```text
//!  document ──► apiVersion, kind ──► VirtualMachine(VMI) ──► VMI      (of a VirtualMachine: its template)
//!                  │                 DataVolume, PersistentVolumeClaim, Secret, ConfigMap
//!                  │                 instance types and preferences ([`super::instance_types`])
//!                  │                 List ──► its items
//!                  └──► any other: a warning that names it
//! ```

use super::finding::{Finding, Origin};
use super::host_disk;
use super::instance_types::{self, MatchedSpec};
use crate::imported_disks::ImportedDisks;
use crate::place::check_name;
use api::claim::PersistentVolumeClaim;
use api::config_map::ConfigMap;
use api::data_volume::DataVolume;
use api::fault::{Fault, Reason};
use api::instancetype::MatcherKind;
use api::machine::machine_type_map::MachineTypeMap;
use api::machine::non_domain::{FieldOwner, non_domain_fields};
use api::machine::warnings::warnings;
use api::meta::ObjectMeta;
use api::secret::Secret;
use api::vm::{RunStrategy, Template, VirtualMachine};
use api::vmi::VirtualMachineInstance;
use api::wire::{self, Path, Wire, known_values};
use api::yaml::Document;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum depth of nested lists.
const LISTS: usize = 4;

/// An object and its place in the manifest.
#[derive(Debug, Clone)]
pub struct Located<T> {
    pub object: T,
    pub origin: Origin,
}

/// All objects of a manifest.
#[derive(Debug, Default)]
pub struct Objects {
    /// VMIs in the order of the text, including those of VM templates.
    pub vmis: Vec<Located<VirtualMachineInstance>>,
    /// DataVolumes by name, including the templates of VMs.
    pub data_volumes: BTreeMap<String, Located<DataVolume>>,
    /// Names of the DataVolumes that are templates of VMs.
    pub template_volumes: BTreeSet<String>,
    pub pvcs: BTreeMap<String, Located<PersistentVolumeClaim>>,
    pub secrets: BTreeMap<String, Located<Secret>>,
    pub config_maps: BTreeMap<String, Located<ConfigMap>>,
    /// The objects were made from the arguments of a command, not read from a manifest.
    pub is_of_arguments: bool,
    /// The VM is tested and removed: it writes to no disk of the pool that it has not imported.
    pub is_for_test: bool,
    /// Disks of the pool that were imported for these objects.
    pub imported: ImportedDisks,
    /// Instance types and preferences, by kind and name.
    pub(super) matched_specs: BTreeMap<(MatcherKind, String), MatchedSpec>,
    /// VMs with an instance type or a preference, until all documents are read.
    pub(super) unexpanded: Vec<Located<VirtualMachine>>,
    pub faults: Vec<Finding>,
    pub warnings: Vec<Finding>,
}

impl Objects {
    /// Adds a document, or the items of a List.
    pub fn add(&mut self, file: &Arc<str>, document: Document) {
        let origin = Origin { file: Arc::clone(file), lines: document.lines, before: String::new() };
        self.add_value(document.value, origin, 0);
    }

    fn add_value(&mut self, value: Value, origin: Origin, depth: usize) {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (version, kind) = (text("apiVersion"), text("kind"));
        if let Some(kind) = instance_types::kind(&version, &kind) {
            return self.add_matched(kind, value, origin);
        }
        match (version.as_str(), kind.as_str()) {
            ("kubevirt.io/v1" | "kubevirt.io/v1alpha3", "VirtualMachine") => self.vm(value, origin),
            ("kubevirt.io/v1" | "kubevirt.io/v1alpha3", "VirtualMachineInstance") => {
                self.vmi(value, origin);
            }
            ("cdi.kubevirt.io/v1beta1", "DataVolume") => {
                if let Some(written) = self.read::<DataVolume>(value, origin, |object| &object.metadata) {
                    self.data_volume(written);
                }
            }
            ("v1", "PersistentVolumeClaim") => {
                let written = self.read::<PersistentVolumeClaim>(value, origin, |object| &object.metadata);
                insert(&mut self.pvcs, &mut self.faults, written, |object| &object.metadata);
            }
            ("v1", "Secret") => {
                let written = self.read::<Secret>(value, origin, |object| &object.metadata);
                insert(&mut self.secrets, &mut self.faults, written, |object| &object.metadata);
            }
            ("v1", "ConfigMap") => {
                let written = self.read::<ConfigMap>(value, origin, |object| &object.metadata);
                insert(&mut self.config_maps, &mut self.faults, written, |object| &object.metadata);
            }
            ("v1", list) if list.ends_with("List") && depth < LISTS => self.list(value, &origin, depth),
            ("", _) => self.faults.push(
                origin
                    .finding("apiVersion", "an object needs an apiVersion")
                    .hint("write apiVersion: and kind:"),
            ),
            (_, "") => self.faults.push(origin.finding("kind", "an object needs a kind")),
            _ => {
                let what = format!("{kind} of {version} is not used here, and was left out");
                self.warnings.push(origin.finding("kind", what));
            }
        }
    }

    fn list(&mut self, mut value: Value, origin: &Origin, depth: usize) {
        let items = value.get_mut("items").map(Value::take);
        let Some(Value::Array(items)) = items else {
            self.faults.push(origin.finding("items", "a list must have items"));
            return;
        };
        for (i, item) in items.into_iter().enumerate() {
            let lines = origin.lines.below(&format!("items[{i}]"));
            let origin = Origin { file: Arc::clone(&origin.file), lines, before: String::new() };
            self.add_value(item, origin, depth + 1);
        }
    }

    /// Reads an object, with its faults, its unknown fields, and its name.
    pub(super) fn read<T: Wire>(
        &mut self,
        value: Value,
        origin: Origin,
        meta: impl Fn(&T) -> &ObjectMeta,
    ) -> Option<Located<T>> {
        // An object whose fields have faults is checked further, so that all faults are reported at once.
        let mut faults = Vec::new();
        let object = wire::read_in_part::<T>(value, &mut faults);
        self.faults.extend(faults.iter().map(|fault| origin.fault(fault)));
        let object = object?;
        for field in wire::unknown(&object) {
            self.warnings.push(origin.finding(field.path.as_str(), field.to_string()));
        }
        let name = meta(&object).name.clone().unwrap_or_default();
        if name.is_empty() {
            let hint = match meta(&object).generate_name.is_some() {
                true => "write metadata.name: generateName is for a server that completes it",
                false => "write metadata.name",
            };
            self.faults.push(origin.finding("metadata.name", "an object must have a name").hint(hint));
            return None;
        }
        if let Err(e) = check_name(&name) {
            self.faults.push(origin.finding("metadata.name", e.to_string()));
            return None;
        }
        Some(Located { object, origin })
    }

    fn vmi(&mut self, value: Value, origin: Origin) {
        if let Some(written) = self.read::<VirtualMachineInstance>(value, origin, |object| &object.metadata) {
            self.add_vmi(written);
        }
    }

    fn vm(&mut self, value: Value, origin: Origin) {
        let Some(written) = self.read::<VirtualMachine>(value, origin, |object| &object.metadata) else {
            return;
        };
        let Located { object: vm, origin } = written;
        self.faults.extend(judge(&vm.spec).iter().map(|fault| origin.fault(fault)));
        for (i, template) in vm.spec.data_volume_templates.iter().cloned().enumerate() {
            let at = format!("spec.dataVolumeTemplates[{i}]");
            let object = DataVolume {
                api_version: Some(api::data_volume::API_VERSION.to_owned()),
                kind: Some("DataVolume".to_owned()),
                metadata: template.metadata.unwrap_or_default(),
                spec: template.spec,
                ..DataVolume::default()
            };
            let lines = origin.lines.below(&at);
            let own = Origin { file: Arc::clone(&origin.file), lines, before: String::new() };
            match &object.metadata.name {
                Some(name) if check_name(name).is_ok() => {
                    self.template_volumes.insert(name.clone());
                    self.data_volume(Located { object, origin: own });
                }
                _ => {
                    let what = "a DataVolume must have a name";
                    self.faults.push(origin.finding(&format!("{at}.metadata.name"), what));
                }
            }
        }
        let Some(template) = vm.spec.template.clone() else {
            self.faults
                .push(origin.finding("spec.template", "a VirtualMachine must have a template of its VMI"));
            return;
        };
        if vm.spec.instancetype.is_some() || vm.spec.preference.is_some() {
            return self.unexpanded.push(Located { object: vm, origin });
        }
        self.add_template(vm.metadata, template, origin);
    }

    /// Adds the VMI of a VM's template.
    pub(super) fn add_template(&mut self, metadata: ObjectMeta, template: Template, origin: Origin) {
        let of_template = template.metadata.unwrap_or_default();
        let mut own = ObjectMeta { name: metadata.name, namespace: metadata.namespace, ..of_template };
        own.uid = metadata.uid;
        let object = VirtualMachineInstance {
            api_version: Some(api::vm::API_VERSION.to_owned()),
            kind: Some("VirtualMachineInstance".to_owned()),
            metadata: own,
            spec: template.spec,
            ..VirtualMachineInstance::default()
        };
        self.add_vmi(Located { object, origin: Origin { before: "spec.template".to_owned(), ..origin } });
    }

    fn add_vmi(&mut self, mut vmi: Located<VirtualMachineInstance>) {
        self.faults.extend(host_disk::locate(&mut vmi));
        let name = &vmi.object.metadata.name;
        if self.vmis.iter().any(|known| known.object.metadata.name == *name) {
            let what = format!("another VM has the name {:?}, too", name.as_deref().unwrap_or_default());
            self.faults.push(vmi.origin.finding("metadata.name", what));
        }
        for (path, whose) in non_domain_fields(&vmi.object.spec, &Path::of("spec")) {
            if !matches!(whose, FieldOwner::Defaults | FieldOwner::Device) {
                let what = format!("this belongs to {whose}, which is not here, and has no effect");
                self.warnings.push(vmi.origin.finding(path.as_str(), what));
            }
        }
        for (path, note) in warnings(&vmi.object.spec, &Path::of("spec"), &MachineTypeMap::default()) {
            self.warnings.push(vmi.origin.finding(path.as_str(), note));
        }
        self.vmis.push(vmi);
    }

    fn data_volume(&mut self, written: Located<DataVolume>) {
        let faults = super::volume::judge(&written.object);
        self.faults.extend(faults.iter().map(|fault| written.origin.fault(fault)));
        insert(&mut self.data_volumes, &mut self.faults, Some(written), |object| &object.metadata);
    }
}

/// Faults of a VM that only a VirtualMachine can have, not its VMI.
fn judge(spec: &api::vm::Spec) -> Vec<Fault> {
    let mut faults = vec![];
    if spec.running.is_some() && spec.run_strategy.is_some() {
        let what = "Running and RunStrategy are mutually exclusive. Note that Running is deprecated, please use RunStrategy instead";
        faults.push(Fault::new("spec.running", Reason::Invalid, what));
    }
    if let Some(RunStrategy::Other(word)) = &spec.run_strategy {
        let what = format!("Invalid RunStrategy ({word}); {}", known_values(word, RunStrategy::KNOWN));
        faults.push(Fault::new("spec.runStrategy", Reason::Invalid, what));
    }
    faults
}

/// Adds an object under its name, which must be unique in its kind.
fn insert<T>(
    known: &mut BTreeMap<String, Located<T>>,
    faults: &mut Vec<Finding>,
    written: Option<Located<T>>,
    meta: impl Fn(&T) -> &ObjectMeta,
) {
    let Some(written) = written else { return };
    let name = meta(&written.object).name.clone().unwrap_or_default();
    if let Some(first) = known.get(&name) {
        let what = format!(
            "another object of this kind is called {name:?} too, in {}:{}",
            first.origin.file,
            first.origin.lines.line("metadata.name")
        );
        faults.push(written.origin.finding("metadata.name", what));
        return;
    }
    known.insert(name, written);
}
