//! Objects that a VM refers to and the manifest does not have: all reported at once, with their lines, before
//! anything is fetched.

use super::image::Images;
use super::pool::Pool;
use crate::error::Result;
use crate::manifest::{Finding, Located, Objects};
use api::meta::LocalReference;
use api::vmi::VirtualMachineInstance;

/// A finding for each missing object.
pub fn find(
    vmi: &Located<VirtualMachineInstance>,
    objects: &Objects,
    images: &Images,
) -> Result<Vec<Finding>> {
    let mut found = vec![];
    let mut need = |at: String, kind: &str, name: Option<&str>, there: bool| {
        let Some(name) = name.filter(|name| !name.is_empty() && !there) else { return };
        let what = format!("there is no {kind} {name:?} in the manifest");
        found.push(vmi.origin.finding(&at, what).hint(format!("add the {kind} to the same file or folder")));
    };
    let has_disk =
        |name: &str| match objects.data_volumes.contains_key(name) || objects.pvcs.contains_key(name) {
            true => Ok(true),
            false => Pool::has(images, name),
        };
    let secret = |name: Option<&str>| name.is_some_and(|name| objects.secrets.contains_key(name));
    let map = |name: Option<&str>| name.is_some_and(|name| objects.config_maps.contains_key(name));
    let local =
        |reference: &Option<LocalReference>| reference.as_ref().and_then(|reference| reference.name.clone());
    for (i, volume) in vmi.object.spec.volumes.iter().enumerate() {
        let at = |field: &str| format!("spec.volumes[{i}].{field}");
        if let Some(pvc) = &volume.persistent_volume_claim {
            let name = pvc.claim_name.as_str();
            need(at("persistentVolumeClaim.claimName"), "PersistentVolumeClaim", Some(name), has_disk(name)?);
        }
        if let Some(pvc) = volume.ephemeral.as_ref().and_then(|e| e.persistent_volume_claim.as_ref()) {
            let name = pvc.claim_name.as_str();
            let field = at("ephemeral.persistentVolumeClaim.claimName");
            need(field, "PersistentVolumeClaim", Some(name), has_disk(name)?);
        }
        if let Some(source) = &volume.data_volume {
            need(at("dataVolume.name"), "DataVolume", Some(&source.name), has_disk(&source.name)?);
        }
        if let Some(source) = volume.secret.as_ref().filter(|source| source.optional != Some(true)) {
            let name = source.secret_name.as_deref();
            need(at("secret.secretName"), "Secret", name, secret(name));
        }
        if let Some(source) = volume.config_map.as_ref().filter(|source| source.optional != Some(true)) {
            let name = source.name.as_deref();
            need(at("configMap.name"), "ConfigMap", name, map(name));
        }
        if let Some(sysprep) = &volume.sysprep {
            let name = local(&sysprep.secret);
            need(at("sysprep.secret.name"), "Secret", name.as_deref(), secret(name.as_deref()));
            let name = local(&sysprep.config_map);
            need(at("sysprep.configMap.name"), "ConfigMap", name.as_deref(), map(name.as_deref()));
        }
        let seeds = [
            ("cloudInitNoCloud", &volume.cloud_init_no_cloud),
            ("cloudInitConfigDrive", &volume.cloud_init_config_drive),
        ];
        for (kind, seed) in seeds {
            let Some(seed) = seed else { continue };
            let name = local(&seed.secret_ref);
            need(at(&format!("{kind}.secretRef.name")), "Secret", name.as_deref(), secret(name.as_deref()));
            let name = local(&seed.network_data_secret_ref);
            need(
                at(&format!("{kind}.networkDataSecretRef.name")),
                "Secret",
                name.as_deref(),
                secret(name.as_deref()),
            );
        }
    }
    for (i, credential) in vmi.object.spec.access_credentials.iter().enumerate() {
        let sources = [
            ("sshPublicKey", credential.ssh_public_key.as_ref().and_then(|keys| keys.source.secret.as_ref())),
            (
                "userPassword",
                credential.user_password.as_ref().and_then(|words| words.source.secret.as_ref()),
            ),
        ];
        for (kind, source) in sources {
            let Some(source) = source else { continue };
            let at = format!("spec.accessCredentials[{i}].{kind}.source.secret.secretName");
            need(at, "Secret", Some(&source.secret_name), secret(Some(&source.secret_name)));
        }
    }
    found.extend(pull_secrets(vmi));
    Ok(found)
}

/// Findings for pull secrets. Registries get the user's own login here, so a Secret in the manifest must not
/// seem to be used.
fn pull_secrets(vmi: &Located<VirtualMachineInstance>) -> Vec<Finding> {
    let spec = &vmi.object.spec;
    let disks = spec.volumes.iter().enumerate().filter_map(|(i, volume)| {
        let secret = volume.container_disk.as_ref()?.image_pull_secret.as_deref()?;
        Some((format!("spec.volumes[{i}].containerDisk.imagePullSecret"), secret))
    });
    let boot = spec.domain.firmware.as_ref().and_then(|firmware| firmware.kernel_boot.as_ref());
    let kernel = boot.and_then(|boot| boot.container.as_ref()).and_then(|c| c.image_pull_secret.as_deref());
    let kernel =
        kernel.map(|secret| ("spec.domain.firmware.kernelBoot.container.imagePullSecret".into(), secret));
    let named = disks.chain(kernel).filter(|(_, secret)| !secret.is_empty());
    let told = named.map(|(field, _)| {
        let finding = vmi.origin.finding(&field, "not supported on a laptop");
        finding.hint("remove it; images are pulled with your own login (docker login, podman login)")
    });
    told.collect()
}
