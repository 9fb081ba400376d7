//! The name of a client: the common name of its certificate, whose signature was checked before.
//!
//! A reader (DER) that knows just the way to the subject; the library that checks certificates shows none of it.

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT: u8 = 0x06;
const VERSION: u8 = 0xa0;
/// 2.5.4.3
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// The common name in a certificate; nothing where there is none, or more than one.
pub(crate) fn common_name(der: &[u8]) -> Option<&str> {
    // Certificate { body { (version) serial algorithm issuer dates subject … } … }
    let (whole, _) = expect(der, SEQUENCE)?;
    let (mut body, _) = expect(whole, SEQUENCE)?;
    if body.first() == Some(&VERSION) {
        body = next(body)?.2;
    }
    for _ in ["serial", "algorithm", "issuer", "dates"] {
        body = next(body)?.2;
    }
    let (mut subject, _) = expect(body, SEQUENCE)?;
    let mut found = None;
    while !subject.is_empty() {
        let (mut set, rest) = expect(subject, SET)?;
        while !set.is_empty() {
            let (pair, more) = expect(set, SEQUENCE)?;
            let (kind, value) = expect(pair, OBJECT)?;
            if kind == COMMON_NAME {
                let (_, text, _) = next(value)?;
                if found.replace(std::str::from_utf8(text).ok()?).is_some() {
                    return None;
                }
            }
            set = more;
        }
        subject = rest;
    }
    found
}

/// The content of a value of this kind, and what follows it.
fn expect(bytes: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (found, content, rest) = next(bytes)?;
    (found == kind).then_some((content, rest))
}

/// The kind of the next value, its content, and what follows it.
fn next(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let length = match first {
        0..=0x7f => usize::from(first),
        0x81..=0x83 => {
            let (digits, more) = rest.split_at_checked(usize::from(first & 0x7f))?;
            rest = more;
            digits.iter().fold(0, |sum, &digit| sum << 8 | usize::from(digit))
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((kind, content, rest))
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
