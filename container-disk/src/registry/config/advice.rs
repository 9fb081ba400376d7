//! What to do about a server that is not believed, or does not let us in: in the words of those who can do it.

/// Where it is set how a server is reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) enum Advice {
    /// In the files of a user.
    #[default]
    Files,
    /// In a DataVolume (or what asks for an export) and in the CDIConfig.
    Source,
    /// In the cluster's `registries.toml`.
    Mirror,
}

impl Advice {
    /// What to do about a server whose certificate is not believed, or that speaks no TLS.
    pub(crate) fn about_tls(self, address: &str) -> String {
        match self {
            Advice::Files => {
                "name its CA in registries.toml (ca = …), or say insecure or plain-http where that is meant"
                    .to_owned()
            }
            Advice::Source => format!(
                "name a ConfigMap with its CA in certConfigMap; where plain HTTP, or a certificate that is not checked, is meant, \
                 the administrator lists {address} in spec.insecureRegistries of the CDIConfig config"
            ),
            Advice::Mirror => format!(
                "the administrator names its CA in registries.toml of the ConfigMap coracle-registries (ca = …), or says insecure \
                 or plain-http of the mirror {address} there"
            ),
        }
    }

    /// How to log in, behind "log in, ".
    pub(crate) fn about_login(self, address: &str) -> String {
        match self {
            Advice::Files => format!("as with: docker login {address}"),
            Advice::Source => "with a Secret that secretRef names".to_owned(),
            Advice::Mirror => {
                "which a mirror of the cluster must not ask for: it is asked without a login".to_owned()
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
        assert_eq!(Advice::Files.about_login("h"), "as with: docker login h");
    }
}
