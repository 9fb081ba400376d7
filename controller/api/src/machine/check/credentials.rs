//! Keys that are handed to the guest.

use super::super::{Credential, KeyWay, Volume};
use super::Check;
use super::volume::{Volumes, required_name};
use crate::meta::Empty;
use crate::vmi;
use crate::wire::Path;

pub(super) fn credentials(
    credentials: &[vmi::AccessCredential],
    volumes: &Volumes<'_>,
    at: &Path,
    check: &mut Check<'_>,
) -> Vec<Credential> {
    let mut result = Vec::new();
    for (i, vmi::AccessCredential { ssh_public_key, user_password, other: _ }) in
        credentials.iter().enumerate()
    {
        let at = at.child("accessCredentials").index(i);
        match (ssh_public_key, user_password) {
            (Some(keys), None) => result.extend(ssh(keys, volumes, &at, check)),
            // Only the guest agent could set a password, and nobody asks it to yet.
            (None, Some(_)) => {
                check.not_yet_or(at.child("userPassword"), "set the password with cloud-init");
            }
            _ => {
                check.invalid(&at, format!("{at} must have exactly one access credential type set"));
            }
        }
    }
    result
}

fn ssh(
    keys: &vmi::SshPublicKey,
    volumes: &Volumes<'_>,
    at: &Path,
    check: &mut Check<'_>,
) -> Option<Credential> {
    let vmi::SshPublicKey { source, propagation_method, other: _ } = keys;
    let secret = secret_of(source, at, check);
    let vmi::SshPropagation { config_drive, no_cloud, qemu_guest_agent, other: _ } = propagation_method;
    let way_at = at.child("sshPublicKey").child("propagationMethod");
    // A volume with a fault is unknown here: it has been spoken of.
    let has = |wanted: fn(&Volume) -> bool| volumes.values().any(|volume| volume.as_ref().is_none_or(wanted));
    let way = match (config_drive, no_cloud, qemu_guest_agent) {
        (Some(Empty { other: _ }), None, None) => {
            if !has(|volume| matches!(volume, Volume::ConfigDrive(_))) {
                let message = format!(
                    "{at} requires a configDrive volume to exist when the configDrive propagationMethod is in use."
                );
                check.invalid(way_at, message);
            }
            KeyWay::ConfigDrive
        }
        (None, Some(Empty { other: _ }), None) => {
            if !has(|volume| matches!(volume, Volume::NoCloud(_))) {
                let message = format!(
                    "{at} requires a noCloud volume to exist when the noCloud propagationMethod is in use."
                );
                check.invalid(way_at, message);
            }
            KeyWay::NoCloud
        }
        (None, None, Some(vmi::AgentUsers { users: _, other: _ })) => {
            // Nobody asks the guest agent for it yet.
            check.not_yet_or(way_at.child("qemuGuestAgent"), "write noCloud: {} or configDrive: {}");
            return None;
        }
        _ => {
            check.invalid(way_at, format!("{at} must have exactly one propagationMethod set"));
            return None;
        }
    };
    Some(Credential::SshKeys { secret: secret?, way })
}

fn secret_of(source: &vmi::SecretChoice, credential: &Path, check: &mut Check<'_>) -> Option<String> {
    let vmi::SecretChoice { secret, other: _ } = source;
    let at = credential.child("sshPublicKey").child("source");
    let Some(vmi::SecretName { secret_name, other: _ }) = secret else {
        check.invalid(at, format!("{credential} must have exactly one source set"));
        return None;
    };
    Some(required_name(&Some(secret_name.clone()), &at.child("secret").child("secretName"), check))
}
