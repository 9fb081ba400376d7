//! TLS versions and cipher suites in the KubeVirt object, reduced to those that our servers support.
//!
//! The suites of TLS 1.3 are fixed, here as in KubeVirt: only those of TLS 1.2 can be chosen. TLS 1.0 and 1.1
//! are never spoken, and no suite without forward secrecy.

use api::kubevirt::CIPHERS;
use serde_json::Value;

/// TLS settings of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPolicy {
    /// True if TLS 1.2 is refused (`minTLSVersion: VersionTLS13`).
    pub only_13: bool,
    /// Cipher suites of TLS 1.2, by their IANA names. `None` permits all. An empty list leaves TLS 1.3 only.
    pub suites: Option<Vec<&'static str>>,
}

impl TlsPolicy {
    /// The settings in a KubeVirt object. An unknown name permits no suite, so a value that bypassed virt-api
    /// makes our servers stricter, never laxer.
    pub fn from_kubevirt(object: &Value) -> TlsPolicy {
        let said = &object["spec"]["configuration"]["tlsConfiguration"];
        let names = said["ciphers"].as_array().filter(|names| !names.is_empty());
        TlsPolicy {
            only_13: said["minTLSVersion"] == "VersionTLS13",
            suites: names.map(|names| names.iter().filter_map(|name| suite(name.as_str()?)).collect()),
        }
    }
}

/// The supported cipher suites of TLS 1.2, by their IANA names.
pub fn suites() -> impl Iterator<Item = &'static str> {
    CIPHERS.into_iter().step_by(2)
}

/// The IANA name of the suite with this name (IANA or OpenSSL).
pub fn suite(name: &str) -> Option<&'static str> {
    let found = CIPHERS.into_iter().position(|known| known == name)?;
    suites().nth(found / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(said: &Value) -> TlsPolicy {
        TlsPolicy::from_kubevirt(&json!({"spec": {"configuration": {"tlsConfiguration": said}}}))
    }

    #[test]
    fn suites_have_two_names_and_a_strange_one_permits_none() {
        assert_eq!(TlsPolicy::from_kubevirt(&Value::Null), TlsPolicy::default());
        assert_eq!(of(&json!({"ciphers": [], "minTLSVersion": "VersionTLS12"})), TlsPolicy::default());
        assert!(of(&json!({"minTLSVersion": "VersionTLS13"})).only_13);
        let [registry, openssl, ..] = CIPHERS;
        assert_eq!(
            of(&json!({"ciphers": [openssl, "TLS_RSA_WITH_RC4_128_SHA"]})).suites,
            Some(vec![registry])
        );
        assert_eq!(of(&json!({"ciphers": ["?", 1]})).suites, Some(Vec::new()));
    }
}
