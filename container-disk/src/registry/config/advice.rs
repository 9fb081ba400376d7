//! Advice for errors of TLS and logins, in terms of the settings that the reader of the message can change.

/// The settings that apply to a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Advice {
    /// The user's configuration files.
    #[default]
    Files,
    /// The DataVolume (or the object that requests an export) and the CDIConfig.
    Source,
    /// The `registries.toml` of a cluster.
    Mirror,
}

impl Advice {
    /// Advice for a server with an untrusted certificate or without TLS.
    pub(crate) fn about_tls(self, address: &str) -> String {
        match self {
            Advice::Files => format!(
                "write below [host.\"{address}\"] of ~/.config/coracle/registries.toml: ca = \"FILE\" for its CA, insecure = true to accept \
                 any certificate, or plain-http = true if it has no TLS"
            ),
            Advice::Source => format!(
                "name a ConfigMap with its CA in certConfigMap; if plain HTTP or an unverified certificate is intended, the \
                     administrator lists {address} in spec.insecureRegistries of the CDIConfig config"
            ),
            Advice::Mirror => format!(
                "the administrator sets its CA in registries.toml of the ConfigMap coracle-registries (ca = …), or insecure \
                     or plain-http for the mirror {address} there"
            ),
        }
    }

    /// Advice for a login, to follow "log in, ".
    pub(crate) fn about_login(self, address: &str) -> String {
        match self {
            Advice::Files => format!("as with: docker login {address}"),
            Advice::Source => "with a Secret that secretRef names".to_owned(),
            Advice::Mirror => {
                "but mirrors of the cluster are used without a login, so this mirror must allow anonymous access".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_not_told_to_change_files_that_it_has_not_got() {
        for say in [Advice::about_tls, Advice::about_login] {
            let said = say(Advice::Source, "h:5000");
            assert!(!said.contains("registries.toml") && !said.contains("docker login"), "{said}");
            assert!(said.contains("certConfigMap") || said.contains("secretRef"), "{said}");
        }
        let said = Advice::Source.about_tls("h:5000");
        assert!(said.contains("h:5000 in spec.insecureRegistries of the CDIConfig config"), "{said}");
        assert!(Advice::Mirror.about_tls("h").contains("ConfigMap coracle-registries"));
        assert!(
            Advice::Files
                .about_tls("h:5000")
                .contains("[host.\"h:5000\"] of ~/.config/coracle/registries.toml")
        );
        assert_eq!(Advice::Files.about_login("h"), "as with: docker login h");
    }
}
