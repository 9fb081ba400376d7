//! Keys and passwords that are handed to the guest.

use crate::meta::Empty;
use crate::object;

object! {
    /// Something that lets a person in; exactly one kind.
    pub struct AccessCredential {
        /// Public keys.
        pub ssh_public_key: Option<SshPublicKey> = "sshPublicKey",
        /// Passwords.
        pub user_password: Option<UserPassword> = "userPassword",
    }
}

object! {
    /// Public keys.
    pub struct SshPublicKey {
        /// Where they are.
        pub source: SecretChoice = "source",
        /// How they reach the guest.
        pub propagation_method: SshPropagation = "propagationMethod",
    }
}

object! {
    /// Where keys or passwords are.
    pub struct SecretChoice {
        /// In a secret.
        pub secret: Option<SecretName> = "secret",
    }
}

object! {
    /// A secret.
    pub struct SecretName {
        /// Its name.
        pub secret_name: String = "secretName",
    }
}

object! {
    /// How keys reach the guest; exactly one way.
    pub struct SshPropagation {
        /// In the config drive.
        pub config_drive: Option<Empty> = "configDrive",
        /// In the NoCloud seed.
        pub no_cloud: Option<Empty> = "noCloud",
        /// Through the guest's agent.
        pub qemu_guest_agent: Option<AgentUsers> = "qemuGuestAgent",
    }
}

object! {
    /// Through the guest's agent, for these users.
    pub struct AgentUsers {
        /// The users.
        pub users: Vec<String> = "users",
    }
}

object! {
    /// Passwords, by user.
    pub struct UserPassword {
        /// Where they are.
        pub source: SecretChoice = "source",
        /// How they reach the guest.
        pub propagation_method: PasswordPropagation = "propagationMethod",
    }
}

object! {
    /// How passwords reach the guest.
    pub struct PasswordPropagation {
        /// Through the guest's agent.
        pub qemu_guest_agent: Option<Empty> = "qemuGuestAgent",
    }
}
