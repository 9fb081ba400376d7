//! Check of a manifest for support by clusters of this version. Pure: it calls the check of admission, with
//! its messages.

use super::usage;
use crate::error::{Error, ErrorKind, Result};
use api::crd::KINDS;
use api::data_volume::DataVolume;
use api::defaults::{self, DefaultsContext};
use api::fault::{Fault, Reason};
use api::instancetype::{Matcher, Role};
use api::machine::{Machine, Settings};
use api::quantity::Quantity;
use api::uuid;
use api::vm::VirtualMachine;
use api::wire::{self, Path};
use serde_json::{Value, json};

/// Fields, and the flags that set them. The first flag is named if none of them was given.
const FLAGS: [(&str, &[&str]); 8] = [
    ("spec.instancetype", &["--instancetype", "--infer-instancetype", "--infer-instancetype-from"]),
    ("spec.preference", &["--preference", "--infer-preference", "--infer-preference-from"]),
    (
        "spec.dataVolumeTemplate",
        &["--volume-import", "--volume-datasource", "--volume-clone-pvc", "--volume-blank"],
    ),
    ("spec.runStrategy", &["--run-strategy"]),
    ("spec.template.spec.accessCredentials", &["--access-cred"]),
    ("spec.template.spec.domain.memory", &["--memory"]),
    ("spec.template.spec.terminationGracePeriodSeconds", &["--termination-grace-period"]),
    ("spec.template.spec.volumes", &VOLUMES),
];
const VOLUMES: [&str; 14] = [
    "--volume-containerdisk",
    "--volume-pvc",
    "--volume-import",
    "--volume-datasource",
    "--volume-clone-pvc",
    "--volume-blank",
    "--volume-sysprep",
    "--user",
    "--password-file",
    "--ssh-key",
    "--ga-manage-ssh",
    "--cloud-init",
    "--cloud-init-user-data",
    "--cloud-init-network-data",
];

/// A note about a kind that clusters of this version do not serve, or a DataVolume that they do not fill.
pub(super) fn note(object: &Value) -> Option<String> {
    let kind = object["kind"].as_str()?;
    if !KINDS.iter().any(|served| served.kind == kind) {
        let words = "the manifest is for a cluster that has it";
        return Some(format!("coracle: clusters of this version do not serve {kind} yet; {words}"));
    }
    let vm: VirtualMachine = wire::read(object.clone()).ok()?;
    let unfilled = vm.spec.data_volume_templates.into_iter().find_map(|template| {
        let metadata = template.metadata.unwrap_or_default();
        let name = metadata.name.clone().unwrap_or_default();
        let volume = DataVolume { metadata, spec: template.spec, ..DataVolume::default() };
        let faults: Vec<String> =
            api::job::check_in_cluster(&volume).iter().map(ToString::to_string).collect();
        (!faults.is_empty()).then(|| (name, faults.join("; ")))
    });
    let (name, faults) = unfilled?;
    Some(format!("coracle: clusters of this version do not fill the DataVolume {name}: {faults}"))
}

/// Fails if clusters of this version refuse the VM, whatever their settings are. `given` are the flags that
/// it was made from.
pub(super) fn check(object: &Value, given: &[&str]) -> Result<()> {
    let vm: VirtualMachine = wire::read(object.clone()).map_err(|faults| refused(&faults, given))?;
    let faults = faults_of(&vm);
    if faults.is_empty() { Ok(()) } else { Err(refused(&faults, given)) }
}

fn faults_of(vm: &VirtualMachine) -> Vec<Fault> {
    let spec = &vm.spec;
    let mut faults = Vec::new();
    for matcher in Role::ALL.into_iter().filter_map(|role| Matcher::from_spec(spec, role)) {
        faults.extend(matcher.faults(None));
    }
    for (i, template) in spec.data_volume_templates.iter().enumerate() {
        if let Some((field, other)) = template.spec.unchecked_reference(vm.metadata.namespace.as_deref()) {
            let at = format!("spec.dataVolumeTemplates[{i}].spec.{field}");
            let what = format!("not supported: it is in the namespace {other}");
            let fault = Fault::new(at, Reason::NotSupported, what);
            faults.push(fault.hint("name the namespace of the VM by --namespace, if it is the same"));
        }
    }
    if let Some(mut vmi) = defaults::vmi_of(vm).filter(|_| faults.is_empty()) {
        // The instance type sets the memory; any value serves for this check.
        if spec.instancetype.is_some() {
            vmi.spec.domain.memory.get_or_insert_default().guest.get_or_insert(Quantity::of_bytes(1 << 30));
        }
        let name = vmi.metadata.name.as_deref().unwrap_or_default();
        let given = DefaultsContext::new(uuid::of_vm(name));
        defaults::apply(&mut vmi, &given);
        let settings = Settings::of_cluster(&json!({"spec": {}})).at_path(Path::of("spec.template.spec"));
        faults.extend(Machine::check(&vmi, &settings).err().into_iter().flatten());
    }
    faults
}

fn refused(faults: &[Fault], given: &[&str]) -> Error {
    let first = faults.first();
    let flags = FLAGS.iter().find(|(start, _)| first.is_some_and(|fault| fault.field.starts_with(start)));
    let flags = flags.map(|(_, flags)| {
        let said: Vec<&str> = flags.iter().copied().filter(|flag| given.contains(flag)).collect();
        if said.is_empty() { flags.iter().copied().take(1).collect() } else { said }
    });
    let hint = first.and_then(|fault| fault.hint.clone());
    let said: Vec<String> = faults
        .iter()
        .map(
            |fault| {
                if fault.message.contains(&fault.field) { fault.message.clone() } else { fault.to_string() }
            },
        )
        .collect();
    let said = said.join("; ");
    let what = match flags.map(|flags| flags.join(", ")) {
        Some(flags) => format!("clusters of this version refuse what {flags} asks for: {said}"),
        None => format!("clusters of this version refuse such a VM: {said}"),
    };
    let error = Error::new(ErrorKind::Refused, what);
    match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

/// Checks that the flag `--memory` has a quantity.
pub(super) fn memory(text: &str) -> Result<&str> {
    match Quantity::parse(text) {
        Ok(_) => Ok(text),
        Err(_) => Err(usage(format!(
            "failed to parse \"--memory\" flag: {text} is not a quantity: say 512Mi or 2Gi"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The webhook refuses it, since the permission to read the VolumeSnapshot is not checked.
    #[test]
    fn a_snapshot_of_another_namespace_is_refused_by_its_field() {
        let vm = |source: Value| {
            let spec = json!({"source": source, "storage": {"resources": {"requests": {"storage": "1Gi"}}}});
            let vm = json!({
                "kind": "VirtualMachine",
                "metadata": {"name": "web", "namespace": "n"},
                "spec": {"dataVolumeTemplates": [{"metadata": {"name": "d"}, "spec": spec}], "template": {"spec": {
                    "domain": {"memory": {"guest": "64Mi"}, "devices": {}},
                    "volumes": [{"name": "d", "dataVolume": {"name": "d"}}],
                }}},
            });
            check(&vm, &[])
        };
        let of = |namespace: &str| json!({"snapshot": {"namespace": namespace, "name": "shot"}});
        let refused = vm(of("other")).unwrap_err().to_string();
        assert!(refused.contains("spec.dataVolumeTemplates[0].spec.source.snapshot.namespace"), "{refused}");
        for own in [of("n"), json!({"pvc": {"namespace": "other", "name": "a"}})] {
            assert!(vm(own.clone()).is_ok(), "{own}");
        }
    }

    #[test]
    fn what_a_cluster_of_this_version_does_not_do_alone_is_noted() {
        let vm = |spec: Value| note(&json!({"kind": "VirtualMachine", "spec": spec}));
        assert_eq!(vm(json!({"template": {}})), None);
        let disk = |source: Value| {
            let storage = json!({"resources": {"requests": {"storage": "1Gi"}}});
            let spec = json!({"source": source, "storage": storage});
            vm(json!({"template": {}, "dataVolumeTemplates": [{"metadata": {"name": "d"}, "spec": spec}]}))
        };
        assert_eq!(disk(json!({"http": {"url": "https://a.example/disk"}})), None);
        let said = disk(json!({"vddk": {}})).unwrap();
        assert!(said.contains("do not fill the DataVolume d: spec.source.vddk"), "{said}");
        let said = note(&json!({"kind": "VirtualMachineClone"})).unwrap();
        assert!(said.contains("do not serve VirtualMachineClone yet"), "{said}");
    }
}
