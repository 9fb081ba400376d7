//! Connection to the upload pod of a PVC by mutual TLS, for one request and one answer.
//!
//! ```text
//!  NAME.NAMESPACE.svc ─ DNS ─► addresses ─► TCP ─► TLS: its name, by the authority of upload pods ─► request ─► answer
//! ```
//!
//! DNS may not have the address of a pod that became ready a moment ago: connecting is retried until it
//! succeeds or times out. A request is never sent twice. Connection, request and body are one future:
//! dropping it ends all of them at once, and never completes a body that the client did not complete.

use crate::body::Passing;
use cluster_client::error::Error;
use cluster_model::objects::names;
use cluster_model::servers::PORT;
use error_core::chain;
use http::Request;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serve::transport::tls::{self, CurrentCertificate};
use serve::transport::{Authorities, HttpResponse, SILENCE, probe};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use transport::client::Connection;

/// Time limit for connecting, all attempts together.
const PATIENCE: Duration = Duration::from_secs(30);
/// Time limit for a lookup: a resolver asks again after 5 s, where a packet was lost.
const LOOKUP: Duration = Duration::from_secs(12);
/// Time limit for one attempt to connect, and for the TLS handshake.
const ATTEMPT: Duration = Duration::from_secs(5);
/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(250);
/// Size of the connection's buffer.
const BUFFER: usize = 64 << 10;
/// Largest answer. An upload server answers with one sentence.
const LARGEST: usize = 64 << 10;

/// Client of upload pods.
pub(crate) struct Pods {
    /// Client certificate that is shown to upload pods.
    pub(crate) shown: Arc<CurrentCertificate>,
    /// Authorities that sign the certificates of upload pods.
    pub(crate) authorities: Arc<Authorities>,
    /// One address for all upload pods, in tests.
    pub(crate) at: Option<SocketAddr>,
}

/// A connection to a pod.
pub(crate) struct Pod {
    stream: TlsStream<TcpStream>,
}

/// The host of the upload pod of a PVC.
pub(crate) fn host(namespace: &str, pvc: &str) -> String {
    format!("{}.{namespace}.svc", names::uploader(pvc))
}

impl Pods {
    /// True once the client certificate and the authorities are known.
    pub(crate) fn are_known(&self) -> bool {
        self.shown.is_signed() && self.config().is_ok()
    }

    /// Connects and does the TLS handshake. An error gives the reason.
    pub(crate) async fn connect(&self, host: &str) -> Result<Pod, String> {
        let config = self.config().map_err(|error| error.chain())?;
        let name = ServerName::try_from(host.to_owned()).map_err(|error| format!("{host}: {error}"))?;
        let end = Instant::now() + PATIENCE;
        let stream = loop {
            match self.dial(host).await {
                Ok(stream) => break stream,
                Err(why) if Instant::now() + PAUSE > end => return Err(why),
                Err(_) => sleep(PAUSE).await,
            }
        };
        probe(&stream, SILENCE);
        // Small pieces are sent at once instead of waiting for more data.
        let _ = stream.set_nodelay(true);
        let shaken = timeout(ATTEMPT, TlsConnector::from(config).connect(name, stream)).await;
        match shaken {
            Ok(Ok(stream)) => Ok(Pod { stream }),
            Ok(Err(error)) => Err(format!("TLS with {host}:{PORT}: {error}")),
            Err(_) => Err(format!(
                "{host}:{PORT} did not complete the TLS handshake within {} s",
                ATTEMPT.as_secs()
            )),
        }
    }

    fn config(&self) -> Result<Arc<ClientConfig>, Error> {
        tls::client_config(Arc::clone(&self.shown), &self.authorities)
    }

    async fn dial(&self, host: &str) -> Result<TcpStream, String> {
        let addresses: Vec<SocketAddr> = match self.at {
            Some(address) => vec![address],
            None => {
                let found = timeout(LOOKUP, lookup_host((host, PORT))).await;
                let found = found.map_err(|_| format!("DNS did not answer the lookup of {host} in time"))?;
                found.map_err(|error| format!("DNS lookup of {host} failed: {error}"))?.collect()
            }
        };
        let mut why = format!("DNS has no address of {host}");
        for address in addresses {
            match timeout(ATTEMPT, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(error)) => why = format!("{host} at {address}: {error}"),
                Err(_) => why = format!("{host} at {address} did not answer within {} s", ATTEMPT.as_secs()),
            }
        }
        Err(why)
    }
}

impl Pod {
    /// Sends a request and waits for the complete answer. An error gives the reason.
    pub(crate) async fn asks(self, request: Request<Passing>) -> Result<HttpResponse, String> {
        let broke =
            |error: hyper::Error| format!("the connection to the upload pod broke: {}", chain(&error));
        let mut connection = Connection::begin(self.stream, BUFFER).await.map_err(broke)?;
        let (head, body) = connection.send(request).await.map_err(broke)?.into_parts();
        let body = connection.whole(body, LARGEST).await;
        let body = body.map_err(|error| format!("the answer of the upload pod is incomplete: {error}"))?;
        Ok(HttpResponse::from_parts(head, body.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_pvc_makes_the_name_of_a_host() {
        assert_eq!(host("n", "disk"), "cdi-upload-disk.n.svc");
        let long = host("n", &"a.".repeat(126));
        assert!(ServerName::try_from(long.clone()).is_ok(), "{long}");
    }

    #[test]
    fn nobody_is_dialled_before_the_authority_is_known() {
        let pods = Pods { shown: Arc::default(), authorities: Arc::default(), at: None };
        assert!(!pods.are_known());
    }
}
