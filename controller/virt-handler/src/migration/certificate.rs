//! Certificate of one side of one migration, and the fingerprint by which the other side knows it.

use crate::error::{Error, Result};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;

/// Common name of the certificates. Nothing checks it.
const NAME: &str = "kubevirt.io:migration";

/// Self-signed certificate with its key, which stays in memory.
#[derive(Clone)]
pub struct Certificate {
    key: Arc<SingleCertAndKey>,
    fingerprint: Fingerprint,
}

/// SHA-256 of a certificate's DER.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl Certificate {
    /// A new certificate with a new key.
    pub fn generate() -> Result<Certificate> {
        let cannot = |e: rcgen::Error| Error::failed("cannot make the certificate of a migration").because(e);
        let key = KeyPair::generate().map_err(cannot)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, NAME);
        let der = params.self_signed(&key).map_err(cannot)?.der().clone();
        let fingerprint = Fingerprint::of(&der);
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let key = any_supported_type(&key)
            .map_err(|e| Error::failed("cannot use the key of a migration").because(e))?;
        let key = Arc::new(SingleCertAndKey::from(CertifiedKey::new(vec![der], key)));
        Ok(Certificate { key, fingerprint })
    }

    /// SHA-256 of the DER, in hex: what `migrationState` has in `sourceCertificate` and `targetCertificate`.
    pub fn fingerprint(&self) -> String {
        self.fingerprint.to_string()
    }

    pub(super) fn key(&self) -> Arc<SingleCertAndKey> {
        Arc::clone(&self.key)
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Certificate({})", self.fingerprint)
    }
}

impl Fingerprint {
    pub(super) fn of(der: &CertificateDer<'_>) -> Fingerprint {
        Fingerprint(Sha256::digest(der).into())
    }

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Fingerprint> {
        let wrong = || {
            let why = "a fingerprint is the SHA-256 of a certificate: 64 hexadecimal digits";
            Error::refused(format!("the certificate's fingerprint {text:?} is not valid: {why}"))
        };
        let digits = text.as_bytes();
        let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
        let mut bytes = [0; 32];
        if digits.len() != 64 {
            return Err(wrong());
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else { return Err(wrong()) };
            *byte = high << 4 | low;
        }
        Ok(Fingerprint(bytes))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_read_as_it_is_written_and_two_certificates_have_two() {
        let (one, two) = (Certificate::generate().unwrap(), Certificate::generate().unwrap());
        assert_ne!(one.fingerprint(), two.fingerprint());
        assert_eq!(one.fingerprint().len(), 64);
        for text in [one.fingerprint(), one.fingerprint().to_uppercase()] {
            assert_eq!(Fingerprint::parse(&text).unwrap(), one.fingerprint);
        }
        assert_eq!(format!("{one:?}"), format!("Certificate({})", one.fingerprint()), "and no key");
    }

    #[test]
    fn a_fingerprint_is_the_sha256_in_hex() {
        let der = CertificateDer::from(b"abc".to_vec());
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Fingerprint::of(&der).to_string(), known);
    }

    #[test]
    fn a_text_that_is_not_a_sha256_is_refused() {
        let good = "0".repeat(64);
        assert!(Fingerprint::parse(&good).is_ok());
        for text in ["", &good[1..], &format!("{good}0"), &format!("g{}", &good[1..]), &"ä".repeat(32)] {
            let said = Fingerprint::parse(text).unwrap_err().to_string();
            assert!(said.contains("64 hexadecimal digits"), "{said}");
        }
    }
}
