//! Public keys in a PEM text, which verify upload tokens.

use super::certificate::armoured;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;

/// Maximum length of a text that is read: keys are small.
const LONGEST: usize = 64 << 10;

/// All public keys in a PEM text, each as PEM. Everything else is skipped.
pub fn all(pem: &str) -> Vec<String> {
    let text = pem.get(..pem.len().min(LONGEST)).unwrap_or_default();
    let keys = SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes());
    keys.filter_map(Result::ok).map(|key| to_pem(&key)).collect()
}

/// A public key (SubjectPublicKeyInfo, in DER) as PEM.
pub fn to_pem(der: &[u8]) -> String {
    armoured("PUBLIC KEY", der)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_between_what_is_none() {
        let (one, two) = (to_pem(b"one"), to_pem(&[7; 300]));
        assert_eq!(one, "-----BEGIN PUBLIC KEY-----\nb25l\n-----END PUBLIC KEY-----\n");
        let other = "-----BEGIN PRIVATE KEY-----\nb25l\n-----END PRIVATE KEY-----\n";
        assert_eq!(all(&format!("x\n{one}{other}{two}-----BEGIN PUBLIC KEY-----\n?")), [one, two]);
        assert_eq!(all(""), Vec::<String>::new());
    }
}
