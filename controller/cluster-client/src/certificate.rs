//! Creates certificates with a new key, and the Secrets for them. Randomness is used here only: plans and
//! decisions stay pure. Called by [`carry_out()`](super::carry_out()) alone.

use crate::error::{Error, ErrorKind, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_model::issue::{Holder, Issue, LABEL, OPAQUE, PodCertificateIssue};
use cluster_model::objects::{Certificate, Key, Kind, certificate};
use cluster_model::uploads::BUNDLE;
use cluster_model::webhook_paths::{FIELD, PathSegments};
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rsa::rand_core::{OsRng, RngCore as _};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// The Secret with the certificate. `authority` is the signer's present Secret, and `present` the Secret that
/// it replaces.
pub fn secret(issue: &Issue, authority: Option<&Value>, present: Option<&Value>) -> Result<Value> {
    let cannot = |e: rcgen::Error| cannot(&issue.name, e);
    let key = KeyPair::generate().map_err(cannot)?;
    let hosts = issue.signer.as_ref().map(|signer| signer.hosts.clone()).unwrap_or_default();
    let mut params = params(&issue.name, hosts, issue.from, issue.until).map_err(cannot)?;
    let certificate = match (&issue.signer, authority) {
        (None, _) => {
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
            params.self_signed(&key)
        }
        (Some(signer), Some(secret)) => {
            let usages = [
                (signer.usage.is_server(), ExtendedKeyUsagePurpose::ServerAuth),
                (signer.usage.is_client(), ExtendedKeyUsagePurpose::ClientAuth),
            ];
            params.extended_key_usages =
                usages.into_iter().filter(|(is_used, _)| *is_used).map(|(_, usage)| usage).collect();
            let is = Certificate::from_pem(&file(secret, "tls.crt")).and_then(|found| found.name);
            if is.as_deref() != Some(signer.name.as_str()) {
                return Err(replaced_signer_error(&signer.key));
            }
            sign(&params, &key, &signer.name, secret)
        }
        (Some(signer), None) => {
            return Err(Error::new(
                ErrorKind::Gone,
                format!("{} does not exist and cannot sign", signer.key),
            ));
        }
    };
    let certificate = certificate.map_err(cannot)?;
    let mut secret = json!({
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
    });
    if issue.has_paths {
        let before = PathSegments::read(&present.map(|is| file(is, FIELD)).unwrap_or_default());
        let segments = before.rotated(random(), present.is_some());
        secret["data"][FIELD] = json!(STANDARD.encode(segments.text()));
    }
    Ok(secret)
}

/// Random bytes for two segments.
fn random() -> [[u8; 16]; 2] {
    let mut both = [[0; 16]; 2];
    both.iter_mut().for_each(|bytes| OsRng.fill_bytes(bytes));
    both
}

/// The Secret of a worker pod. `authority` is the signer's present Secret, and `others` the present ConfigMap
/// with the CA bundle of the other end.
pub fn for_pod(issue: &PodCertificateIssue, authority: &Value, others: &Value) -> Result<Value> {
    let subject = issue.holder.name();
    let cannot = |e: rcgen::Error| cannot(subject, e);
    let signer = Certificate::from_pem(&file(authority, "tls.crt"))
        .filter(|signer| signer.from <= issue.from && issue.until <= signer.until)
        .ok_or_else(|| replaced_signer_error(&issue.signer()))?;
    let bundle = others["data"][BUNDLE].as_str().unwrap_or_default();
    if certificate::all(bundle).is_empty() {
        let what = format!("{} has no certificate of an authority", issue.peer_bundle());
        return Err(Error::new(ErrorKind::Conflict, what));
    }
    let key = KeyPair::generate().map_err(cannot)?;
    let mut params = params(subject, issue.holder.hosts(), issue.from, issue.until).map_err(cannot)?;
    params.extended_key_usages = vec![match issue.holder {
        Holder::Server(_) => ExtendedKeyUsagePurpose::ServerAuth,
        Holder::Client(_) => ExtendedKeyUsagePurpose::ClientAuth,
    }];
    let name = signer.name.unwrap_or_default();
    let certificate = sign(&params, &key, &name, authority).map_err(cannot)?;
    Ok(json!({
        "apiVersion": Kind::Secret.api_version(),
        "kind": Kind::Secret.name(),
        "metadata": {
            "name": issue.key.name,
            "namespace": issue.key.namespace,
            "labels": issue.labels,
            "ownerReferences": [issue.owner],
        },
        "type": OPAQUE,
        "data": {
            "tls.crt": STANDARD.encode(certificate.pem()),
            "tls.key": STANDARD.encode(key.serialize_pem()),
            "ca.crt": STANDARD.encode(bundle),
        },
    }))
}

/// Parameters of a certificate with this common name and these DNS names, without its usages.
fn params(
    subject: &str,
    hosts: Vec<String>,
    from: Timestamp,
    until: Timestamp,
) -> std::result::Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = name(subject);
    params.not_before = clock(from).into();
    params.not_after = clock(until).into();
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

/// Signs with the key in the Secret of the CA of this name.
fn sign(
    params: &CertificateParams,
    key: &KeyPair,
    authority: &str,
    secret: &Value,
) -> std::result::Result<rcgen::Certificate, rcgen::Error> {
    let mut issuer = CertificateParams::default();
    issuer.distinguished_name = name(authority);
    let signing = KeyPair::from_pem(&file(secret, "tls.key"))?;
    params.signed_by(key, &Issuer::new(issuer, signing))
}

fn cannot(subject: &str, why: rcgen::Error) -> Error {
    Error::setup(format!("cannot create a certificate for {subject}"), why)
}

fn replaced_signer_error(signer: &Key) -> Error {
    Error::new(ErrorKind::Conflict, format!("{signer} contains another CA by now"))
}

fn name(text: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, text);
    name
}

fn clock(time: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(time.as_second()).unwrap_or_default())
}

/// A file in a Secret; empty if it is missing.
fn file(secret: &Value, name: &str) -> String {
    let text = secret["data"][name].as_str().unwrap_or_default();
    STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}
