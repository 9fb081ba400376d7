//! Clients with a certificate: our programs that send requests to each other (mutual TLS).
//!
//! A client without a certificate is served too, since the kubelet's probes and monitors have none: each handler
//! decides whether it requires one ([`IncomingRequest::client`](super::IncomingRequest)). A client whose certificate
//! is not valid is refused in the handshake.

use rustls::ServerConnection;
use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// A client whose certificate was verified in the handshake.
#[derive(Clone, Debug)]
pub struct Client(CertificateDer<'static>);

impl Client {
    /// Client of a connection after its handshake; `None` without a certificate.
    pub(super) fn of(connection: &ServerConnection) -> Option<Client> {
        connection.peer_certificates()?.first().cloned().map(Client)
    }

    /// True if the certificate has this name.
    pub fn is_called(&self, name: &str) -> bool {
        let (Ok(certificate), Ok(name)) = (ParsedCertificate::try_from(&self.0), ServerName::try_from(name))
        else {
            return false;
        };
        verify_server_name(&certificate, &name).is_ok()
    }

    /// The certificate, in DER.
    pub fn der(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_be_told_by_its_whole_certificate() {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["virt-api.kubevirt.svc".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        assert_eq!(Client(certificate.der().clone()).der(), certificate.der().as_ref());
    }
}
