//! Defaults of a VM and of a VMI.
//!
//! ```text
//! VirtualMachine ─ apply_to_vm ─► its template    on create and update
//!        │ vmi_of
//!        ▼
//! VirtualMachineInstance ─ apply ─► complete      on create, by virt-api; before use by virt-controller (where no webhook
//!                                                 stood) and by `coracle run`
//! ```
//!
//! Pure: no clock, no randomness; random and configured values come in [`DefaultsContext`]. A field that is
//! set keeps its value, but for a distribution's machine type that the cluster maps to another one. Applying
//! the defaults twice has the same result as once.

mod features;
mod hardware;

use crate::machine::machine_type_map::MachineTypeMap;
use crate::vm::VirtualMachine;
use crate::vmi::{self, EvictionStrategy, Interface, Network, Phase, Probe, VirtualMachineInstance};

/// Values that the defaults need from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultsContext {
    pub uuid: String,
    /// A new serial number; `None` for a VMI, since only a VirtualMachine is given one.
    pub serial: Option<String>,
    /// The architecture of the host or the cluster.
    pub architecture: String,
    /// Default machine type. Unset: that of the architecture.
    pub machine_type: Option<String>,
    /// Mapping of distributions' machine types.
    pub machine_type_map: MachineTypeMap,
    /// Default CPU model. Unset: that of the architecture.
    pub cpu_model: Option<String>,
    /// Binding of the interface on the pod network.
    pub binding: Binding,
    /// Default eviction strategy of the cluster. Unset: none.
    pub eviction_strategy: Option<EvictionStrategy>,
    /// Ratio of the maximum number of sockets to the sockets at the start. Unset: no more sockets than at the
    /// start. (Memory hotplug is not supported yet, so no maximum is set for memory.)
    pub socket_ratio: Option<u32>,
}

/// Binding of the interface on the pod network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    Bridge,
    Masquerade,
}

impl DefaultsContext {
    /// The defaults of a cluster without configuration, with a new uuid.
    pub fn new(uuid: impl Into<String>) -> DefaultsContext {
        DefaultsContext {
            uuid: uuid.into(),
            serial: None,
            architecture: crate::architecture::Arch::DEFAULT.facts().name.to_owned(),
            machine_type: None,
            machine_type_map: MachineTypeMap::default(),
            cpu_model: None,
            binding: Binding::Bridge,
            eviction_strategy: None,
            socket_ratio: None,
        }
    }
}

/// Annotation with the version of the PCI topology of a VMI.
const PCI_TOPOLOGY: (&str, &str) = ("kubevirt.io/pci-topology-version", "v3");
/// Finalizer by which virt-handler keeps a VMI until its domain is gone.
const FINALIZER: &str = "kubevirt.io/foregroundDeleteVirtualMachine";
/// Name of the default interface and of its network.
const POD: &str = "default";

/// Sets the defaults of a VMI.
pub fn apply(vmi: &mut VirtualMachineInstance, given: &DefaultsContext) {
    let spec = &mut vmi.spec;
    let architecture = fill(&mut spec.architecture, &given.architecture).clone();
    if spec.eviction_strategy.is_none() {
        spec.eviction_strategy.clone_from(&given.eviction_strategy);
    }
    networks(spec, given.binding);
    for probe in [&mut spec.liveness_probe, &mut spec.readiness_probe].into_iter().flatten() {
        times(probe);
    }
    hardware::volumes(spec, &architecture);
    hardware::domain(&mut spec.domain, &architecture, given);
    features::features(&mut spec.domain, &architecture);

    if !vmi.metadata.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        vmi.metadata.finalizers.push(FINALIZER.to_owned());
    }
    status(vmi);
}

/// Sets the defaults of a VM and of its template.
pub fn apply_to_vm(vm: &mut VirtualMachine, given: &DefaultsContext) {
    // An inferred instance type has the kind that the labels of its volume name.
    let is_named = |volume: &Option<String>| volume.as_deref().unwrap_or_default().is_empty();
    if let Some(instancetype) = &mut vm.spec.instancetype
        && is_named(&instancetype.infer_from_volume)
    {
        instancetype.kind.get_or_insert_with(|| "VirtualMachineClusterInstancetype".to_owned());
    }
    if let Some(preference) = &mut vm.spec.preference
        && is_named(&preference.infer_from_volume)
    {
        preference.kind.get_or_insert_with(|| "VirtualMachineClusterPreference".to_owned());
    }
    let Some(template) = &mut vm.spec.template else {
        return;
    };
    let architecture = fill(&mut template.spec.architecture, &given.architecture).clone();
    hardware::machine_type(&mut template.spec.domain, &architecture, given);
    let firmware = template.spec.domain.firmware.get_or_insert_default();
    fill(&mut firmware.uuid, &given.uuid);
    if let Some(serial) = &given.serial {
        fill(&mut firmware.serial, serial);
    }
    let annotations = &mut template.metadata.get_or_insert_default().annotations;
    annotations.entry(PCI_TOPOLOGY.0.to_owned()).or_insert_with(|| PCI_TOPOLOGY.1.to_owned());
}

/// The VMI of a VM, without defaults; `None` if the VM has no template.
pub fn vmi_of(vm: &VirtualMachine) -> Option<VirtualMachineInstance> {
    let template = vm.spec.template.as_ref()?;
    let mut metadata = template.metadata.clone().unwrap_or_default();
    metadata.name.clone_from(&vm.metadata.name);
    metadata.namespace.clone_from(&vm.metadata.namespace);
    Some(VirtualMachineInstance {
        api_version: Some(crate::vm::API_VERSION.to_owned()),
        kind: Some("VirtualMachineInstance".to_owned()),
        metadata,
        spec: template.spec.clone(),
        ..VirtualMachineInstance::default()
    })
}

/// Sets the text if the field is unset or empty. Returns the resulting text.
fn fill<'a>(field: &'a mut Option<String>, text: &str) -> &'a mut String {
    if field.as_ref().is_some_and(String::is_empty) {
        *field = None;
    }
    field.get_or_insert_with(|| text.to_owned())
}

/// Adds an interface on the pod network, and that network, if the spec has neither interfaces nor networks.
pub(crate) fn networks(spec: &mut vmi::Spec, binding: Binding) {
    let devices = &mut spec.domain.devices;
    if devices.autoattach_pod_interface == Some(false)
        || !spec.networks.is_empty()
        || !devices.interfaces.is_empty()
    {
        return;
    }
    let mut interface = Interface { name: POD.to_owned(), ..Interface::default() };
    match binding {
        Binding::Bridge => interface.bridge = Some(Default::default()),
        Binding::Masquerade => interface.masquerade = Some(Default::default()),
    }
    devices.interfaces.push(interface);
    spec.networks.push(Network { name: POD.to_owned(), pod: Some(Default::default()), ..Network::default() });
}

fn times(probe: &mut Probe) {
    let fields = [
        (&mut probe.timeout_seconds, 1),
        (&mut probe.period_seconds, 10),
        (&mut probe.success_threshold, 1),
        (&mut probe.failure_threshold, 3),
    ];
    for (field, value) in fields {
        // Go clients write 0 for an unset field.
        if field.is_none_or(|value| value == 0) {
            *field = Some(value);
        }
    }
}

/// Sets the initial status, if the VMI has none.
fn status(vmi: &mut VirtualMachineInstance) {
    if vmi.status.is_some() {
        return;
    }
    let domain = &vmi.spec.domain;
    let guest = domain.memory.as_ref().and_then(|memory| memory.guest.clone());
    let (sockets, cores, threads) = crate::machine::topology(domain);
    vmi.status = Some(vmi::Status {
        phase: Some(Phase::Pending),
        runtime_user: u64::from(crate::launcher::USER),
        current_cpu_topology: Some(vmi::CpuTopology {
            cores: Some(cores),
            sockets: Some(sockets),
            threads: Some(threads),
            ..vmi::CpuTopology::default()
        }),
        memory: guest.map(|guest| vmi::MemoryStatus {
            guest_at_boot: Some(guest.clone()),
            guest_current: Some(guest.clone()),
            guest_requested: Some(guest),
            ..vmi::MemoryStatus::default()
        }),
        ..vmi::Status::default()
    });
}
