//! The keys of tokens: RSA of 2048 bits and more, in PEM, as `cdi-api-signing-key` has them.

use super::{Claims, Cloned, Named, Refused, sign, verify};
use cluster_client::error::{Error, ErrorKind, Result};
use jiff::Timestamp;
use ring::rand::SystemRandom;
use ring::rsa::KeyPair;
use ring::signature::{RSA_PSS_2048_8192_SHA256, RSA_PSS_SHA256, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

/// The most public keys of a file: the one that signs, the one before it and the one after it.
const MOST: usize = 8;
/// The algorithm of an RSA key, in a SubjectPublicKeyInfo: rsaEncryption, without parameters (RFC 3279).
const RSA: &[u8] = &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];
/// The tags of DER that a public key is made of.
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

/// A private key.
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
    /// The key of a file, in PEM: PKCS#8, or PKCS#1 as CDI writes it.
    pub fn read(pem: &[u8]) -> Result<Pair> {
        let cannot = |why: String| {
            Error::new(ErrorKind::Setup, format!("the signing key of upload tokens cannot be read: {why}"))
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
        signed.map_err(|_| Error::new(ErrorKind::Setup, "the signing key of upload tokens cannot sign"))?;
        Ok(signature)
    }
}

/// A public key.
#[derive(Clone)]
pub struct PublicKey(UnparsedPublicKey<Vec<u8>>);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a public key")
    }
}

impl PublicKey {
    /// The public key of a private one.
    pub fn of(pair: &Pair) -> PublicKey {
        PublicKey(UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, pair.key.public().as_ref().to_vec()))
    }

    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verify(message, signature).is_ok()
    }
}

/// All public keys of a text in PEM; without any, or with one that is not of RSA, it is an error.
pub fn public_keys(pem: &[u8]) -> Result<Vec<PublicKey>> {
    let cannot = |why: &str| {
        Error::new(ErrorKind::Setup, format!("the public keys of upload tokens cannot be read: {why}"))
    };
    let mut keys = Vec::new();
    for key in SubjectPublicKeyInfoDer::pem_slice_iter(pem) {
        let key = key.map_err(|e| cannot(&e.to_string()))?;
        let key = rsa_key(&key).ok_or_else(|| cannot("a PUBLIC KEY is not one of RSA"))?;
        keys.push(PublicKey(UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, key.to_vec())));
        if keys.len() > MOST {
            return Err(cannot("there are more than 8"));
        }
    }
    if keys.is_empty() {
        return Err(cannot("there is no PUBLIC KEY"));
    }
    Ok(keys)
}

/// The RSA key in a SubjectPublicKeyInfo: `SEQUENCE { SEQUENCE { rsaEncryption, NULL }, BIT STRING { key } }`.
fn rsa_key(der: &[u8]) -> Option<&[u8]> {
    let (whole, behind) = value(der, SEQUENCE)?;
    let (algorithm, rest) = value(whole, SEQUENCE)?;
    let (bits, end) = value(rest, BIT_STRING)?;
    // The first byte of a bit string says how many bits of its last one do not count.
    let key = bits.strip_prefix(&[0])?;
    (behind.is_empty() && end.is_empty() && algorithm == RSA).then_some(key)
}

/// The value at the beginning of DER, if its tag is this one, and what is behind it.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.split_first()?;
    let (&length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        // As many bytes of the length follow; a key has no more than 64 KiB.
        0x81 | 0x82 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (bytes.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (first == tag).then_some(())?;
    rest.split_at_checked(length)
}

/// The key that signs now; none at first.
#[derive(Debug, Default)]
pub struct Signer(RwLock<Option<Arc<Pair>>>);

impl Signer {
    /// Signs by the key of this file from now on.
    pub fn take(&self, pem: &[u8]) -> Result<()> {
        let pair = Arc::new(Pair::read(pem)?);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(pair);
        Ok(())
    }

    /// A token for an upload to a PVC; none, while there is no key.
    pub fn upload(&self, namespace: &str, pvc: &str, now: Timestamp) -> Result<Option<String>> {
        self.signed(&Claims::upload(namespace, pvc, now))
    }

    /// A token for a clone into a DataVolume that is made now; none, while there is no key.
    pub fn cloning(&self, named: Named, clone: Cloned<'_>, now: Timestamp) -> Result<Option<String>> {
        self.signed(&Claims::cloning_of(named, clone, now))
    }

    fn signed(&self, claims: &Claims) -> Result<Option<String>> {
        let pair = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        pair.map(|pair| sign(&pair, claims)).transpose()
    }
}

/// The public keys that hold now; none at first.
#[derive(Debug, Default)]
pub struct Verifier(RwLock<Arc<[PublicKey]>>);

impl Verifier {
    /// Believes the keys of this file from now on, and no others.
    pub fn take(&self, pem: &[u8]) -> Result<()> {
        let keys = public_keys(pem)?.into();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }

    /// There is a key.
    pub fn is_known(&self) -> bool {
        !self.keys().is_empty()
    }

    /// The claims of a token that permits an upload now.
    pub fn verify(&self, token: &str, now: Timestamp) -> std::result::Result<Claims, Refused> {
        verify(&self.keys(), token, now)
    }

    fn keys(&self) -> Arc<[PublicKey]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
