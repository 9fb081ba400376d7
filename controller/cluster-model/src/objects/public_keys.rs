//! Public keys in a text, one behind the other: those by which upload tokens are known.

use super::certificate::armoured;
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject as _;

/// What of a text is read: keys are small.
const LONGEST: usize = 64 << 10;

/// All public keys in a text, each as a text of its own; what is none is left out.
pub fn all(pem: &str) -> Vec<String> {
    let text = pem.get(..pem.len().min(LONGEST)).unwrap_or_default();
    let keys = SubjectPublicKeyInfoDer::pem_slice_iter(text.as_bytes());
    keys.filter_map(Result::ok).map(|key| of(&key)).collect()
}

/// A public key (SubjectPublicKeyInfo, in DER) as text.
pub fn of(der: &[u8]) -> String {
    armoured("PUBLIC KEY", der)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_between_what_is_none() {
        let (one, two) = (of(b"one"), of(&[7; 300]));
        assert_eq!(one, "-----BEGIN PUBLIC KEY-----\nb25l\n-----END PUBLIC KEY-----\n");
        let other = "-----BEGIN PRIVATE KEY-----\nb25l\n-----END PRIVATE KEY-----\n";
        assert_eq!(all(&format!("x\n{one}{other}{two}-----BEGIN PUBLIC KEY-----\n?")), [one, two]);
        assert_eq!(all(""), Vec::<String>::new());
    }
}
