//! SSH public keys and passwords for the guest.

use crate::meta::Empty;
use crate::object;

object! {
    /// SSH public keys or user passwords for the guest; exactly one of the two.
    pub struct AccessCredential {
        /// SSH public keys to inject into the guest.
        pub ssh_public_key: Option<SshPublicKey> = "sshPublicKey",
        /// Passwords of guest users, set by the guest agent.
        pub user_password: Option<UserPassword> = "userPassword",
    }
}

object! {
    /// SSH public keys to inject into the guest.
    pub struct SshPublicKey {
        /// Source of the SSH public keys.
        pub source: SecretChoice = "source",
        /// Method that injects the SSH public keys into the guest.
        pub propagation_method: SshPropagation = "propagationMethod",
    }
}

object! {
    /// Source of SSH public keys or passwords.
    pub struct SecretChoice {
        /// Secret with the keys or passwords as its values.
        pub secret: Option<SecretName> = "secret",
    }
}

object! {
    /// Reference to a Secret in the namespace of the VMI.
    pub struct SecretName {
        /// Name of the Secret in the namespace of the VMI.
        pub secret_name: String = "secretName",
    }
}

object! {
    /// Method that injects SSH public keys into the guest; exactly one.
    pub struct SshPropagation {
        /// Injects the keys through cloud-init. Requires a volume `cloudInitConfigDrive`.
        pub config_drive: Option<Empty> = "configDrive",
        /// Injects the keys through cloud-init. Requires a volume `cloudInitNoCloud`.
        pub no_cloud: Option<Empty> = "noCloud",
        /// Injects the keys through the guest agent, also while the guest runs.
        pub qemu_guest_agent: Option<AgentUsers> = "qemuGuestAgent",
    }
}

object! {
    /// Guest users that the guest agent gives the SSH public keys.
    pub struct AgentUsers {
        /// Names of the guest users; at least one.
        pub users: Vec<String> = "users",
    }
}

object! {
    /// Passwords of guest users, set by the guest agent.
    pub struct UserPassword {
        /// Source of the passwords: keys of the Secret are user names, values are passwords.
        pub source: SecretChoice = "source",
        /// Method that sets the passwords in the guest.
        pub propagation_method: PasswordPropagation = "propagationMethod",
    }
}

object! {
    /// Method that sets passwords in the guest.
    pub struct PasswordPropagation {
        /// Sets the passwords through the guest agent. Required.
        pub qemu_guest_agent: Option<Empty> = "qemuGuestAgent",
    }
}
