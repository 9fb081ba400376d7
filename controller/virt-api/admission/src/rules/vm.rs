//! VMs: defaults when they are written, and validation of the VMI that they would have.

use super::{
    AdmissionResponse, Operation, Request, RequestContext, clone, omitted_metadata, patch, sizes, template,
    unknown, volumes,
};
use api::defaults::{self, DefaultsContext};
use api::fault::{Fault, Reason};
use api::uuid;
use api::vm::{RunStrategy, Spec, UpdateVolumesStrategy, VirtualMachine};
use api::vmi::{MigratedVolume, Volume};
use api::wire::{self, Wire};
use cluster_model::objects::claim_of;
use std::borrow::Cow;

/// Fills defaults into the template of a VM, unless the VM is being deleted.
pub(super) fn complete(request: &Request, context: &RequestContext) -> AdmissionResponse {
    let read = |object| wire::read::<VirtualMachine>(object).ok();
    if request.is_leaving() {
        return AdmissionResponse::yes();
    }
    let Some(mut vm) = read(request.object.clone()) else { return AdmissionResponse::yes() };
    let mut given = context.given();
    given.serial = Some(context.random.1.clone());
    if request.operation == Operation::Update {
        keep(&mut given, read(request.old.clone()), &vm);
    }
    let before = vm.write();
    fill(&mut vm, &given, context);
    AdmissionResponse { patch: patch::of(&request.object, &before, &vm.write()), ..AdmissionResponse::yes() }
}

fn fill(vm: &mut VirtualMachine, given: &DefaultsContext, context: &RequestContext) {
    sizes::complete(vm, context);
    defaults::apply_to_vm(vm, given);
}

/// True if an update does not change the guest hardware, apart from defaults of this version.
fn is_same_machine(vm: &VirtualMachine, old: &VirtualMachine, context: &RequestContext) -> bool {
    let filled = |vm: &VirtualMachine| {
        let (mut given, mut vm) = (context.given(), vm.clone());
        keep(&mut given, Some(old.clone()), &vm);
        fill(&mut vm, &given, context);
        (vm.spec.template, vm.spec.instancetype, vm.spec.preference)
    };
    filled(vm) == filled(old)
}

/// Keeps UUID and serial number, so that a VM written without them keeps its identity for the guest.
fn keep(given: &mut DefaultsContext, old: Option<VirtualMachine>, new: &VirtualMachine) {
    let firmware = old
        .and_then(|old| old.spec.template)
        .and_then(|template| template.spec.domain.firmware)
        .unwrap_or_default();
    let name = new.metadata.name.as_deref().unwrap_or_default();
    given.uuid = firmware.uuid.filter(|uuid| !uuid.is_empty()).unwrap_or_else(|| uuid::of_vm(name));
    given.serial = firmware.serial.filter(|serial| !serial.is_empty());
}

/// Validates a new or changed VM.
pub(super) fn judge(request: &Request, context: &RequestContext) -> AdmissionResponse {
    // An invalid VM may still be labelled and deleted.
    if request.is_leaving()
        || request.operation == Operation::Update && request.old["spec"] == request.object["spec"]
    {
        return AdmissionResponse::yes();
    }
    let mut faults = Vec::new();
    let vm = wire::read_in_part::<VirtualMachine>(request.object.clone(), &mut faults);
    let Some(vm) = vm.filter(|_| faults.is_empty()) else { return AdmissionResponse::no(faults) };
    let mut warnings = unknown::warnings(&vm);
    let (faults, others) = look(&vm, sizes::old(request).as_ref(), context);
    warnings.extend(others);
    if vm.spec.running.is_some() {
        warnings.insert(0, "spec.running is deprecated, please use spec.runStrategy instead.".to_owned());
    }
    AdmissionResponse { faults, warnings, ..AdmissionResponse::yes() }
}

/// Faults and warnings of a VM. `old`: the VM before the update.
pub(super) fn look(
    vm: &VirtualMachine,
    old: Option<&VirtualMachine>,
    context: &RequestContext,
) -> (Vec<Fault>, Vec<String>) {
    let mut warnings = template::warnings(vm.spec.template.as_ref(), context);
    warnings.extend(omitted_metadata::of_disks(&vm.spec.data_volume_templates, context.config.annotations));
    let looked = sizes::look(vm, old, context);
    warnings.extend(looked.warnings.iter().cloned());
    let is_accepted = old.is_some_and(|old| is_same_machine(vm, old, context));
    let mut faults = faults_of(vm, looked, is_accepted, context);
    faults.extend(old.and_then(|old| half_reverted(vm, old)));
    (faults, warnings)
}

/// Fault of a VM whose volumes are being migrated, and which names other PVCs than all of the sources or all of the destinations, or another
/// PVC for another volume.
fn half_reverted(vm: &VirtualMachine, old: &VirtualMachine) -> Option<Fault> {
    let recorded = old.status.as_ref()?.volume_update_state.as_ref()?.volume_migration_state.as_ref()?;
    let goes_on = vm.spec.update_volumes_strategy == Some(UpdateVolumesStrategy::Migration);
    let volumes = &vm.spec.template.as_ref()?.spec.volumes;
    let has = |name: fn(&MigratedVolume) -> Option<&str>| {
        recorded.migrated_volumes.iter().all(|migrated| {
            let own = volumes.iter().find(|volume| volume.name == migrated.volume_name);
            own.and_then(claim_of) == name(migrated)
        })
    };
    let is_reverted_or_same = has(MigratedVolume::source) || has(MigratedVolume::destination);
    if !goes_on || is_reverted_or_same && !changes_another(volumes, old, &recorded.migrated_volumes) {
        return None;
    }
    Some(Fault::new("spec.template.spec.volumes", Reason::Invalid, api::vm::ONLY_REVERTED))
}

/// True if a volume that is not among those that are migrated has another PVC than before.
fn changes_another(volumes: &[Volume], old: &VirtualMachine, migrated: &[MigratedVolume]) -> bool {
    let claim = |volume: &Volume| claim_of(volume).filter(|_| volume.ephemeral.is_none()).map(str::to_owned);
    let before = |name: &str| {
        let mut all = old.spec.template.iter().flat_map(|template| &template.spec.volumes);
        all.find(|volume| volume.name == name).and_then(claim)
    };
    let mut others =
        volumes.iter().filter(|volume| migrated.iter().all(|one| one.volume_name != volume.name));
    others.any(|volume| {
        let names = claim(volume).zip(before(&volume.name));
        names.is_some_and(|(now, before)| now != before)
    })
}

/// Faults of a VM. `is_accepted`: the template passed the permissions of an earlier time. Such a VM can be
/// stopped. When it is started, its VMI is checked against the present permissions.
fn faults_of(
    vm: &VirtualMachine,
    sized: sizes::SizeCheck,
    is_accepted: bool,
    context: &RequestContext,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let Spec {
        running,
        run_strategy,
        // Checked already: see `sized`.
        instancetype: _,
        preference: _,
        template,
        data_volume_templates,
        update_volumes_strategy,
        other: _,
    } = &vm.spec;
    let Some(template) = template else {
        return vec![Fault::new("spec.template", Reason::Required, "missing virtual machine template.")];
    };
    strategy(*running, run_strategy.as_ref(), context, &mut faults);
    faults.extend(sized.faults);
    if let Some(UpdateVolumesStrategy::Other(word)) = update_volumes_strategy {
        let message = format!("updateVolumes strategy not recognized: {word}");
        faults.push(Fault::new("spec.updateVolumesStrategy", Reason::Invalid, message));
    }
    let namespace = vm.metadata.namespace.as_deref();
    faults.extend(volumes::templates(data_volume_templates, &template.spec.volumes, namespace));
    faults.extend(clone::faults(context));
    // Values of an unknown instance type are not reported as missing too.
    let Some(template) = &sized.template else {
        faults.extend(template::labels(template));
        return faults;
    };
    let name = vm.metadata.name.as_deref().filter(|name| !name.is_empty());
    let generated = vm.metadata.generate_name.as_ref().map(|start| format!("{start}xxxxx"));
    let name = name.map(str::to_owned).or(generated).unwrap_or_default();
    let mut context = Cow::Borrowed(context);
    if is_accepted {
        let permitted = context.permitted.clone().of_accepted();
        context.to_mut().permitted = permitted;
    }
    faults.extend(template::faults(template, &name, namespace, &context));
    faults
}

fn strategy(
    running: Option<bool>,
    strategy: Option<&RunStrategy>,
    context: &RequestContext,
    faults: &mut Vec<Fault>,
) {
    let clash = match (running, strategy) {
        (Some(_), Some(_)) => Some(
            "Running and RunStrategy are mutually exclusive. Note that Running is deprecated, please use RunStrategy \
             instead",
        ),
        (None, None) => Some("RunStrategy must be specified"),
        _ => None,
    };
    faults.extend(clash.map(|message| Fault::new("spec.running", Reason::Invalid, message)));
    let (reason, message) = match strategy {
        Some(RunStrategy::WaitAsReceiver) if context.permitted.gate("DecentralizedLiveMigration") => (
            Reason::NotSupported,
            "Invalid RunStrategy (WaitAsReceiver), migration between clusters is not supported yet".to_owned(),
        ),
        Some(RunStrategy::WaitAsReceiver) => (
            Reason::Invalid,
            "Invalid RunStrategy (WaitAsReceiver), DecentralizedLiveMigration feature gate is not enabled in kubevirt \
             resource"
                .to_owned(),
        ),
        Some(RunStrategy::Other(word)) => (Reason::Invalid, format!("Invalid RunStrategy ({word})")),
        _ => return,
    };
    faults.push(Fault::new("spec.runStrategy", reason, message));
}
