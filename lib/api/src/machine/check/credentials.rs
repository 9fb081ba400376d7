//! SSH keys and passwords for the guest.

use super::super::{Credential, KeyDelivery, Volume};
use super::Check;
use super::volume::{Volumes, required_name};
use crate::meta::Empty;
use crate::vmi;
use crate::wire::Path;

/// Most users of one entry: each costs a request to the guest agent.
const USERS: usize = 64;
/// Longest name of a user, in characters.
const NAME: usize = 256;

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
            (None, Some(passwords)) => result.extend(password(passwords, &at, check)),
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
    let own_at = at.child("sshPublicKey");
    let secret = secret_of(source, at, &own_at, check);
    let vmi::SshPropagation { config_drive, no_cloud, qemu_guest_agent, other: _ } = propagation_method;
    let way_at = own_at.child("propagationMethod");
    // A volume with a fault is missing here; that fault was reported before.
    let has = |wanted: fn(&Volume) -> bool| volumes.values().any(|volume| volume.as_ref().is_none_or(wanted));
    let delivery = match (config_drive, no_cloud, qemu_guest_agent) {
        (Some(Empty { other: _ }), None, None) => {
            if !has(|volume| matches!(volume, Volume::ConfigDrive(_))) {
                let message = format!(
                    "{at} requires a configDrive volume to exist when the configDrive propagationMethod is in use."
                );
                check.invalid(way_at, message);
            }
            KeyDelivery::ConfigDrive
        }
        (None, Some(Empty { other: _ }), None) => {
            if !has(|volume| matches!(volume, Volume::NoCloud(_))) {
                let message = format!(
                    "{at} requires a noCloud volume to exist when the noCloud propagationMethod is in use."
                );
                check.invalid(way_at, message);
            }
            KeyDelivery::NoCloud
        }
        (None, None, Some(vmi::AgentUsers { users, other: _ })) => {
            check_users(users, at, &way_at.child("qemuGuestAgent").child("users"), check);
            KeyDelivery::Agent { users: users.clone() }
        }
        _ => {
            check.invalid(way_at, format!("{at} must have exactly one propagationMethod set"));
            return None;
        }
    };
    Some(Credential::SshKeys { secret: secret?, delivery })
}

fn check_users(users: &[String], credential: &Path, at: &Path, check: &mut Check<'_>) {
    if users.is_empty() {
        check.invalid(at, format!("{credential} requires at least one user to be present in the users list"));
    }
    if users.len() > USERS {
        check.invalid(at, format!("{at} must have at most {USERS} users"));
    }
    for (i, user) in users.iter().enumerate().take(USERS) {
        let is_odd = |c: char| c.is_control() || c == ':' || c == '/';
        if user.is_empty() || user.chars().count() > NAME || user.contains(is_odd) {
            let at = at.index(i);
            let what = format!(
                "{at} must be the name of a user: at most {NAME} letters, without ':', '/' and control characters"
            );
            check.invalid(&at, what);
        }
    }
}

fn password(passwords: &vmi::UserPassword, at: &Path, check: &mut Check<'_>) -> Option<Credential> {
    let vmi::UserPassword { source, propagation_method, other: _ } = passwords;
    let own_at = at.child("userPassword");
    let secret = secret_of(source, at, &own_at, check);
    let vmi::PasswordPropagation { qemu_guest_agent, other: _ } = propagation_method;
    let Some(Empty { other: _ }) = qemu_guest_agent else {
        let message = format!("{at} must have exactly one propagationMethod set");
        check.invalid(own_at.child("propagationMethod"), message);
        return None;
    };
    Some(Credential::Passwords { secret: secret? })
}

fn secret_of(
    source: &vmi::SecretChoice,
    credential: &Path,
    own_at: &Path,
    check: &mut Check<'_>,
) -> Option<String> {
    let vmi::SecretChoice { secret, other: _ } = source;
    let at = own_at.child("source");
    let Some(vmi::SecretName { secret_name, other: _ }) = secret else {
        check.invalid(at, format!("{credential} must have exactly one source set"));
        return None;
    };
    Some(required_name(&Some(secret_name.clone()), &at.child("secret").child("secretName"), check))
}
