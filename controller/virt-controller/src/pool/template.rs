//! The template of a pool, and the VMs that are created from it.

use super::hardware;
use super::metadata::{self, SUMS};
use crate::sum_rule::SumRule;
use api::meta::{LocalReference, ObjectMeta};
use api::pool::{FAILING_SINCE, NameGeneration, REVISION};
use api::vm::{Spec, VirtualMachine};
use api::vmi::Volume;
use api::wire::{self, Wire};
use cluster_model::metadata::{FENCING, SCALE_IN};
use cluster_model::objects::names::{self, fnv};
use cluster_model::objects::{Key, Kind, World, owner};
use cluster_model::plan::Plan;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The rule of the checksums.
const RULE: SumRule = SumRule(1);

/// The template of a pool.
pub(super) struct Template {
    pool: ObjectMeta,
    made: api::pool::Template,
    names: NameGeneration,
    pub(super) sums: Sums,
}

/// Checksums of a template, to compare its versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sums {
    /// Of all of it.
    pub(super) all: String,
    /// Checksum of the VMI's template.
    pub(super) vmi: String,
    /// Checksum of the DataVolume templates.
    pub(super) disks: String,
    /// Checksum of the run strategy. `None` in the annotation of a VM that an earlier version wrote.
    pub(super) strategy: Option<String>,
}

impl Sums {
    /// Checksums in the annotation of a VM, if they are of today's rule.
    pub(super) fn from_vm(vm: &VirtualMachine) -> Option<Sums> {
        let noted = RULE.read(vm.metadata.annotations.get(SUMS)?)?;
        let mut parts = noted.split('.').map(str::to_owned);
        let (all, vmi, disks) = (parts.next()?, parts.next()?, parts.next()?);
        Some(Sums { all, vmi, disks, strategy: parts.next() })
    }

    /// Text of the annotation. Earlier versions read its first three parts.
    fn text(&self) -> String {
        let strategy = self.strategy.iter().map(String::as_str);
        let parts: Vec<&str> = [&*self.all, &self.vmi, &self.disks].into_iter().chain(strategy).collect();
        RULE.note(&parts.join("."))
    }
}

impl Template {
    pub(super) fn new(
        pool: &ObjectMeta,
        made: api::pool::Template,
        names: Option<NameGeneration>,
    ) -> Template {
        let names = names.unwrap_or_default();
        let sum = |parts: Value| format!("{:016x}", fnv(&parts.to_string()));
        let written = made.write();
        let spec = &written["spec"];
        // From whichever of its two fields is set.
        let strategy = VirtualMachine { spec: made.spec.clone(), ..VirtualMachine::default() }.run_strategy();
        let sums = Sums {
            all: sum(json!([written, names.write()])),
            vmi: sum(json!([spec["template"], spec["instancetype"], spec["preference"], names.write()])),
            disks: sum(spec["dataVolumeTemplates"].clone()),
            strategy: Some(sum(json!(strategy.to_string()))),
        };
        Template { pool: pool.clone(), made, names, sums }
    }

    /// The name of the VM with a number.
    pub(super) fn name(&self, number: usize) -> String {
        format!("{}-{number}", self.pool.name.as_deref().unwrap_or_default())
    }

    /// The number of a VM.
    pub(super) fn number(&self, vm: &VirtualMachine) -> Option<usize> {
        let start = format!("{}-", self.pool.name.as_deref().unwrap_or_default());
        vm.metadata.name.as_deref()?.strip_prefix(&start)?.parse().ok()
    }

    /// The name of the ControllerRevision with this state of the pool: the one that VMs name already, else one after the
    /// generation, which also rises with the number of VMs.
    pub(super) fn revision(&self, ours: &[&VirtualMachine]) -> String {
        let is_this = |vm: &&&VirtualMachine| Sums::from_vm(vm).is_some_and(|sums| sums.all == self.sums.all);
        let known = ours.iter().filter(is_this).find_map(|vm| vm.metadata.labels.get(REVISION));
        let known = known.filter(|name| names::is_name(name)).cloned();
        known.unwrap_or_else(|| {
            let (name, generation) = (self.pool.name.as_deref(), self.pool.generation);
            names::label(&format!("{}-{}", name.unwrap_or_default(), generation.unwrap_or_default()))
        })
    }

    /// Creates the ControllerRevision of the pool, if it does not exist.
    pub(super) fn create_revision(&self, revision: &str, pool: &Value, plan: &mut Plan) {
        let at = Key::new(
            Kind::ControllerRevision,
            self.pool.namespace.clone().unwrap_or_default(),
            revision.to_owned(),
        );
        let object = json!({
            "apiVersion": Kind::ControllerRevision.api_version(),
            "kind": Kind::ControllerRevision.name(),
            "metadata": {
                "name": revision,
                "namespace": self.pool.namespace,
                "ownerReferences": [self.owner()],
            },
            "data": pool["spec"],
            "revision": self.pool.generation.unwrap_or_default(),
        });
        plan.create(at, object);
    }

    /// Deletes a ControllerRevision that no VM names any more, if it is the pool's.
    pub(super) fn drop(&self, revision: &str, plan: &mut Plan) {
        if names::is_name(revision) {
            let namespace = self.pool.namespace.clone().unwrap_or_default();
            plan.delete_of(Key::new(Kind::ControllerRevision, namespace, revision), &self.pool);
        }
    }

    fn owner(&self) -> Value {
        owner::reference(Kind::VirtualMachinePool, &self.pool)
    }

    /// The VM with a number.
    pub(super) fn vm(&self, number: usize, revision: &str) -> VirtualMachine {
        let written = self.made.metadata.clone().unwrap_or_default();
        let mut vm = VirtualMachine {
            api_version: Some(api::vm::API_VERSION.to_owned()),
            kind: Some(Kind::VirtualMachine.name().to_owned()),
            metadata: ObjectMeta {
                name: Some(self.name(number)),
                namespace: self.pool.namespace.clone(),
                labels: written.labels,
                annotations: written.annotations,
                owner_references: wire::read(self.owner()).into_iter().collect(),
                ..ObjectMeta::default()
            },
            spec: self.spec(number),
            ..VirtualMachine::default()
        };
        // Who may not end the fencing of a VM does not end it by way of a pool.
        vm.metadata.annotations.remove(FENCING);
        vm.metadata.annotations.remove(FAILING_SINCE);
        vm.metadata.annotations.remove(SCALE_IN);
        metadata::note(&mut vm.metadata);
        vm.metadata.annotations.insert(SUMS.to_owned(), self.sums.text());
        vm.metadata.labels.insert(REVISION.to_owned(), revision.to_owned());
        if let Some(template) = &mut vm.spec.template {
            let metadata = template.metadata.get_or_insert_default();
            metadata.annotations.remove(FENCING);
            metadata.labels.insert(REVISION.to_owned(), revision.to_owned());
        }
        vm
    }

    /// True if a VM has no sums of this template, and is not to be changed: its state of the template is not known, or it has this
    /// state of the template and an earlier version wrote its sums.
    pub(super) fn lacks_checksums(&self, vm: &VirtualMachine) -> bool {
        Sums::from_vm(vm).is_none_or(|sums| sums.all == self.sums.all && sums.strategy.is_none())
    }

    /// The VM with the sums of this template in its annotation.
    pub(super) fn with_checksums(&self, vm: &VirtualMachine) -> VirtualMachine {
        let mut next = vm.clone();
        next.metadata.annotations.insert(SUMS.to_owned(), self.sums_of(Sums::from_vm(vm)).text());
        next
    }

    /// Sums of a VM that is written. The VM keeps its disks until it is created again.
    fn sums_of(&self, was: Option<Sums>) -> Sums {
        let disks = was.map_or_else(|| self.sums.disks.clone(), |was| was.disks);
        Sums { disks, ..self.sums.clone() }
    }

    /// Desired state of a VM. Fields that the template has not changed keep the values that were completed
    /// when the VM was written. The run strategy stays unless the template is known to have changed it: a user starts and stops VMs
    /// one by one.
    pub(super) fn updated(
        &self,
        world: &World,
        vm: &VirtualMachine,
        number: usize,
        revision: &str,
    ) -> VirtualMachine {
        let made = self.vm(number, revision);
        let was = Sums::from_vm(vm);
        let mut next = vm.clone();
        metadata::update(&mut next.metadata, made.metadata);
        next.spec = made.spec;
        let strategy = was.as_ref().and_then(|was| was.strategy.as_ref());
        if strategy.is_none_or(|strategy| Some(strategy) == self.sums.strategy.as_ref()) {
            next.spec.run_strategy.clone_from(&vm.spec.run_strategy);
            next.spec.running = vm.spec.running;
        }
        if was.as_ref().is_some_and(|was| was.vmi == self.sums.vmi) {
            next.spec.template.clone_from(&vm.spec.template);
            next.spec.instancetype.clone_from(&vm.spec.instancetype);
            next.spec.preference.clone_from(&vm.spec.preference);
            if let Some(template) = &mut next.spec.template {
                let labels = &mut template.metadata.get_or_insert_default().labels;
                labels.insert(REVISION.to_owned(), revision.to_owned());
            }
        } else {
            hardware::complete(world, vm, &mut next);
        }
        if let Some(was) = was {
            if was.disks == self.sums.disks {
                next.spec.data_volume_templates.clone_from(&vm.spec.data_volume_templates);
            }
            next.metadata.annotations.insert(SUMS.to_owned(), self.sums_of(Some(was)).text());
        }
        next
    }

    /// The spec of the VM with a number: names of its own for its disks, and for what is asked for besides.
    fn spec(&self, number: usize) -> Spec {
        let mut spec = self.made.spec.clone();
        let end = format!("-{number}");
        let mut disks = BTreeSet::new();
        for template in &mut spec.data_volume_templates {
            if let Some(name) = template.metadata.as_mut().and_then(|metadata| metadata.name.as_mut()) {
                disks.insert(name.clone());
                name.push_str(&end);
            }
        }
        for volume in spec.template.iter_mut().flat_map(|template| &mut template.spec.volumes) {
            let claim = volume.persistent_volume_claim.as_mut().map(|claim| &mut claim.claim_name);
            let disk = volume.data_volume.as_mut().map(|disk| &mut disk.name);
            for name in claim.into_iter().chain(disk).filter(|name| disks.contains(name.as_str())) {
                name.push_str(&end);
            }
            if self.names.append_index_to_config_map_refs == Some(true) {
                maps(volume).for_each(|name| name.push_str(&end));
            }
            if self.names.append_index_to_secret_refs == Some(true) {
                secrets(volume).for_each(|name| name.push_str(&end));
            }
        }
        spec
    }
}

fn name_of(reference: &mut Option<LocalReference>) -> Option<&mut String> {
    reference.as_mut()?.name.as_mut()
}

/// The names of the ConfigMaps of a volume.
fn maps(volume: &mut Volume) -> impl Iterator<Item = &mut String> {
    let own = volume.config_map.as_mut().and_then(|source| source.name.as_mut());
    let sysprep = volume.sysprep.as_mut().and_then(|sysprep| name_of(&mut sysprep.config_map));
    own.into_iter().chain(sysprep)
}

/// The names of the Secrets of a volume.
fn secrets(volume: &mut Volume) -> impl Iterator<Item = &mut String> {
    let own = volume.secret.as_mut().and_then(|source| source.secret_name.as_mut());
    let sysprep = volume.sysprep.as_mut().and_then(|sysprep| name_of(&mut sysprep.secret));
    let seeds = volume.cloud_init_no_cloud.iter_mut().chain(&mut volume.cloud_init_config_drive);
    let seeds = seeds.flat_map(|seed| {
        [&mut seed.secret_ref, &mut seed.network_data_secret_ref].into_iter().filter_map(name_of)
    });
    own.into_iter().chain(sysprep).chain(seeds)
}

/// Number of VMs that name each ControllerRevision.
pub(super) fn revisions<'a>(vms: &[&'a VirtualMachine]) -> BTreeMap<&'a str, usize> {
    let mut count = BTreeMap::new();
    for name in vms.iter().filter_map(|vm| vm.metadata.labels.get(REVISION)) {
        *count.entry(name.as_str()).or_default() += 1;
    }
    count
}
