//! TLS between two virt-handlers that know each other's certificate by its fingerprint.

use super::certificate::{Certificate, Fingerprint};
use crate::error::{Error, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    SupportedCipherSuite,
};
use std::sync::Arc;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The one cipher of migrations. Processors have instructions for it, and a stream is as fast as with any other:
/// the test `throughput_of_one_stream` measures it.
const CIPHER: SupportedCipherSuite = TLS13_AES_128_GCM_SHA256;
/// Protocol of the streams, so that virt-handlers of different versions refuse each other in the handshake.
const PROTOCOL: &[u8] = b"coracle-migration/1";

/// Acceptor that shows this certificate, and accepts a client with the pinned one alone.
pub(super) fn acceptor(own: &Certificate, client: Fingerprint) -> Result<TlsAcceptor> {
    let provider = provider(CIPHER);
    let verifier = PinnedCertificate::new(client, &provider);
    let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(cannot)?.with_client_cert_verifier(verifier);
    let mut config = builder.with_cert_resolver(own.key());
    // A resumed session would skip the check of the certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Connector that shows this certificate, and accepts a server with the pinned one alone.
pub(super) fn connector(own: &Certificate, server: Fingerprint) -> Result<TlsConnector> {
    connector_with(CIPHER, own.key(), server)
}

pub(super) fn connector_with(
    cipher: SupportedCipherSuite,
    own: Arc<dyn ResolvesClientCert>,
    server: Fingerprint,
) -> Result<TlsConnector> {
    let provider = provider(cipher);
    let verifier = PinnedCertificate::new(server, &provider);
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13]);
    let builder = builder.map_err(cannot)?.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = builder.with_client_cert_resolver(own);
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

fn provider(cipher: SupportedCipherSuite) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { cipher_suites: vec![cipher], ..ring::default_provider() })
}

fn cannot(e: rustls::Error) -> Error {
    Error::failed("cannot make the TLS settings of a migration").because(e)
}

/// Verifier of a peer that has the key of one certificate. Its names and its time of validity do not matter.
#[derive(Debug)]
struct PinnedCertificate {
    fingerprint: Fingerprint,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PinnedCertificate {
    fn new(fingerprint: Fingerprint, provider: &CryptoProvider) -> Arc<PinnedCertificate> {
        let algorithms = provider.signature_verification_algorithms;
        Arc::new(PinnedCertificate { fingerprint, algorithms })
    }

    fn check(&self, certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        match Fingerprint::of(certificate) == self.fingerprint {
            true => Ok(()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    /// Checks that the peer has the key of its certificate.
    fn check_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }
}

/// Error for a version of TLS that is not offered.
fn old_version_error() -> rustls::Error {
    rustls::Error::General("a migration uses TLS 1.3 only".to_owned())
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(certificate).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(old_version_error())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for PinnedCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(certificate).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(old_version_error())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
