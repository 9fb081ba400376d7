//! Certificates: name, validity period, and whether an authority signed them.
//!
//! Name and dates are parsed from the certificate itself ([`api::der`]). The TLS library verifies
//! the signature, as it does when the certificate is presented.

use api::der::{Body, next};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use jiff::civil::DateTime;
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use std::sync::Arc;
use std::time::Duration;

/// Maximum length of a text that is read: certificates are small.
const LONGEST: usize = 256 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The subject's common name; `None` if it has none or several.
    pub name: Option<String>,
    /// Start of the validity period.
    pub from: Timestamp,
    /// End of the validity period.
    pub until: Timestamp,
    /// The whole certificate in DER.
    pub der: CertificateDer<'static>,
}

impl Certificate {
    /// The first certificate in a PEM text.
    pub fn from_pem(pem: &str) -> Option<Certificate> {
        all(pem).into_iter().next()
    }

    /// The certificate that a TLS peer presented.
    pub fn from_der(der: &[u8]) -> Option<Certificate> {
        if der.len() > LONGEST { None } else { read(der.to_vec().into()) }
    }

    /// True if it is a server certificate for all these names, signed by this authority and valid now.
    pub fn is_from(&self, authority: &Certificate, hosts: &[impl AsRef<str>], now: Timestamp) -> bool {
        let (Ok(certificate), Some((roots, now))) =
            (ParsedCertificate::try_from(&self.der), authority.trusted_at(now))
        else {
            return false;
        };
        let is_named = |host: &str| {
            ServerName::try_from(host).is_ok_and(|host| verify_server_name(&certificate, &host).is_ok())
        };
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        verify_server_cert_signed_by_trust_anchor(&certificate, &roots, &[], now, algorithms.all).is_ok()
            && hosts.iter().all(|host| is_named(host.as_ref()))
    }

    /// True if it is a client certificate, signed by this authority and valid now.
    pub fn is_clients(&self, authority: &Certificate, now: Timestamp) -> bool {
        let Some((roots, now)) = authority.trusted_at(now) else { return false };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        verifier.is_ok_and(|verifier| verifier.verify_client_cert(&self.der, &[], now).is_ok())
    }

    /// The certificate as the only trusted authority, and the time, in the types of the TLS library.
    fn trusted_at(&self, now: Timestamp) -> Option<(RootCertStore, UnixTime)> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).ok()?;
        let seconds = u64::try_from(now.as_second()).ok()?;
        Some((roots, UnixTime::since_unix_epoch(Duration::from_secs(seconds))))
    }
}

/// All certificates in a PEM text. Everything else is skipped.
pub fn all(pem: &str) -> Vec<Certificate> {
    let text = pem.get(..pem.len().min(LONGEST)).unwrap_or_default();
    CertificateDer::pem_slice_iter(text.as_bytes()).filter_map(|der| read(der.ok()?)).collect()
}

/// A certificate as PEM.
pub fn pem(certificate: &Certificate) -> String {
    armoured("CERTIFICATE", &certificate.der)
}

/// DER as PEM (RFC 7468).
pub(super) fn armoured(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

const UTC_TIME: u8 = 0x17;
const GENERAL_TIME: u8 = 0x18;

fn read(der: CertificateDer<'static>) -> Option<Certificate> {
    let body = Body::parse(&der)?;
    let (kind, from, dates) = next(body.dates)?;
    let from = time(kind, from)?;
    let (kind, until, _) = next(dates)?;
    let until = time(kind, until)?;
    let name = body.common_name().map(str::to_owned);
    Some(Certificate { name, from, until, der })
}

/// `YYMMDDHHMMSSZ` (1950 to 2049) or `YYYYMMDDHHMMSSZ`.
fn time(kind: u8, text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let (year, rest) = match kind {
        UTC_TIME => text.split_at_checked(2)?,
        GENERAL_TIME => text.split_at_checked(4)?,
        _ => return None,
    };
    if rest.len() != 10 || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number = |at: usize| rest.get(at..at + 2)?.parse::<i8>().ok();
    let year: i16 = year.parse().ok()?;
    let year = match (kind, year) {
        (UTC_TIME, 50..) => 1900 + year,
        (UTC_TIME, _) => 2000 + year,
        _ => year,
    };
    let date = DateTime::new(year, number(0)?, number(2)?, number(4)?, number(6)?, number(8)?, 0).ok()?;
    Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    fn certificate() -> rcgen::Certificate {
        let mut params = CertificateParams::new(vec!["a.b".into()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "kubevirt.io@7");
        params.not_before = rcgen::date_time_ymd(2026, 11, 22);
        params.not_after = rcgen::date_time_ymd(2061, 2, 3);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    #[test]
    fn a_certificate_says_its_name_and_its_dates() {
        let read = Certificate::from_pem(&certificate().pem()).unwrap();
        assert_eq!(read.name.as_deref(), Some("kubevirt.io@7"));
        assert_eq!(read.from.to_string(), "2026-11-22T00:00:00Z");
        assert_eq!(read.until.to_string(), "2061-02-03T00:00:00Z");
        assert_eq!(Certificate::from_pem(&pem(&read)), Some(read.clone()));
        assert_eq!(all(&format!("{}nonsense\n{}", pem(&read), pem(&read))).len(), 2);
    }

    #[test]
    fn the_common_name_is_found_among_others_and_two_are_none() {
        let with = |more: &[(DnType, &str)]| {
            let mut params = CertificateParams::new(vec![]).unwrap();
            params.distinguished_name = DistinguishedName::new();
            for (kind, text) in more {
                params.distinguished_name.push(kind.clone(), *text);
            }
            let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
            Certificate::from_der(&der).unwrap().name
        };
        let (organization, name) = (DnType::OrganizationName, DnType::CommonName);
        assert_eq!(with(&[(organization, "x"), (name.clone(), "proxy")]).as_deref(), Some("proxy"));
        // 2.5.4.3 as a custom OID, which the library does not recognize as the common name.
        let again = DnType::CustomDnType(vec![2, 5, 4, 3]);
        assert_eq!(with(&[(name, "proxy"), (again, "kubelet")]), None);
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn what_is_none_is_left_out() {
        for text in ["", "x", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"] {
            assert_eq!(Certificate::from_pem(text), None);
        }
        let der = certificate().der().to_vec();
        for end in 0..der.len() {
            assert_eq!(read(CertificateDer::from(der[..end].to_vec())), None, "{end}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(at in 0_usize..400, byte in any::<u8>()) {
            let mut der = certificate().der().to_vec();
            let at = at % der.len();
            der[at] = byte;
            let _ = read(CertificateDer::from(der));
        }
    }
}
