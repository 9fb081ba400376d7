//! Preferences about fields that are fixed when a VM is written. Applied at the start they would come too
//! late: the defaults fill these fields when the VM is written.

use crate::instancetype::PreferenceSpec;
use crate::vm::VirtualMachine;

/// Sets the architecture, the machine type and the StorageClass of DataVolumes that the VM leaves unset.
pub fn at_write(vm: &mut VirtualMachine, preference: &PreferenceSpec) {
    let said = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    if let Some(template) = &mut vm.spec.template {
        let is_open = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
        if is_open(&template.spec.architecture)
            && let Some(architecture) = said(&preference.preferred_architecture)
        {
            template.spec.architecture = Some(architecture);
        }
        let preferred = preference.machine.as_ref().and_then(|machine| said(&machine.preferred_machine_type));
        if let Some(preferred) = preferred {
            let board = template.spec.domain.machine.get_or_insert_default();
            if board.r#type.is_empty() {
                board.r#type = preferred;
            }
        }
    }
    let class = preference.volumes.as_ref().and_then(|volumes| said(&volumes.preferred_storage_class_name));
    let Some(class) = class else { return };
    for template in &mut vm.spec.data_volume_templates {
        // An empty name is a choice: no StorageClass.
        if let Some(claim) = &mut template.spec.pvc {
            claim.storage_class_name.get_or_insert_with(|| class.clone());
        }
        if let Some(storage) = &mut template.spec.storage {
            storage.storage_class_name.get_or_insert_with(|| class.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{self, Wire};
    use serde_json::{Value, json};

    fn written(vm: &Value) -> Value {
        let mut vm: VirtualMachine = wire::read(vm.clone()).unwrap();
        let preference = json!({
            "preferredArchitecture": "arm64", "machine": {"preferredMachineType": "virt"},
            "volumes": {"preferredStorageClassName": "fast"},
        });
        at_write(&mut vm, &wire::read(preference).unwrap());
        vm.write()
    }

    #[test]
    fn what_a_vm_leaves_open_is_filled_in_and_what_it_says_stays() {
        let vm = |spec: Value, storage: Value| {
            json!({"metadata": {}, "spec": {
                "template": {"spec": spec},
                "dataVolumeTemplates": [{"metadata": {"name": "d"}, "spec": {"storage": storage}}],
            }})
        };
        let open = written(&vm(json!({"domain": {"devices": {}}}), json!({})));
        assert_eq!(open["spec"]["template"]["spec"]["architecture"], "arm64");
        assert_eq!(open["spec"]["template"]["spec"]["domain"]["machine"]["type"], "virt");
        assert_eq!(open["spec"]["dataVolumeTemplates"][0]["spec"]["storage"]["storageClassName"], "fast");
        let said = vm(
            json!({"architecture": "amd64", "domain": {"devices": {}, "machine": {"type": "q35"}}}),
            json!({"storageClassName": ""}),
        );
        assert_eq!(written(&said), said);
    }
}
