//! Makes a certificate with a new key. This is where chance comes in: it belongs to what is carried out, not to what is
//! decided. Called by [`carry_out()`](super::carry_out()) alone.

use crate::error::{Error, ErrorKind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kubernetes::issue::{Issue, LABEL};
use kubernetes::objects::{Certificate, Kind};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// The secret with the certificate. `authority` is the signer's secret as it is now.
pub fn secret(issue: &Issue, authority: Option<&Value>) -> Result<Value> {
    let cannot =
        |e: rcgen::Error| Error::setup(format!("a certificate for {} cannot be made", issue.name), e);
    let key = KeyPair::generate().map_err(cannot)?;
    let mut params = CertificateParams::new(hosts(issue)).map_err(cannot)?;
    params.distinguished_name = name(&issue.name);
    params.not_before = clock(issue.from).into();
    params.not_after = clock(issue.until).into();
    params.use_authority_key_identifier_extension = true;
    let certificate = match (&issue.signer, authority) {
        (None, _) => {
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            params.self_signed(&key)
        }
        (Some(signer), Some(secret)) => {
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            if signer.is_client {
                params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
            }
            let is = Certificate::first(&file(secret, "tls.crt")).and_then(|found| found.name);
            if is.as_deref() != Some(signer.name.as_str()) {
                let what = format!("{} holds another authority by now", signer.key);
                return Err(Error::new(ErrorKind::Conflict, what));
            }
            let mut issuer = CertificateParams::default();
            issuer.distinguished_name = name(&signer.name);
            let signing = KeyPair::from_pem(&file(secret, "tls.key")).map_err(cannot)?;
            params.signed_by(&key, &Issuer::new(issuer, signing))
        }
        (Some(signer), None) => {
            return Err(Error::new(ErrorKind::Gone, format!("{} is not there to sign", signer.key)));
        }
    };
    let certificate = certificate.map_err(cannot)?;
    Ok(json!({
        "apiVersion": Kind::Secret.api_version(),
        "kind": Kind::Secret.name(),
        "metadata": {
            "name": issue.key.name,
            "namespace": issue.key.namespace,
            "labels": {LABEL.0: LABEL.1},
        },
        "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": STANDARD.encode(certificate.pem()),
            "tls.key": STANDARD.encode(key.serialize_pem()),
        },
    }))
}

fn hosts(issue: &Issue) -> Vec<String> {
    issue.signer.as_ref().map(|signer| signer.hosts.clone()).unwrap_or_default()
}

fn name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

fn clock(time: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(time.as_second()).unwrap_or_default())
}

/// A file of a secret; empty where there is none.
fn file(secret: &Value, name: &str) -> String {
    let text = secret["data"][name].as_str().unwrap_or_default();
    STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}
