//! Keys of tokens: RSA keys of 2048 bits or more in PEM, as in `cdi-api-signing-key`.

use super::{Claims, CloneSourceKind, Cloned, TokenError, sign, verify};
use cluster_client::error::{Error, ErrorKind, Result};
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair;
use ring::signature::{RSA_PSS_2048_8192_SHA256, RSA_PSS_SHA256, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// Most public keys of a file: the current one, the one before it and the one after it, with reserve.
const MOST: usize = 8;
/// The algorithm of an RSA key, in a SubjectPublicKeyInfo: rsaEncryption, without parameters (RFC 3279).
const RSA: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// DER tags of a public key.
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// A private RSA key that signs tokens.
pub struct Pair {
    key: KeyPair,
    random: SystemRandom,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a private key")
    }
}

impl Pair {
    /// Reads a key file in PEM: PKCS#8, or PKCS#1 as CDI writes it.
    pub fn read(pem: &[u8]) -> Result<Pair> {
        let cannot = |why: String| {
            Error::new(ErrorKind::Setup, format!("cannot read the signing key of upload tokens: {why}"))
        };
        let key = PrivateKeyDer::from_pem_slice(pem).map_err(|e| cannot(e.to_string()))?;
        let key = match &key {
            PrivateKeyDer::Pkcs8(key) => KeyPair::from_pkcs8(key.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(key) => KeyPair::from_der(key.secret_pkcs1_der()),
            _ => return Err(cannot("it is not an RSA key".to_owned())),
        };
        let key = key.map_err(|e| cannot(e.to_string()))?;
        Ok(Pair { key, random: SystemRandom::new() })
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let mut signature = vec![0; self.key.public().modulus_len()];
        let signed = self.key.sign(&RSA_PSS_SHA256, &self.random, message, &mut signature);
        signed.map_err(|_| Error::new(ErrorKind::Setup, "signing with the key of upload tokens failed"))?;
        Ok(signature)
    }
}

/// A public RSA key that verifies tokens.
#[derive(Clone)]
pub struct PublicKey(UnparsedPublicKey<Vec<u8>>);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a public key")
    }
}

impl PublicKey {
    /// Public key of a private key.
    pub fn of(pair: &Pair) -> PublicKey {
        PublicKey(UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, pair.key.public().as_ref().to_vec()))
    }

    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verify(message, signature).is_ok()
    }
}

/// Reads all public keys of a PEM text. A text without a key, or with a key other than RSA, is an error.
pub fn public_keys(pem: &[u8]) -> Result<Vec<PublicKey>> {
    let cannot = |why: &str| {
        Error::new(ErrorKind::Setup, format!("cannot read the public keys of upload tokens: {why}"))
    };
    let mut keys = Vec::new();
    for key in SubjectPublicKeyInfoDer::pem_slice_iter(pem) {
        let key = key.map_err(|e| cannot(&e.to_string()))?;
        let key = rsa_key(&key).ok_or_else(|| cannot("a PUBLIC KEY is not an RSA key"))?;
        keys.push(PublicKey(UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, key.to_vec())));
        if keys.len() > MOST {
            return Err(cannot("the file has more than 8 keys"));
        }
    }
    if keys.is_empty() {
        return Err(cannot("the file has no PUBLIC KEY block"));
    }
    Ok(keys)
}

/// The RSA key in a SubjectPublicKeyInfo: `SEQUENCE { SEQUENCE { rsaEncryption, NULL }, BIT STRING { key } }`.
fn rsa_key(der: &[u8]) -> Option<&[u8]> {
    let (whole, behind) = value(der, SEQUENCE)?;
    let (algorithm, rest) = value(whole, SEQUENCE)?;
    let (bits, end) = value(rest, BIT_STRING)?;
    // The first byte of a bit string is the number of unused bits in its last byte.
    let key = bits.strip_prefix(&[0])?;
    (behind.is_empty() && end.is_empty() && algorithm == RSA).then_some(key)
}

/// Splits DER at the end of its first value, which must have this tag: the value, and the rest.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // One or two bytes of length follow; a key has at most 64 KiB.
        0x81 | 0x82 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (first == tag).then_some(())?;
    rest.split_at_checked(length)
}

/// The current signing key; `None` at first.
#[derive(Debug, Default)]
pub struct Signer(RwLock<Option<Arc<Pair>>>);

impl Signer {
    /// Signs with the key of this file from now on.
    pub fn take(&self, pem: &[u8]) -> Result<()> {
        let pair = Arc::new(Pair::read(pem)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(pair);
        Ok(())
    }

    /// Token for an upload to a PVC; `None` without a key.
    pub fn upload(&self, namespace: &str, pvc: &str, now: Timestamp) -> Result<Option<String>> {
        self.signed(&Claims::upload(namespace, pvc, now))
    }

    /// Token for a clone into a DataVolume that is created now; `None` without a key.
    pub fn cloning(
        &self,
        named: CloneSourceKind,
        clone: Cloned<'_>,
        now: Timestamp,
    ) -> Result<Option<String>> {
        self.signed(&Claims::cloning_of(named, clone, now))
    }

    fn signed(&self, claims: &Claims) -> Result<Option<String>> {
        let pair = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        pair.map(|pair| sign(&pair, claims)).transpose()
    }
}

/// The current public keys; empty at first.
#[derive(Debug, Default)]
pub struct Verifier(RwLock<Arc<[PublicKey]>>);

impl Verifier {
    /// Accepts the keys of this file from now on, and no others.
    pub fn take(&self, pem: &[u8]) -> Result<()> {
        let keys = public_keys(pem)?.into();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    /// True if there is a key.
    pub fn is_known(&self) -> bool {
        !self.keys().is_empty()
    }

    /// Verifies a token for an upload, and returns its claims.
    pub fn verify(&self, token: &str, now: Timestamp) -> std::result::Result<Claims, TokenError> {
        verify(&self.keys(), token, now)
    }

    fn keys(&self) -> Arc<[PublicKey]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
