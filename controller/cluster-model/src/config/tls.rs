//! Which versions and cipher suites of TLS the KubeVirt object asks for, and what of them our servers can do.
//!
//! The suites of TLS 1.3 are fixed, here as in KubeVirt: only those of TLS 1.2 can be chosen. TLS 1.0 and 1.1 are never
//! spoken, and no suite without forward secrecy.

use api::kubevirt::CIPHERS;
use serde_json::Value;

/// How TLS is to be spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// TLS 1.3 alone.
    pub only_13: bool,
    /// The suites of TLS 1.2, by their names in the registry; all, where nothing is said. None of them: TLS 1.3 alone.
    pub suites: Option<Vec<&'static str>>,
}

impl Wanted {
    /// What a KubeVirt object says. A name that is not known permits no suite: what is written past virt-api makes our
    /// servers stricter, never laxer.
    pub fn of(object: &Value) -> Wanted {
        let said = &object["spec"]["configuration"]["tlsConfiguration"];
        let names = said["ciphers"].as_array().filter(|names| !names.is_empty());
        Wanted {
            only_13: said["minTLSVersion"] == "VersionTLS13",
            suites: names.map(|names| names.iter().filter_map(|name| suite(name.as_str()?)).collect()),
        }
    }
}

/// The suites of TLS 1.2 that can be spoken, by their names in the registry.
pub fn suites() -> impl Iterator<Item = &'static str> {
    CIPHERS.into_iter().step_by(2)
}

/// The suite of this name, by its name in the registry.
pub fn suite(name: &str) -> Option<&'static str> {
    let found = CIPHERS.into_iter().position(|known| known == name)?;
    suites().nth(found / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(said: &Value) -> Wanted {
        Wanted::of(&json!({"spec": {"configuration": {"tlsConfiguration": said}}}))
    }

    #[test]
    fn suites_have_two_names_and_a_strange_one_permits_none() {
        assert_eq!(Wanted::of(&Value::Null), Wanted::default());
        assert_eq!(of(&json!({"ciphers": [], "minTLSVersion": "VersionTLS12"})), Wanted::default());
        assert!(of(&json!({"minTLSVersion": "VersionTLS13"})).only_13);
        let [registry, openssl, ..] = CIPHERS;
        assert_eq!(
            of(&json!({"ciphers": [openssl, "TLS_RSA_WITH_RC4_128_SHA"]})).suites,
            Some(vec![registry])
        );
        assert_eq!(of(&json!({"ciphers": ["?", 1]})).suites, Some(Vec::new()));
    }
}
