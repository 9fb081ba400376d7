//! The name of a client: the common name of its certificate, whose signature was checked before.
//!
//! The library that checks certificates does not give access to it.

use api::der::Body;

/// The common name in a certificate; `None` unless it has exactly one.
pub(crate) fn common_name(der: &[u8]) -> Option<&str> {
    Body::parse(der)?.common_name()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["host".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_common_name_is_found_among_others() {
        let long = "n".repeat(300);
        for name in ["client.upload-server.cdi.kubevirt.io", &long] {
            let der = certificate(&[
                (DnType::OrganizationName, "client"),
                (DnType::CommonName, name),
                (DnType::CountryName, "XX"),
            ]);
            assert_eq!(common_name(&der), Some(name));
        }
        assert_eq!(common_name(&certificate(&[(DnType::OrganizationName, "client")])), None);
        assert_eq!(common_name(&certificate(&[])), None);
    }

    #[test]
    fn a_certificate_that_is_cut_has_no_name() {
        let der = certificate(&[(DnType::CommonName, "name")]);
        for cut in 0..der.len() {
            assert_eq!(common_name(&der[..cut]), None, "{cut}");
        }
    }
}
