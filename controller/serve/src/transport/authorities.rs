//! Clients with a certificate: our programs that send requests to each other (mutual TLS).
//!
//! ```text
//!  ConfigMap kubevirt-ca ─take()─► Authorities ◄─ each handshake ─ a certificate for clients, or none
//!                                       ├──────► IncomingRequest::client: Client::is_called("virt-api.kubevirt.svc")
//!                                       └─ the other end: whom tls::client_config believes to be a server of ours
//! ```
//!
//! A client with a certificate that has expired, or that none of our authorities has signed for clients, is
//! refused in the handshake. TLS sessions are not resumed if certificates are requested: a resumed session would stay trusted after its
//! authority was removed.

use cluster_client::error::{Error, ErrorKind, Result};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use std::sync::{Arc, PoisonError, RwLock};

/// Authorities that sign the certificates of clients and of our servers; `None` at first.
#[derive(Debug)]
pub struct Authorities {
    believed: RwLock<Option<Believed>>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Trusted authorities, and the verifier of client certificates.
#[derive(Clone, Debug)]
struct Believed {
    roots: Arc<RootCertStore>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Default for Authorities {
    fn default() -> Authorities {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        Authorities { believed: RwLock::default(), algorithms }
    }
}

impl Authorities {
    /// Trusts these authorities from now on, and no others. A text without an authority is an error and
    /// changes nothing.
    pub fn take(&self, pem: &str) -> Result<()> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let authority =
                authority.map_err(|e| Error::setup("cannot read the certificate of an authority", e))?;
            roots
                .add(authority)
                .map_err(|e| Error::setup("cannot use the certificate of an authority", e))?;
        }
        if roots.is_empty() {
            return Err(Error::new(ErrorKind::Setup, "the text has no certificate of an authority"));
        }
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider)
            .build()
            .map_err(|e| Error::setup("cannot verify clients by the authorities", e))?;
        *self.believed.write().unwrap_or_else(PoisonError::into_inner) = Some(Believed { roots, verifier });
        Ok(())
    }

    /// Trusted authorities; `None` until they are known.
    pub(super) fn roots(&self) -> Option<Arc<RootCertStore>> {
        Some(self.believed()?.roots)
    }

    fn believed(&self) -> Option<Believed> {
        self.believed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientCertVerifier for Authorities {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        match self.believed() {
            Some(believed) => believed.verifier.verify_client_cert(certificate, between, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
