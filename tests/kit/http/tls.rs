//! An authority of our own, made anew for each test.

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;

/// A certificate authority that nobody knows but those who are given its PEM.
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes one.
    pub fn new() -> Authority {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "A test's authority");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// Its certificate, for those who are to trust it.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A new certificate for this host, and its key, for a server that wants them as files.
    pub fn certificate_pem(&self) -> (String, String) {
        self.certificate_pem_for(&["localhost", "127.0.0.1"])
    }

    /// The same for hosts of these names and addresses.
    pub fn certificate_pem_for(&self, hosts: &[&str]) -> (String, String) {
        let (certificate, key) = self.certificate_for(hosts);
        (certificate.pem(), key.serialize_pem())
    }

    /// A new certificate for this host, and its key.
    pub(crate) fn certificate(&self) -> (Certificate, KeyPair) {
        self.certificate_for(&["localhost", "127.0.0.1"])
    }

    fn certificate_for(&self, hosts: &[&str]) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let params = CertificateParams::new(hosts).expect("names and addresses");
        (params.signed_by(&key, &self.issuer).expect("a certificate"), key)
    }

    pub(crate) fn server_config(&self) -> Arc<rustls::ServerConfig> {
        let (certificate, key) = self.certificate();
        let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a certificate and its key");
        Arc::new(config)
    }
}

impl Default for Authority {
    fn default() -> Self {
        Authority::new()
    }
}
